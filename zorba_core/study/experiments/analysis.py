"""The findings of an experiment, computed from its tables. Every number here comes from the tables.

A loss is compared within its seed: seeds draw their own rows and directions, so an arm's loss is its effect in the
additive model loss = arm + seed, which is the plain mean where every arm has the same seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from zorba_core.errors import MissingDataError
from zorba_core.study.experiments.measures import COLUMNS
from zorba_core.study.experiments.statistics import (
    Law,
    linear_law,
    mean_interval,
)
from zorba_core.study.experiments.store import Results


def arm_effects(runs: pd.DataFrame, column: str) -> pd.Series:
    """Per arm, ``column`` in the additive model arm + seed, at the mean seed. Infinite for an arm with a run that
    diverged: it is worse than any that did not.

    Raises:
        MissingDataError: no runs.
    """
    if runs.empty:
        raise MissingDataError(f"no runs to average {column} over")
    diverged = set(runs.loc[runs["status"] != "finished", "arm"])
    ended = runs[~runs["arm"].isin(diverged)]
    arms, seeds = pd.Categorical(ended["arm"]), pd.Categorical(ended["seed"])
    effects = {arm: math.inf for arm in diverged}
    if len(ended):
        by_arm = np.eye(len(arms.categories))[arms.codes]
        by_seed = np.eye(len(seeds.categories))[seeds.codes] - 1 / len(seeds.categories)
        coefficients = np.linalg.lstsq(np.column_stack([by_arm, by_seed]), ended[column].to_numpy(float), rcond=None)[0]
        effects |= dict(zip(arms.categories, coefficients[: len(arms.categories)].tolist(), strict=True))
    return pd.Series(effects, name=column, dtype=float).rename_axis("arm")


def runs_under(results: Results, *, num_clients: int = 20, lr: float | None = 2e-2, alpha: float = 1.0) -> pd.DataFrame:
    """The runs under one condition; arguments and errors as :func:`allocation_table`."""
    runs = results.runs
    runs = runs[(runs["num_clients"] == num_clients) & (runs["alpha"] == alpha)]
    runs = runs[runs["lr"] == lr] if lr is not None else _at_tuned_rates(runs)
    if runs.empty:
        raise MissingDataError(
            f"no runs of {results.experiment} with {num_clients} clients, alpha {alpha:g} and rate {lr}; "
            f"make them with: zorba experiment {results.experiment} --profile {results.profile}"
        )
    return runs


def losses_by_seed(runs: pd.DataFrame) -> pd.DataFrame:
    """Late loss of ``runs``, a row for each arm and a column for each seed; infinite where a run diverged. Arms that
    lack a seed are left out: a resample of seeds would have nothing to draw."""
    loss = runs["late_loss"].where(runs["status"] == "finished", math.inf)
    pivot = runs.assign(loss=loss).pivot_table(index="arm", columns="seed", values="loss", aggfunc="first")
    return pivot.reindex(runs["arm"].unique()).dropna()


def allocation_table(
    results: Results, *, num_clients: int = 20, lr: float | None = 2e-2, alpha: float = 1.0
) -> pd.DataFrame:
    """One row an allocation: its measures and its loss late in the run.

    ``lr`` None takes for each run the rate that is best for its arm on the other seeds, so that no run chooses its own.

    Raises:
        MissingDataError: no such runs.
    """
    runs = runs_under(results, num_clients=num_clients, lr=lr, alpha=alpha)
    by_arm = runs.groupby("arm", sort=False)
    table = by_arm[list(COLUMNS)].first()
    table["inverse_N_eff"], table["inverse_T"] = 1 / table["N_eff"], 1 / table["T"]
    table["inverse_min_c"] = 1 / table["min_c"].clip(lower=1)
    table["loss"] = arm_effects(runs, "late_loss").reindex(table.index)
    table["seeds"] = by_arm["seed"].nunique()
    table["diverged"] = by_arm["status"].agg(lambda statuses: int((statuses != "finished").sum()))
    return table


def _at_tuned_rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Of each arm and seed the run at the rate with the lowest mean late loss over the arm's other seeds."""
    loss = runs["late_loss"].fillna(math.inf)
    chosen = []
    for _, arm in runs.assign(late_loss=loss).groupby("arm", sort=False):
        by_rate = arm.pivot_table(index="seed", columns="lr", values="late_loss", aggfunc="first").dropna()
        if len(by_rate) < 2 or by_rate.shape[1] < 2:
            continue
        for seed in by_rate.index:
            best = by_rate.drop(index=seed).mean().idxmin()
            chosen += arm.index[(arm["seed"] == seed) & (arm["lr"] == best)].tolist()
    return runs.loc[chosen]


def noise_law(table: pd.DataFrame) -> Law:
    """loss = a + b V + c E over the allocations that did not diverge."""
    ended = table[np.isfinite(table["loss"])]
    return linear_law(ended[["V", "E"]], ended["loss"])


def matched_pairs(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Allocations of equal T, V and popularities of which one piles scarce blocks on few clients: Lambda says that it
    is the better one, coupled noise that it is the worse. Differences of late loss, pile - spread, seed by seed."""
    pairs = [(name, name.replace("-pile", "-spread")) for name in table.index if name.endswith("-pile")]
    rows = []
    for pile, spread in pairs:
        spread = spread if spread in table.index else spread.removesuffix("-spread")
        if spread not in table.index or table.loc[pile, "V"] != table.loc[spread, "V"]:
            continue
        by_seed = runs[runs["arm"].isin((pile, spread))].pivot_table(index="seed", columns="arm", values="late_loss")
        if not {pile, spread} <= set(by_seed.columns) or by_seed.dropna().empty:
            continue
        by_seed = by_seed.dropna()
        difference = mean_interval(by_seed[pile] - by_seed[spread])
        rows.append(
            {
                "pile": pile,
                "spread": spread,
                "V": table.loc[pile, "V"],
                "lambda_pile": table.loc[pile, "lambda"],
                "lambda_spread": table.loc[spread, "lambda"],
                "E_pile": table.loc[pile, "E"],
                "E_spread": table.loc[spread, "E"],
                **difference._asdict(),
            }
        )
    return pd.DataFrame(rows)


def costs_of_arms(results: Results) -> pd.DataFrame:
    """One row for each dataset and arm of the measured runs: seeds, rate, activated blocks, VRAM, and the mean over
    seeds of the work, numbers and bytes of a round."""
    runs = results.finished
    rows = []
    for (dataset, arm), group in runs[runs["role"] == "measure"].groupby(["dataset", "arm"], sort=False):
        row = {
            "dataset": dataset,
            "arm": arm,
            "seeds": group["seed"].nunique(),
            "lr": group["lr"].iloc[0],
            "T": group["T"].iloc[0],
            "psi_gib": float(group["psi_gib"].mean()),
        }
        for column in ("sent_paper", "sent_needed", "sent_bytes", "work"):
            row[f"{column}_a_round"] = float((group[column] / group["rounds_done"]).mean())
        rows.append(row)
    return pd.DataFrame(rows)


def mean_curves(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Mean loss over an arm's finished runs, with its 95 % interval, at each evaluation that all of them had: a run
    that stopped at its target ends its arm's curve. Columns arm, round, mean, low, high, count."""
    ended = runs[runs["status"] == "finished"]
    joined = curves.merge(ended[["sha256", "arm"]], on="sha256")
    rows = []
    for (arm, at), points in joined.groupby(["arm", "round"], sort=False):
        if len(points) == (ended["arm"] == arm).sum():
            mean = mean_interval(points["loss"])
            rows.append(
                {
                    "arm": arm,
                    "round": at,
                    "mean": mean.value,
                    "low": mean.low,
                    "high": mean.high,
                    "count": mean.count,
                }
            )
    return pd.DataFrame(rows, columns=["arm", "round", "mean", "low", "high", "count"])


def paired_curves(runs: pd.DataFrame, curves: pd.DataFrame, usual: str, *, arms: Sequence[str]) -> pd.DataFrame:
    """How much higher the loss of ``arms`` is than that of the arm ``usual``, seed by seed, at each round where both
    were evaluated: seeds share their rows and directions, so most of what differs between seeds cancels. Columns arm,
    round, mean, low, high, count (95 % interval over seeds) and ``by_seed``, the differences themselves by seed."""
    ended = runs[runs["status"] == "finished"]
    joined = curves.merge(ended[["sha256", "arm", "seed"]], on="sha256")
    by_arm = joined.pivot_table(index=["round", "seed"], columns="arm", values="loss", aggfunc="first")
    rows = []
    for arm in arms:
        if not {arm, usual} <= set(by_arm.columns):
            continue
        for at, difference in (by_arm[arm] - by_arm[usual]).dropna().groupby("round"):
            mean = mean_interval(difference)
            by_seed = dict(zip(difference.index.get_level_values("seed"), difference.tolist(), strict=True))
            rows.append(
                {
                    "arm": arm,
                    "round": at,
                    "mean": mean.value,
                    "low": mean.low,
                    "high": mean.high,
                    "count": mean.count,
                    "by_seed": by_seed,
                }
            )
    return pd.DataFrame(rows, columns=["arm", "round", "mean", "low", "high", "count", "by_seed"])
