"""Learning curves as numbers: one run's, smoothed, or several seeds as a mean with a band.

Shapes: P points of a curve, R runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zorba_core.data.task import METRIC_TITLES
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

    from zorba_core.runs import Run

BANDS = {
    "deviation": "mean ± standard deviation",
    "interval": "mean and its 95 % interval (Student's t)",
    "range": "mean, smallest and largest",
}


class Reached(NamedTuple):
    """Where a run's accuracy first was at least its target."""

    x: float
    y: float
    round: int


@dataclass(frozen=True, eq=False)
class Curve:
    """A measure against a cost. ``low_P`` and ``high_P`` bound the band of a group; None for a single run.

    Where a run of a group ended earlier than another, its last value goes on: from ``held_from`` on the curve is of
    runs that are still going and of last values. ``seeds`` are the runs of a group as they are.
    """

    name: str
    x_P: NDArray[np.float64]
    y_P: NDArray[np.float64]
    round_P: NDArray[np.float64]
    runs: int = 1
    low_P: NDArray[np.float64] | None = None
    high_P: NDArray[np.float64] | None = None
    raw_P: NDArray[np.float64] | None = None  # before smoothing
    reached: Reached | None = None
    held_from: float | None = None
    seeds: tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...] = ()  # (x, y) of each run


def curve_of(run: Run, *, measure: str, cost: str) -> Curve:
    """The rows of ``run.metrics`` in which ``measure`` and ``cost`` are known.

    Raises:
        InvalidInputError: the run does not tell one of them.
    """
    for column in (measure, cost):
        if column not in run.metrics:
            raise InvalidInputError(f"run {run.name} does not tell its {column}; choose another measure or cost")
    rows = run.metrics.dropna(subset=[measure, cost])
    first = target_reached(run) if measure == "eval_accuracy" else None
    return Curve(
        name=run.name,
        x_P=rows[cost].to_numpy(np.float64),
        y_P=rows[measure].to_numpy(np.float64),
        round_P=rows["round"].to_numpy(np.float64),
        reached=None if first is None else Reached(float(first[cost]), float(first[measure]), int(first["round"])),
    )


def smoothed(curve: Curve, weight: float) -> Curve:
    """The exponential moving average y'_p = w y'_{p-1} + (1 - w) y_p, divided by 1 - w^p so that its start is not
    drawn towards 0; as TensorBoard's slider does. The curve as it was stays in ``raw_P``.

    Raises:
        InvalidInputError: a weight outside [0, 1).
    """
    if not 0 <= weight < 1:
        raise InvalidInputError(f"smoothing is {weight}; it lies from 0 to below 1")
    if weight == 0:
        return curve

    def average(values_P: NDArray[np.float64]) -> NDArray[np.float64]:
        mean, averaged_P = 0.0, np.empty_like(values_P)
        for p, value in enumerate(values_P):
            mean = weight * mean + (1 - weight) * value
            averaged_P[p] = mean / (1 - weight ** (p + 1))
        return averaged_P

    low_P, high_P = (None if bound is None else average(bound) for bound in (curve.low_P, curve.high_P))
    return replace(curve, y_P=average(curve.y_P), raw_P=curve.y_P, low_P=low_P, high_P=high_P)


def group_of(name: str, curves: Sequence[Curve], band: str = "deviation") -> Curve:
    """Several runs as one curve: their mean from where all of them have begun, between points by straight lines. A run
    that ended keeps its last value, so that no mean continues with the slower runs alone.

    ``band``: a key of :data:`BANDS`; deviation and interval take R - 1 degrees of freedom.

    Raises:
        InvalidInputError: no curves, or an unknown band.
    """
    _check_band(band)
    curves = [curve for curve in curves if curve.x_P.size]
    if not curves:
        raise InvalidInputError(f"group {name!r} has no curve to draw")
    if len(curves) == 1:
        return replace(curves[0], name=name)
    start, ends = max(curve.x_P[0] for curve in curves), [curve.x_P[-1] for curve in curves]
    x_P = np.unique(np.concatenate([curve.x_P for curve in curves]))
    x_P = x_P[x_P >= start]
    if not x_P.size or start > min(ends):
        raise InvalidInputError(f"the runs of group {name!r} have no stretch in common")
    y_RP = np.stack([np.interp(x_P, curve.x_P, curve.y_P) for curve in curves])
    mean_P, low_P, high_P = spread_of(y_RP, band)
    longest = max(curves, key=lambda curve: curve.x_P[-1])
    round_P = np.interp(x_P, longest.x_P, longest.round_P)
    return Curve(
        name,
        x_P,
        mean_P,
        round_P,
        runs=len(curves),
        low_P=low_P,
        high_P=high_P,
        held_from=float(min(ends)) if min(ends) < max(ends) else None,
        seeds=tuple((curve.x_P, curve.y_P) for curve in curves),
    )


def spread_of(values_RP: NDArray[np.float64], band: str) -> tuple[NDArray, NDArray, NDArray]:
    """(mean, low, high) over the runs, the first axis; of at least two.

    Raises:
        InvalidInputError: an unknown band.
    """
    _check_band(band)
    mean_P = values_RP.mean(axis=0)
    if band == "range":
        return mean_P, values_RP.min(axis=0), values_RP.max(axis=0)
    width_P = values_RP.std(axis=0, ddof=1)
    if band == "interval":
        from scipy.stats import t

        width_P = width_P * t.ppf(0.975, len(values_RP) - 1) / np.sqrt(len(values_RP))
    return mean_P, mean_P - width_P, mean_P + width_P


def _check_band(band: str) -> None:
    if band not in BANDS:
        raise InvalidInputError(f"unknown band {band!r}; choose one of {', '.join(BANDS)}")


def target_reached(run: Run) -> pd.Series | None:
    """The first evaluated row at which the run's accuracy was at least its target; None if it never was."""
    if not has_target(run):
        return None
    rows = run.evaluations
    rows = rows[rows["eval_accuracy"] >= run.config["target"]]
    return rows.iloc[0] if len(rows) else None


def metric_of(run: Run) -> str:
    """What the run counts as right, as people read it: accuracy, or exact match where a text is written."""
    data = run.environment.get("data")
    name = data.get("metric") if isinstance(data, dict) else None
    return METRIC_TITLES[name if isinstance(name, str) and name in METRIC_TITLES else "accuracy"]


def metrics_of(runs: Sequence[Run]) -> str:
    """Of all of these: "accuracy or exact match" where they differ."""
    return " or ".join(dict.fromkeys(metric_of(run) for run in runs)) or METRIC_TITLES["accuracy"]


def has_target(run: Run) -> bool:
    target = run.config.get("target")
    return isinstance(target, int | float) and not isinstance(target, bool)
