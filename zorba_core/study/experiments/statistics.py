"""Numbers from tables of runs: means with intervals, rank and partial correlations, a linear law. Plain functions of
arrays, so that a test can check each against a case done by hand.

Shapes: K allocations (or runs), F features, S resamples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from zorba_core.errors import InvalidInputError


class Mean(NamedTuple):
    """A mean over seeds with its 95 % interval; the interval is infinite for a single seed."""

    value: float
    low: float
    high: float
    count: int


class Correlation(NamedTuple):
    """Spearman's rank correlation with a 95 % bootstrap interval over allocations and a permutation p-value."""

    value: float
    low: float
    high: float
    p_value: float
    count: int


class Law(NamedTuple):
    """Least squares y = intercept + sum_f slope_F x_KF."""

    intercept: float
    slope_F: NDArray[np.float64]
    r2_left_out: float  # of predictions each made without the allocation it is about
    leverage_K: NDArray[np.float64]  # weight of each allocation in its own fitted value: 0 none, 1 the law passes there


def mean_interval(values: ArrayLike, level: float = 0.95) -> Mean:
    """Mean and two-sided t interval.

    Raises:
        InvalidInputError: no values, or one that is not finite.
    """
    values = np.asarray(values, float)
    if values.size == 0 or not np.isfinite(values).all():
        raise InvalidInputError("a mean needs at least one value, and finite ones")
    mean = float(values.mean())
    if values.size == 1:
        return Mean(mean, -np.inf, np.inf, 1)
    half = stats.t.ppf((1 + level) / 2, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
    return Mean(mean, mean - float(half), mean + float(half), values.size)


def count_to_decide(mean: Mean, level: float = 0.95, most: int = 1000) -> int | None:
    """How many values an interval needs to leave out zero, if mean and deviation stay as they were found; None when
    more than ``most``, or when a single value tells no deviation."""
    if mean.count < 2 or mean.value == 0:
        return None
    deviation = (mean.high - mean.value) * np.sqrt(mean.count) / stats.t.ppf((1 + level) / 2, mean.count - 1)
    count_C = np.arange(2, most + 1)
    half_C = stats.t.ppf((1 + level) / 2, count_C - 1) * deviation / np.sqrt(count_C)
    enough = np.flatnonzero(half_C < abs(mean.value))
    return int(count_C[enough[0]]) if enough.size else None


def rank_correlation(x_K: ArrayLike, y_K: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> Correlation:
    """Spearman's rho; the interval resamples allocations, the p-value permutes them.

    Raises:
        InvalidInputError: fewer than four pairs, or nothing varies.
    """
    x_K, y_K = _pairs(x_K, y_K)
    rng = np.random.default_rng(seed)
    value = float(spearman(x_K, y_K))
    at_SK = rng.integers(len(x_K), size=(resamples, len(x_K)))
    boot_S = spearman(x_K[at_SK], y_K[at_SK])  # NaN where a resample is one allocation many times
    permuted_S = spearman(x_K, rng.permuted(np.tile(y_K, (resamples, 1)), axis=1))
    low, high = np.nanquantile(boot_S, (0.025, 0.975))
    p_value = (1 + int((np.abs(permuted_S) >= abs(value) - 1e-12).sum())) / (resamples + 1)
    return Correlation(value, float(low), float(high), p_value, len(x_K))


def linear_law(x_KF: ArrayLike, y_K: ArrayLike) -> Law:
    """Least squares with an intercept, and how well it predicts allocations that it has not seen.

    Raises:
        InvalidInputError: not more allocations than coefficients, or features that depend on each other.
    """
    x_KF, y_K = np.asarray(x_KF, float), np.asarray(y_K, float)
    if x_KF.ndim == 1:
        x_KF = x_KF[:, None]
    design = np.column_stack([np.ones(len(x_KF)), x_KF])
    count, width = design.shape
    if count <= width:
        raise InvalidInputError(f"{count} allocations are too few for a law with {width} coefficients")
    if np.linalg.matrix_rank(design) < width:
        raise InvalidInputError("a feature of the law follows from the others; leave it out")
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ y_K
    residual_K = y_K - design @ coefficients
    leverage_K = np.einsum("kf,fg,kg->k", design, inverse, design)
    # The residual of a fit without allocation k, without fitting again.
    unseen_K = residual_K / (1 - leverage_K)
    # Against the mean of the others, as the prediction is made by the others.
    unseen_spread = float(np.square((y_K - y_K.mean()) * count / (count - 1)).sum())
    return Law(
        float(coefficients[0]),
        coefficients[1:],
        1 - float(unseen_K @ unseen_K) / unseen_spread,
        leverage_K,
    )


def spearman(x: NDArray, y: NDArray) -> NDArray:
    """Rank correlation along the last axis; the axes before it broadcast. NaN where one of the two does not vary."""
    a, b = stats.rankdata(x, axis=-1), stats.rankdata(y, axis=-1)
    a, b = a - a.mean(axis=-1, keepdims=True), b - b.mean(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return (a * b).sum(axis=-1) / np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))


def partial_spearman(x: NDArray, y: NDArray, given: NDArray) -> NDArray:
    """As :func:`spearman`, with the ranks' linear dependence on ``given`` taken out of both. NaN where ``given``
    explains one of them wholly."""
    xy, xg, yg = spearman(x, y), spearman(x, given), spearman(y, given)
    left = (1 - xg**2) * (1 - yg**2)
    with np.errstate(invalid="ignore"):
        return np.where(left > 1e-12, (xy - xg * yg) / np.sqrt(np.where(left > 1e-12, left, 1.0)), np.nan)


def _pairs(x_K: ArrayLike, y_K: ArrayLike) -> tuple[NDArray, NDArray]:
    x_K, y_K = np.asarray(x_K, float), np.asarray(y_K, float)
    if x_K.shape != y_K.shape or x_K.ndim != 1 or len(x_K) < 4:
        raise InvalidInputError(f"a rank correlation needs at least four pairs, not shapes {x_K.shape} and {y_K.shape}")
    if np.isnan(x_K).any() or np.isnan(y_K).any():
        raise InvalidInputError("a rank correlation needs numbers, not NaN; an infinite one counts as the largest")
    if len(set(x_K.tolist())) == 1 or len(set(y_K.tolist())) == 1:
        raise InvalidInputError("one of the two is the same everywhere; there is nothing to correlate")
    return x_K, y_K
