"""Methods side by side, as far as their runs allow: the same horizon for all, rounds to the target as intervals, and a
notice where a method's best rate lies on the edge of the rates that were tried.

Horizons are equal because a run of 240 rounds has more chances to reach a target than one of 60.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from zorba_core.study.experiments.crossing import (
    COSTS,
    Crossing,
    horizons,
    median_crossing,
    ratio_interval,
    with_crossing_intervals,
)
from zorba_core.study.experiments.protocol import EASY_SHARE, best_rate, target_of
from zorba_core.study.experiments.statistics import Mean, mean_interval
from zorba_core.study.experiments.store import Results
from zorba_core.study.experiments.tables import ARMS, rates_of


class GridEdge(NamedTuple):
    """A best rate that no tried rate encloses: the true best may lie beyond."""

    rate: float
    side: str  # "highest" or "lowest" of the rates tried
    beyond: float  # the rate that a next trial should take

    def __str__(self) -> str:
        return f"η {self.rate:g} is the grid's edge, the {self.side} rate tried: the true best may lie beyond"


class CostRatio(NamedTuple):
    """ZorBA's cost of reaching the target over another arm's, pair by pair of one dataset and seed."""

    log: Mean | None  # mean logarithm; None where no pair tells anything
    ahead: int  # pairs in which ZorBA surely needs less
    behind: int  # and surely more
    pairs: int  # of all datasets and seeds that both have
    datasets: tuple[str, ...]  # with a pair that tells something


def grid_edge(results: Results, dataset: str, arm: str) -> GridEdge | None:
    """The edge on which an arm's best rate lies; None when a rate was tried on either side, or nothing is tuned."""
    definition = next((each for each in ARMS if each.name == arm), None)
    if definition is None:
        return None
    rates = sorted(rates_of(definition, results.profile))
    best = best_rate(results.runs, arm, dataset, rates)
    if best is None or len(rates) < 2 or rates[0] < best < rates[-1]:
        return None
    if best == rates[-1]:
        return GridEdge(best, "highest", best * rates[-1] / rates[-2])
    return GridEdge(best, "lowest", best * rates[0] / rates[1])


def equal_horizon(results: Results, cost: str = "rounds", arms: tuple[str, ...] = ()) -> pd.Series:
    """By dataset: how far the arm that was asked for least went (of ``arms``, of all when empty)."""
    horizon = horizons(results, cost)
    if arms:
        horizon = horizon[horizon.index.get_level_values("arm").isin(arms)]
    return horizon.groupby(level="dataset").min()


def compare_methods(results: Results, share: float = EASY_SHARE) -> pd.DataFrame:
    """One row for each dataset and arm at the equal horizon: the interval of the median round of reaching the target,
    how many seeds reach it, and the mean accuracy at the horizon with its 95 % interval. A run that stopped earlier, at
    the higher target, counts with its last accuracy."""
    limits = equal_horizon(results)
    curves = results.curve_by_run
    rows = []
    for dataset, limit in limits.items():
        runs = with_crossing_intervals(results, share, horizon=limit)
        for arm, group in runs[runs["dataset"] == dataset].groupby("arm", sort=False):
            median = median_crossing([Crossing(row.low, row.high) for row in group.itertuples()])
            within = [curves[sha][curves[sha]["round"] <= limit] for sha in group["sha256"]]
            accuracy = mean_interval([curve["accuracy"].iloc[-1] for curve in within])
            first = group.iloc[0]
            rows.append(
                {
                    "dataset": dataset,
                    "arm": arm,
                    "method": first["method"],
                    "lr": first["lr"],
                    "directions": first["directions"],
                    "seeds": group["seed"].nunique(),
                    "target": target_of(dataset, share),
                    "horizon": int(limit),
                    "asked": int(first["rounds"]),
                    "low": median.low,
                    "high": median.high,
                    "reached": int(np.isfinite(group["high"]).sum()),
                    "accuracy": accuracy.value,
                    "accuracy_low": accuracy.low,
                    "accuracy_high": accuracy.high,
                    "edge": grid_edge(results, dataset, arm),
                }
            )
    return pd.DataFrame(rows)


def cost_ratio(results: Results, other: str, cost: str = "rounds", share: float = EASY_SHARE) -> CostRatio:
    """ZorBA's rounds or forward passes to the target over another arm's, both within the horizon that both were asked
    for. What is known of a pair is an interval; a pair of which neither run arrives tells nothing."""
    limits = equal_horizon(results, cost, ("zorba", other))
    lows, highs, ahead, behind, telling = [], [], 0, 0, []
    for dataset, limit in limits.items():
        runs = with_crossing_intervals(results, share, cost, limit)
        runs = runs[(runs["dataset"] == dataset) & runs["arm"].isin(("zorba", other))]
        for _, pair in runs.groupby("seed"):
            if len(pair) < 2:
                continue
            ours, theirs = (pair.set_index("arm").loc[arm] for arm in ("zorba", other))
            lows.append(_log(ours["low"]) - _log(theirs["high"]))
            highs.append(_log(ours["high"]) - _log(theirs["low"]))
            ahead += bool(ours["high"] <= theirs["low"])
            behind += bool(ours["low"] >= theirs["high"])
            if math.isfinite(lows[-1]) or math.isfinite(highs[-1]):
                telling.append(dataset)
    return CostRatio(ratio_interval(lows, highs), ahead, behind, len(lows), tuple(dict.fromkeys(telling)))


def seed_curves(results: Results, dataset: str, cost: str = "rounds", column: str = "accuracy") -> pd.DataFrame:
    """Curves of the measured runs within the horizon: columns arm, seed, cost, value, stopped (the run ended before
    the rounds that it was asked for, at the higher target). By rounds the horizon is the same for all; by forward
    passes it is the one that ZorBA and DeComFL share, and methods that were asked for less end earlier."""
    arms = () if cost == "rounds" else ("zorba", "decomfl")
    limit = equal_horizon(results, cost, arms).get(dataset, math.inf)
    runs = results.runs[(results.runs["role"] == "measure") & (results.runs["status"] == "finished")]
    runs = runs[runs["dataset"] == dataset].assign(stopped=lambda table: table["rounds_done"] < table["rounds"])
    joined = results.curves.merge(runs[["sha256", "arm", "seed", "stopped"]], on="sha256")
    joined = joined.assign(cost=joined[COSTS[cost]], value=joined[column])
    return joined.loc[joined["cost"] <= limit, ["arm", "seed", "cost", "value", "stopped"]].reset_index(drop=True)


def rates_of_trials(results: Results, dataset: str, arms: tuple[str, ...], share: float = EASY_SHARE) -> pd.DataFrame:
    """The trials of several arms at each rate: between which rounds they reach the target (one seed each). Says whether
    two arms differ at equal rates."""
    trials = results.runs[(results.runs["role"] == "tune") & (results.runs["dataset"] == dataset)]
    trials = Results(
        results.experiment, results.profile, trials.assign(role="measure"), results.curves, results.left_out, 0
    )
    crossings = with_crossing_intervals(trials, share)
    return crossings[crossings["arm"].isin(arms)][["arm", "lr", "low", "high", "late_loss"]].reset_index(drop=True)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
