"""What the experiment ``lambda`` says and what it leaves open: each question once, for ledger, report and notebook.

The 33 allocations of 20 clients were chosen to differ, not drawn from anything, so a correlation over all of them is a
property of that choice. Those that solvers return and those built by hand are therefore looked at apart.

Shapes: K allocations (arms), S seeds, R resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.study.experiments.analysis import allocation_table, losses_by_seed, noise_law, runs_under
from zorba_core.study.experiments.lambda_law import IID, recipes_20, recipes_50
from zorba_core.study.experiments.measures import PREDICTORS
from zorba_core.study.experiments.resampling import ArmsTest, arms_differ, holm, percentile_interval, two_way_resamples
from zorba_core.study.experiments.statistics import Law, partial_spearman, rank_correlation, spearman
from zorba_core.study.experiments.store import Results

SOLVED, BUILT, RANDOM = "returned by a solver", "built by hand", "drawn at random"
# A matrix made for a printed (ratio, Lambda) is built to that Lambda: nobody's solver would return it.
_MADE_BY = {"uniform": SOLVED, "solver": SOLVED, "popularity": BUILT, "scenario": BUILT, "random": RANDOM}
CONDITIONS: Mapping[str, Mapping[str, float | None]] = {
    "Dir(1.0), η = 0.02": {},
    "Dir(1.0), own η": {"lr": None},
    "IID": {"alpha": IID},
    "Dir(0.1)": {"alpha": 0.1},
    "50 clients": {"num_clients": 50},
}
# Slopes of V and E from an earlier test, written down before these runs: eight allocations of 24 clients on SST-2,
# another base model (H = 64), eta = 1e-2, 60 rounds, six seeds.
WRITTEN_BEFORE = {"V": 0.098, "E": 0.0136}
_LEFT_OUT = 4  # allocations, one after the other
_EQUAL_TOTAL = 80  # blocks
_FEWEST = 4  # allocations that a correlation needs
FEWEST_ARMS = 2  # and seeds, that a test whether arms differ needs


@dataclass(frozen=True, eq=False)
class TrainedAlike:
    """Allocations that were trained alike."""

    table: pd.DataFrame  # allocation_table, with a column made_by
    losses: pd.DataFrame  # arm x seed, late loss

    def only(self, arms: Sequence[str]) -> TrainedAlike:
        return TrainedAlike(self.table.loc[list(arms)], self.losses.loc[list(arms)])

    def made_by(self, group: str) -> TrainedAlike:
        return self.only(self.table.index[self.table["made_by"] == group])


class Influence(NamedTuple):
    """A law without the allocations that weigh most in it, the heaviest first, each time fitted anew."""

    left_out: tuple[str, ...]
    leverage: float  # of the allocation left out last, in the fit that still had it; NaN for the whole
    law: Law


def compared(results: Results, **condition: float | None) -> TrainedAlike:
    """Arms with every seed under a condition (arguments of :func:`allocation_table`).

    Raises:
        MissingDataError: no such runs.
    """
    table = allocation_table(results, **condition)
    losses = losses_by_seed(runs_under(results, **condition))
    kinds = {name: recipe.kind for name, recipe in {**recipes_50(), **recipes_20()}.items()}
    table["made_by"] = [_MADE_BY.get(kinds.get(arm, ""), BUILT) for arm in table.index]
    arms = [arm for arm in table.index if arm in losses.index]
    return TrainedAlike(table.loc[arms], losses.loc[arms])


def predictors(comparison: TrainedAlike, measures: Sequence[str] = PREDICTORS) -> pd.DataFrame:
    """How well each measure ranks the allocations. Index: measure. Columns: Spearman's rho ``value``, its 95 % interval
    ``low, high`` over arms and seeds, ``p_value`` by permutation and ``holm`` (the measures of this table), the partial
    rho with T held fixed and its interval, ``count``. A partial rho that most resamples do not define (among
    allocations where Lambda follows T) has no interval.

    Raises:
        InvalidInputError: too few allocations.
    """
    loss_KS = comparison.losses.to_numpy()
    if len(loss_KS) < _FEWEST:
        raise InvalidInputError(f"{len(loss_KS)} allocations are too few to correlate; at least {_FEWEST} are needed")
    y_K = loss_KS.mean(axis=-1)
    arm_RK, y_RK = two_way_resamples(loss_KS)
    rows = {}
    for measure in measures:
        x_K = comparison.table[measure].to_numpy(float)
        if len(set(x_K)) == 1:  # as T among allocations of one total
            continue
        rank = rank_correlation(x_K, y_K, resamples=9999)
        low, high = percentile_interval(spearman(x_K[arm_RK], y_RK))
        row = {"value": rank.value, "low": low, "high": high, "p_value": rank.p_value}
        row |= _partial(x_K, y_K, comparison.table["T"].to_numpy(float), arm_RK, y_RK)
        rows[measure] = row | {"count": len(loss_KS)}
    ranked = pd.DataFrame.from_dict(rows, orient="index")
    ranked.insert(4, "holm", holm(ranked["p_value"]))
    return ranked


def _partial(x_K: NDArray, y_K: NDArray, fixed_K: NDArray, arm_RK: NDArray, y_RK: NDArray) -> dict[str, float]:
    nothing = {"partial": np.nan, "partial_low": np.nan, "partial_high": np.nan}
    # 1/T is T to a rank correlation: nothing is left of a measure that is held fixed itself.
    if len(set(fixed_K)) == 1 or abs(float(spearman(x_K, fixed_K))) > 1 - 1e-9:
        return nothing
    low, high = percentile_interval(partial_spearman(x_K[arm_RK], y_RK, fixed_K[arm_RK]))
    value = float(partial_spearman(x_K, y_K, fixed_K))
    return {"partial": value, "partial_low": low, "partial_high": high}


def do_arms_differ(comparison: TrainedAlike) -> tuple[ArmsTest, str, ArmsTest]:
    """The test of all arms; the arm without which they differ least clearly, and the test without it."""
    finite = comparison.losses[np.isfinite(comparison.losses).all(axis=1)]
    whole = arms_differ(finite)
    quick = {arm: arms_differ(finite.drop(index=arm), resamples=1).p_value for arm in finite.index}
    telling = max(quick, key=quick.get)
    return whole, telling, arms_differ(finite.drop(index=telling))


def influence(table: pd.DataFrame) -> list[Influence]:
    """The law of all allocations, then without the one of most leverage, and so on four times."""
    ended, left_out = table[np.isfinite(table["loss"])], []
    steps = [Influence((), np.nan, noise_law(ended))]
    for _ in range(_LEFT_OUT):
        leverage_K = steps[-1].law.leverage_K
        heaviest = int(np.argmax(leverage_K))
        left_out.append(ended.index[heaviest])
        ended = ended.drop(index=left_out[-1])
        steps.append(Influence(tuple(left_out), float(leverage_K[heaviest]), noise_law(ended)))
    return steps


def conditions(results: Results) -> dict[str, TrainedAlike]:
    """Every condition that has runs."""
    there = {}
    for title, condition in CONDITIONS.items():
        try:
            there[title] = compared(results, **condition)
        except MissingDataError:
            continue
    return there


def equal_total(comparison: TrainedAlike) -> TrainedAlike:
    """The allocations of 80 blocks, where the amount of VRAM explains nothing."""
    return comparison.only(comparison.table.index[comparison.table["T"] == _EQUAL_TOTAL])
