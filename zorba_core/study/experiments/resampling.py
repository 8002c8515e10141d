"""What chance explains, where arms are compared on shared seeds: a bootstrap over arms and seeds, a test whether arms
differ at all, a correction for several tests.

scipy.stats.bootstrap resamples one axis; here both are samples: other arms could have been tried, and other seeds.

Shapes: K arms, S seeds, R resamples. ``loss_KS`` has a loss for every arm and seed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from zorba_core.errors import InvalidInputError

RESAMPLES = 5000
_LEVEL = 0.95  # of intervals
_MOST_UNDEFINED = 0.05  # share of resamples without a value from which an interval would be one of the others only


class ArmsTest(NamedTuple):
    """Do arms differ beyond the noise of seeds? In the model loss = arm + seed + noise."""

    f: float
    p_value: float  # F distribution: noise normal, and of one size in all arms
    p_permuted: float  # losses exchanged between arms within each seed: neither is assumed
    standard_error: float  # of an arm's mean over its seeds
    arms: int
    seeds: int


def two_way_resamples(
    loss_KS: ArrayLike, *, resamples: int = RESAMPLES
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(arm_RK, loss_RK): each resample draws K arms and, for all of them, the same S seeds, with replacement;
    ``loss_RK`` is each drawn arm's mean loss over the drawn seeds.

    With few seeds the interval is too narrow: S values drawn from S spread (S - 1)/S as much as S new ones.

    Raises:
        InvalidInputError: not a table, or a cell is missing.
    """
    loss_KS = np.asarray(loss_KS, float)
    if loss_KS.ndim != 2 or loss_KS.size == 0 or np.isnan(loss_KS).any():
        raise InvalidInputError(f"resampling needs a loss for every arm and seed, not shape {loss_KS.shape} with gaps")
    rng = np.random.default_rng(0)
    arms, seeds = loss_KS.shape
    arm_RK = rng.integers(arms, size=(resamples, arms))
    seed_RS = rng.integers(seeds, size=(resamples, seeds))
    return arm_RK, loss_KS[arm_RK[:, :, None], seed_RS[:, None, :]].mean(axis=-1)


def percentile_interval(value_R: ArrayLike) -> tuple[float, float]:
    """The middle 95 % of resampled values; NaN where the statistic is undefined in too many of them."""
    value_R = np.asarray(value_R, float)
    if np.isnan(value_R).mean() > _MOST_UNDEFINED:
        return np.nan, np.nan
    low, high = np.nanquantile(value_R, ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2))
    return float(low), float(high)


def arms_differ(loss_KS: ArrayLike, *, resamples: int = RESAMPLES) -> ArmsTest:
    """
    Raises:
        InvalidInputError: fewer than two arms or seeds, a gap, or a loss that is not finite.
    """
    loss_KS = np.asarray(loss_KS, float)
    if loss_KS.ndim != 2 or min(loss_KS.shape) < 2 or not np.isfinite(loss_KS).all():
        raise InvalidInputError("whether arms differ takes at least two arms and two seeds, with finite losses")
    arms, seeds = loss_KS.shape
    f, noise = _f_ratio(loss_KS)
    rng = np.random.default_rng(0)
    permuted_R = np.array([_f_ratio(rng.permuted(loss_KS, axis=0))[0] for _ in range(resamples)])
    return ArmsTest(
        f=f,
        p_value=float(stats.f.sf(f, arms - 1, (arms - 1) * (seeds - 1))),
        p_permuted=(1 + int((permuted_R >= f * (1 - 1e-12)).sum())) / (resamples + 1),
        standard_error=float(np.sqrt(noise / seeds)),
        arms=arms,
        seeds=seeds,
    )


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """P-values of several tests, raised so that none is below a level by chance more often than that (Holm 1979)."""
    p_values = np.asarray(p_values, float)
    order = np.argsort(p_values)
    raised = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted


def _f_ratio(loss_KS: NDArray[np.float64]) -> tuple[float, float]:
    """(variance between arms over the variance of what arm + seed leaves, that variance)."""
    arms, seeds = loss_KS.shape
    mean_K = loss_KS.mean(axis=1)
    between = seeds * float(np.square(mean_K - mean_K.mean()).sum()) / (arms - 1)
    left_KS = loss_KS - mean_K[:, None] - loss_KS.mean(axis=0) + loss_KS.mean()
    noise = float(np.square(left_KS).sum()) / ((arms - 1) * (seeds - 1))
    return (between / noise if noise > 0 else np.inf), noise
