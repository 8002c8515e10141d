"""When runs reach a target, as far as their evaluations show.

A curve is evaluated every k rounds, so the round of reaching is known to lie between two evaluations, and no better: an
interval. A run that ends short of the target reaches it later than its last evaluation. Methods are compared within one
horizon, since a longer run has more chances to reach.

Shapes: P pairs of runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import ndtr

from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments.protocol import EASY_SHARE, target_of
from zorba_core.study.experiments.statistics import Mean
from zorba_core.study.experiments.store import Results

COSTS = {"rounds": "round", "passes": "forward_passes"}
_GRID, _STEP = 6.0, 0.005  # logarithms of ratios that are tried: 1/400 to 400
# Seeds whose ratios differ by less than 10 % would be implausible; without a floor, wide intervals that share a
# stretch would pass for a spread of zero.
_SIGMA_S = np.geomspace(0.1, 3.0, 60)


class Crossing(NamedTuple):
    """The target is reached after ``low`` and not after ``high``; ``high`` is infinite when it was not reached."""

    low: float
    high: float


def crossing(cost: Sequence[float], values: Sequence[float], target: float, horizon: float = math.inf) -> Crossing:
    """Where a rising curve first reaches ``target``, between which two evaluations; what lies beyond ``horizon`` is
    not looked at."""
    points = [(at, value) for at, value in zip(cost, values, strict=True) if at <= horizon]
    before = 0.0
    for at, value in points:
        if value >= target:
            return Crossing(before if at > 0 else 0.0, float(at))
        before = float(at)
    return Crossing(before, math.inf)


def horizons(results: Results, cost: str = "rounds") -> pd.Series:
    """How far each arm's measured runs were asked to go, by dataset and arm: the same for every arm is fair."""
    runs = results.runs[results.runs["role"] == "measure"]
    spent = results.curves.merge(runs[["sha256", "dataset", "arm", "rounds"]], on="sha256")
    spent = spent[spent["round"] > 0]
    each = (spent[COSTS[cost]] / spent["round"] * spent["rounds"]).groupby([spent["dataset"], spent["arm"]])
    return each.median()


def with_crossing_intervals(
    results: Results, share: float = EASY_SHARE, cost: str = "rounds", horizon: float = math.inf
) -> pd.DataFrame:
    """The measured runs that finished, with ``low`` and ``high`` of their :class:`Crossing` of ``share`` of the
    first-order ceiling, in ``cost``."""
    runs = results.runs[(results.runs["role"] == "measure") & (results.runs["status"] == "finished")]
    curves = results.curve_by_run
    reached = [
        crossing(
            curves[row.sha256][COSTS[cost]].tolist(),
            curves[row.sha256]["accuracy"].tolist(),
            target_of(row.dataset, share),
            horizon,
        )
        if row.sha256 in curves
        else Crossing(0.0, math.inf)
        for row in runs.itertuples()
    ]
    return runs.assign(low=[each.low for each in reached], high=[each.high for each in reached])


def median_crossing(crossings: Sequence[Crossing]) -> Crossing:
    """The interval in which the median of several crossings lies: the median of the low ends to that of the high."""
    return Crossing(*(float(np.median(ends)) for ends in zip(*crossings, strict=True)))


def crossing_text(crossing: Crossing) -> str:
    """``10 to 15``, or ``more than 60``."""
    return (
        f"{crossing.low:,.0f} to {crossing.high:,.0f}"
        if math.isfinite(crossing.high)
        else f"more than {crossing.low:,.0f}"
    )


def ratio_interval(low_P: ArrayLike, high_P: ArrayLike, level: float = 0.95) -> Mean | None:
    """Mean logarithm of ratios that are known as intervals only, by maximum likelihood under a normal law.

    ``low_P`` and ``high_P`` are logarithms; -inf and inf mean that nothing bounds the ratio on that side. Pairs with
    no bound at all tell nothing and do not count. The interval is a profile-likelihood one, with the cutoff that makes
    it Student's t interval where every ratio is known exactly. None when no pair tells anything.

    Raises:
        InvalidInputError: an interval whose ends are the wrong way round.
    """
    low_P, high_P = np.asarray(low_P, float), np.asarray(high_P, float)
    if (low_P > high_P).any():
        raise InvalidInputError("an interval of ratios begins after its end")
    telling = np.isfinite(low_P) | np.isfinite(high_P)
    low_P, high_P, count = low_P[telling], high_P[telling], int(telling.sum())
    if count == 0:
        return None
    mu_U = np.arange(-_GRID, _GRID + _STEP / 2, _STEP)
    best_U = np.full(mu_U.shape, -np.inf)  # the profile: at each mean, the likelihood at its best spread
    for sigma in _SIGMA_S:
        a_UP, b_UP = (low_P - mu_U[:, None]) / sigma, (high_P - mu_U[:, None]) / sigma
        # The upper tail is counted from above, where small numbers are exact.
        mirrored = a_UP > 0
        a_UP, b_UP = np.where(mirrored, -b_UP, a_UP), np.where(mirrored, -a_UP, b_UP)
        mass_UP = np.maximum(ndtr(b_UP) - ndtr(a_UP), 1e-300)
        best_U = np.maximum(best_U, np.log(mass_UP).sum(axis=1))
    top = best_U >= best_U.max() - 1e-9  # a plateau where the intervals share a stretch
    value = float(mu_U[top].mean()) if not (top[0] or top[-1]) else math.inf if top[-1] else -math.inf
    if count == 1:
        return Mean(value, -math.inf, math.inf, 1)
    t = stats.t.ppf((1 + level) / 2, count - 1)
    inside = 2 * (best_U.max() - best_U) <= count * math.log1p(t**2 / (count - 1))
    low = -math.inf if inside[0] else float(mu_U[inside][0])
    high = math.inf if inside[-1] else float(mu_U[inside][-1])
    return Mean(value, low, high, count)
