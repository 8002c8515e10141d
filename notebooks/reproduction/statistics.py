"""Statistics of an experiment's table: rounds to a target, differences between arms, and intervals.

Arms of a cell share their seeds, and a seed fixes rows and directions, so differences are taken seed by seed. For a
claim about several cells the sample is the cell (a base model with a task), not the run.

A run is evaluated every few rounds. So the round in which it reaches an accuracy is known only as an interval between
two evaluations, without an end if the run does not reach it. A loss is smooth enough to interpolate.

Shapes: P pairs of runs, K arms, S seeds, R resamples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import ndtr

from notebooks.reproduction.frames import groups, mean_by, where
from notebooks.reproduction.sweep import late_values
from zorba_core.errors import InvalidInputError

CELL = ["base", "task", "num_clients", "alpha", "rounds"]
_RATIOS = np.linspace(-6, 6, 2401)  # logarithms of the ratios to try, 1/400 to 400
# Ratios of seeds differ by more than 10 %. Without this floor, wide intervals that overlap would get no spread.
_SPREADS = np.geomspace(0.1, 3.0, 60)


class Mean(NamedTuple):
    """A mean with its interval, whose ends are infinite for a single value."""

    value: float
    low: float
    high: float
    count: int


def mean_interval(values: ArrayLike, level: float = 0.95) -> Mean:
    """Student's t interval of a mean.

    Raises:
        InvalidInputError: no values, or one that is not finite.
    """
    values = np.asarray(values, float)
    if values.size == 0 or not np.isfinite(values).all():
        raise InvalidInputError("a mean needs at least one value, and all of them finite")
    mean = float(values.mean())
    if values.size == 1:
        return Mean(mean, -math.inf, math.inf, 1)
    half = float(stats.t.ppf((1 + level) / 2, values.size - 1) * values.std(ddof=1)) / math.sqrt(values.size)
    return Mean(mean, mean - half, mean + half, values.size)


def measured(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of measured runs, without trials."""
    return where(table, table["role"] == "measure")


def rounds_to_target(table: pd.DataFrame, target: float, cost: str = "round") -> pd.DataFrame:
    """A row for each measured run, which reaches the target after ``low`` and by ``high``. If it never does, ``high``
    is infinite.

    Args:
        cost: the column to count in: ``round``, ``forward_passes`` or ``bytes``.
    """
    rows = []
    for _, run in groups(measured(table).sort_values("round"), "config_sha256", sort=False):
        reached = np.flatnonzero(run["accuracy"] >= target)
        spent = run[cost].to_numpy(float)
        low = spent[max(reached[0] - 1, 0)] if len(reached) else spent[-1]
        high = spent[reached[0]] if len(reached) else math.inf
        first = run.iloc[0]
        rows.append({**first[[*CELL, "arm", "seed", "lr", "status", "config_sha256"]], "low": low, "high": high})
    return pd.DataFrame(rows, columns=[*CELL, "arm", "seed", "lr", "status", "config_sha256", "low", "high"])


def cost_to_loss(table: pd.DataFrame, target: float, cost: str = "round") -> pd.DataFrame:
    """As :func:`rounds_to_target`, for a loss. The first crossing is interpolated between two evaluations and counts as
    known to 1 %. Runs whose base model reaches the target are left out."""
    rows = []
    for _, run in groups(measured(table).sort_values("round"), "config_sha256", sort=False):
        loss, spent, first = run["loss"].to_numpy(float), run[cost].to_numpy(float), run.iloc[0]
        if loss[0] <= target:
            continue
        below = np.flatnonzero(loss <= target)
        low, high = spent[-1], math.inf
        if len(below):
            i = below[0]
            at = float(np.interp(-target, -loss[[i - 1, i]], spent[[i - 1, i]]))
            low, high = at * 0.995, at * 1.005
        rows.append({**first[[*CELL, "arm", "seed", "lr", "status", "config_sha256"]], "low": low, "high": high})
    return pd.DataFrame(rows, columns=[*CELL, "arm", "seed", "lr", "status", "config_sha256", "low", "high"])


def median_rounds(reached: pd.DataFrame) -> pd.DataFrame:
    """For each cell and arm, the interval of the median over seeds, and how many seeds reached the target."""
    groups = reached.groupby([*CELL, "arm"], sort=False)
    return groups.agg(
        low=("low", "median"),
        high=("high", "median"),
        reached=("high", lambda high: int(np.isfinite(high).sum())),
        seeds=("seed", "nunique"),
        lr=("lr", "first"),
    ).reset_index()


def paired(table: pd.DataFrame, arm: str, other: str) -> pd.DataFrame:
    """Late loss of ``arm`` minus that of ``other``, a row for each cell and seed that both arms have. Runs that went
    back or diverged count, as :func:`notebooks.reproduction.sweep.late_values` says."""
    late = late_values(measured(table))
    pivot = late.pivot_table(index=[*CELL, "seed"], columns="arm", values="loss", aggfunc="first")
    if not {arm, other} <= set(pivot.columns):
        return pd.DataFrame(columns=[*CELL, "seed", "difference"])
    return pd.DataFrame({"difference": pivot[arm] - pivot[other]}).dropna().reset_index()


def by_cell(differences: pd.DataFrame) -> pd.DataFrame:
    """A row for each cell: the mean over its seeds with a 95 % interval. Columns value, low, high, count."""
    rows = [
        dict(zip(CELL, cell, strict=True)) | mean_interval(seeds["difference"])._asdict()
        for cell, seeds in groups(differences, CELL, sort=False)
    ]
    return pd.DataFrame(rows, columns=[*CELL, *Mean._fields])


def placebo_differences(table: pd.DataFrame) -> pd.DataFrame:
    """Late loss of each placebo minus that of the arm that it repeats, a row for each cell and seed: the effect of
    chance and of the choice of a rate."""
    pairs = table.loc[table["placebo_of"] != "", ["arm", "placebo_of"]].drop_duplicates().itertuples(index=False)
    parts = [paired(table, again, arm).assign(placebo_of=arm) for again, arm in pairs]
    empty = pd.DataFrame(columns=[*CELL, "seed", "difference", "placebo_of"])
    return pd.concat(parts, ignore_index=True) if parts else empty


def best_rates(table: pd.DataFrame) -> pd.DataFrame:
    """For each cell and arm: the rates of the trials, the rate with the lowest late loss, and whether it lies on the
    edge of the grid. A rate at which a trial diverged counts as worst."""
    trials = late_values(where(table, table["role"] == "trial"))
    trials = trials.assign(loss=trials["loss"].where(trials["status"] == "finished", math.inf))
    rows = []
    for key, arm in groups(trials, [*CELL, "arm"], sort=False):
        loss = mean_by(arm, "lr", "loss")
        best = float(loss.index[loss.argmin()])
        edge = best in (loss.index.min(), loss.index.max())
        rows.append(
            dict(zip([*CELL, "arm"], key, strict=True))
            | {"rates": list(loss.index), "lr": best, "on_edge": edge, "trials": len(arm)}
        )
    return pd.DataFrame(rows, columns=[*CELL, "arm", "rates", "lr", "on_edge", "trials"])


def is_alike(differences: ArrayLike, margin: float) -> bool | None:
    """Two one-sided tests at 5 % each (Schuirmann 1987): True if the 90 % interval lies within the margin, False if it
    lies outside, None if it crosses the margin.

    Raises:
        InvalidInputError: the margin is not positive, or there are no differences.
    """
    if not margin > 0:
        raise InvalidInputError(f"the margin is {margin:g}; it must be positive")
    interval = mean_interval(differences, 0.90)
    if -margin < interval.low and interval.high < margin:
        return True
    return False if interval.low > margin or interval.high < -margin else None


def cost_ratio(reached: pd.DataFrame, arm: str, other: str) -> pd.DataFrame:
    """Cost of reaching the target with ``arm`` over that with ``other``: for each cell the geometric mean over seeds
    with its 95 % interval, from the intervals of :func:`rounds_to_target`. Columns value, low, high, count. A cell has
    no row if no seed bounds its ratio."""
    rows = []
    for cell, runs in groups(reached, CELL, sort=False):
        sides = [where(runs, runs["arm"] == name).set_index("seed")[["low", "high"]] for name in (arm, other)]
        pair = sides[0].join(sides[1].add_suffix("_other"), how="inner")
        with np.errstate(divide="ignore"):
            log = np.log(pair)
        low_P, high_P = log["low"] - log["high_other"], log["high"] - log["low_other"]
        mean = log_ratio(low_P, high_P)
        if mean is not None:
            value, low, high = (math.exp(end) if end < 700 else math.inf for end in mean[:3])
            ratio = Mean(value, low, high, mean.count)
            rows.append(dict(zip(CELL, cell, strict=True)) | ratio._asdict())
    return pd.DataFrame(rows, columns=[*CELL, *Mean._fields])


def log_ratio(low_P: ArrayLike, high_P: ArrayLike, level: float = 0.95) -> Mean | None:
    """Mean logarithm of ratios that are known only as intervals, by maximum likelihood under a normal law; None if no
    pair has a bound.

    -inf and inf: no bound on that side. The result is a profile-likelihood interval. Its cutoff makes it Student's t
    interval if every ratio is known exactly.
    """
    low_P, high_P = np.asarray(low_P, float), np.asarray(high_P, float)
    bounded = np.isfinite(low_P) | np.isfinite(high_P)
    low_P, high_P, count = low_P[bounded], high_P[bounded], int(bounded.sum())
    if count == 0:
        return None
    best = np.full(_RATIOS.shape, -np.inf)  # at each mean, the likelihood at its best spread
    for spread in _SPREADS:
        a_UP, b_UP = (low_P - _RATIOS[:, None]) / spread, (high_P - _RATIOS[:, None]) / spread
        mirrored = a_UP > 0  # in the upper tail, differences near 1 would lose all digits
        a_UP, b_UP = np.where(mirrored, -b_UP, a_UP), np.where(mirrored, -a_UP, b_UP)
        best = np.maximum(best, np.log(np.maximum(ndtr(b_UP) - ndtr(a_UP), 1e-300)).sum(axis=1))
    top = best >= best.max() - 1e-9  # several, if the intervals overlap
    value = math.inf if top[-1] else -math.inf if top[0] else float(_RATIOS[top].mean())
    if count == 1:
        return Mean(value, -math.inf, math.inf, 1)
    t = stats.t.ppf((1 + level) / 2, count - 1)
    inside = 2 * (best.max() - best) <= count * math.log1p(t**2 / (count - 1))
    low = -math.inf if inside[0] else float(_RATIOS[inside][0])
    high = math.inf if inside[-1] else float(_RATIOS[inside][-1])
    return Mean(value, low, high, count)


def losses_by_seed(table: pd.DataFrame) -> pd.DataFrame:
    """Late loss of one cell, a row for each arm and a column for each seed. Of an unfinished table, the seeds that most
    arms have, and the arms that have all of these."""
    late = late_values(measured(table))
    if late.empty:
        return pd.DataFrame()
    every = late.pivot_table(index="arm", columns="seed", values="loss", aggfunc="first", sort=False)
    seeds = sorted(every.columns, key=lambda seed: (-every[seed].count(), seed))
    parts = [every.loc[:, sorted(seeds[:count])].dropna() for count in range(1, len(seeds) + 1)]
    return max(parts, key=lambda part: part.size)


def rank_correlation(x_K: ArrayLike, loss_KS: ArrayLike, resamples: int = 5000) -> Mean:
    """Spearman's rho of a measure of K arms with their mean loss over S seeds. The 95 % interval resamples both the
    arms and the seeds, which are the same for all arms.

    Raises:
        InvalidInputError: fewer than four arms, or the measure does not vary.
    """
    x_K, loss_KS = np.asarray(x_K, float), np.asarray(loss_KS, float)
    arms, seeds = loss_KS.shape
    if arms < 4 or len(set(x_K.tolist())) == 1:
        raise InvalidInputError(f"{arms} arms, or a measure that is the same in all, give no rank correlation")
    rng = np.random.default_rng(0)
    arm_RK = rng.integers(arms, size=(resamples, arms))
    seed_RS = rng.integers(seeds, size=(resamples, seeds))
    loss_RK = loss_KS[arm_RK[:, :, None], seed_RS[:, None, :]].mean(axis=-1)
    low, high = np.nanquantile(_spearman(x_K[arm_RK], loss_RK), (0.025, 0.975))
    return Mean(float(_spearman(x_K, loss_KS.mean(axis=-1))), float(low), float(high), arms)


def partial_rank_correlation(x_K: ArrayLike, given_K: ArrayLike, loss_KS: ArrayLike, resamples: int = 5000) -> Mean:
    """Rank correlation of a measure with the mean loss at equal ``given``: Spearman's rho of the parts of both that a
    line in the ranks of ``given`` leaves. Interval as in :func:`rank_correlation`."""
    x_K, given_K, loss_KS = (np.asarray(each, float) for each in (x_K, given_K, loss_KS))
    arms, seeds = loss_KS.shape
    rng = np.random.default_rng(0)
    arm_RK = rng.integers(arms, size=(resamples, arms))
    seed_RS = rng.integers(seeds, size=(resamples, seeds))
    loss_RK = loss_KS[arm_RK[:, :, None], seed_RS[:, None, :]].mean(axis=-1)
    low, high = np.nanquantile(_partial(x_K[arm_RK], given_K[arm_RK], loss_RK), (0.025, 0.975))
    return Mean(float(_partial(x_K, given_K, loss_KS.mean(axis=-1))), float(low), float(high), arms)


def _partial(x: NDArray, given: NDArray, y: NDArray) -> NDArray:
    xy, xg, gy = _spearman(x, y), _spearman(x, given), _spearman(given, y)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (xy - xg * gy) / np.sqrt((1 - xg**2) * (1 - gy**2))


def arms_differ(loss_KS: ArrayLike) -> float:
    """P-value of the F test that all arms have the same loss, in the model loss = arm + seed + noise.

    Raises:
        InvalidInputError: fewer than two arms or seeds, or a loss that is not finite.
    """
    loss_KS = np.asarray(loss_KS, float)
    if loss_KS.ndim != 2 or min(loss_KS.shape) < 2 or not np.isfinite(loss_KS).all():
        raise InvalidInputError("the F test of arms needs at least two arms and two seeds, with finite losses")
    arms, seeds = loss_KS.shape
    mean_K = loss_KS.mean(axis=1)
    rest_KS = loss_KS - mean_K[:, None] - loss_KS.mean(axis=0) + loss_KS.mean()
    freedom = (arms - 1) * (seeds - 1)
    f = seeds * mean_K.var(ddof=1) / (np.square(rest_KS).sum() / freedom)
    return float(stats.f.sf(f, arms - 1, freedom))


def _spearman(x: NDArray, y: NDArray) -> NDArray:
    """Rank correlation along the last axis; NaN if one of the two does not vary."""
    a, b = stats.rankdata(x, axis=-1), stats.rankdata(y, axis=-1)
    a, b = a - a.mean(axis=-1, keepdims=True), b - b.mean(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return (a * b).sum(axis=-1) / np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))


def summary(table: pd.DataFrame, target: float) -> pd.DataFrame:
    """A row for each cell and arm of an experiment: rate, rounds to ``target``, accuracy and loss late in the run, and
    the costs of a round."""
    late = late_values(measured(table))
    per_round = measured(table)[measured(table)["round"] > 0].copy()
    for column in ("forward_passes", "bytes"):
        per_round[column] = per_round[column] / per_round["round"]
    groups = late.groupby([*CELL, "arm"], sort=False)
    rows = groups.agg(
        seeds=("seed", "nunique"),
        loss=("loss", "mean"),
        loss_spread=("loss", "std"),
        accuracy=("accuracy", "mean"),
        diverged=("status", lambda status: int((status == "diverged").sum())),
        psi_gib=("psi_gib", "first"),
    ).join(per_round.groupby([*CELL, "arm"])[["forward_passes", "bytes"]].last())
    median = median_rounds(rounds_to_target(table, target)).set_index([*CELL, "arm"])
    return rows.join(median[["lr", "low", "high", "reached"]]).reset_index()


def rounds_text(low: float, high: float) -> str:
    """``10 to 15``, or ``more than 60``."""
    return f"{low:,.0f} to {high:,.0f}" if math.isfinite(high) else f"more than {low:,.0f}"
