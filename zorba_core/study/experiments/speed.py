"""How much faster: areas under loss curves, rounds to a loss, and their ratios with intervals over seeds.

Arms of one cell (model and dataset) share their seeds: fleet, rows, batches and directions. So every comparison is
paired, and a bootstrap draws the same seeds for both arms. A run that never reaches the target, or diverges, counts the
horizon: a ratio comes out too small where that is the paper's, and too large where it is the arm's
(:mod:`zorba_core.study.experiments.firmness` counts such runs as later).

Shapes: S seeds, R resamples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.study.experiments.resampling import percentile_interval
from zorba_core.study.experiments.statistics import Mean, first_reached, mean_interval
from zorba_core.study.experiments.store import Results

SHARE = 0.7  # of the loss that the paper's trial lost: the target
RESAMPLES = 10_000
MEASURES = ("area", "rounds_to")


class Speedup(NamedTuple):
    """How many times as fast the arm is as the paper's, with its 95 % interval."""

    value: float
    low: float
    high: float
    seeds: int
    reached: int  # runs of the arm that reach the target
    reached_by_paper: int


def cells(runs: pd.DataFrame) -> list[tuple[str, str]]:
    """Model and dataset of each cell, in the order of the runs."""
    return list(dict.fromkeys(zip(runs["model"], runs["dataset"], strict=True)))


def area(rounds: ArrayLike, losses: ArrayLike, horizon: float, *, diverged: bool = False) -> float:
    """Mean loss from round 0 to ``horizon`` by trapezoids; a run that diverged keeps the larger of its first and last
    loss from there on.

    Raises:
        InvalidInputError: no evaluations, or a run that ended short of the horizon without diverging.
    """
    rounds, losses = np.asarray(rounds, float), np.asarray(losses, float)
    if rounds.size == 0:
        raise InvalidInputError("a curve without evaluations has no area")
    order = np.argsort(rounds)
    rounds, losses = rounds[order], losses[order]
    if diverged:
        finite = np.isfinite(losses)
        rounds, losses = rounds[finite], losses[finite]
        worst = max(losses[0], losses[-1])
        if rounds[-1] < horizon:
            rounds, losses = np.append(rounds, [rounds[-1], horizon]), np.append(losses, [worst, worst])
    elif rounds[-1] < horizon:
        raise InvalidInputError(f"the curve ends at round {rounds[-1]:g}, before {horizon:g}, and did not diverge")
    return float(np.trapezoid(losses, rounds) / horizon)


def best_trial(results: Results, model: str, dataset: str, arm: str = "paper") -> pd.Series:
    """The arm's trial with the lowest late loss.

    Raises:
        MissingDataError: no finished trial.
    """
    runs = results.runs
    trials = runs[(runs["role"] == "tune") & (runs["arm"] == arm) & (runs["status"] == "finished")]
    trials = trials[(trials["model"] == model) & (trials["dataset"] == dataset)].dropna(subset="late_loss")
    if trials.empty:
        raise MissingDataError(f"{results.experiment} has no trial of {arm} for {model} on {dataset} yet")
    return trials.loc[trials["late_loss"].idxmin()]


def target_loss(results: Results, model: str, dataset: str, arm: str = "paper", share: float = SHARE) -> float:
    """The loss after ``share`` of what the arm's best trial lost.

    Raises:
        MissingDataError: no finished trial.
    """
    best = best_trial(results, model, dataset, arm)
    return float(best["initial_loss"] - share * (best["initial_loss"] - best["late_loss"]))


def outcomes(
    results: Results, model: str, dataset: str, arms: Sequence[str], share: float = SHARE
) -> dict[str, pd.DataFrame]:
    """For each of ``MEASURES`` a table of seeds and ``arms``, of the seeds that are complete; ``rounds_to`` is infinite
    where the target, ``share`` of what the paper's best trial lost, was not reached.

    Raises:
        MissingDataError: no trial to take the target from, or no complete seed.
    """
    target = target_loss(results, model, dataset, share=share)
    runs = results.runs
    runs = runs[(runs["model"] == model) & (runs["dataset"] == dataset) & (runs["role"] == "measure")]
    runs = runs[runs["arm"].isin(arms)]
    curves = results.curve_by_run
    rows = []
    for row in runs.itertuples():
        curve, diverged = curves[row.sha256], row.status != "finished"
        crossed = first_reached(curve["round"].tolist(), curve["loss"].tolist(), target, rising=False)
        rows.append(
            {
                "seed": row.seed,
                "arm": row.arm,
                "area": area(curve["round"], curve["loss"], row.rounds, diverged=diverged),
                "rounds_to": math.inf if diverged else crossed,
            }
        )
    table = pd.DataFrame(rows, columns=["seed", "arm", *MEASURES])
    wide = {name: table.pivot_table(index="seed", columns="arm", values=name, aggfunc="first") for name in MEASURES}
    whole = [name for name in arms if name in wide["area"].columns]
    complete = wide["area"].reindex(columns=list(arms)).dropna().index
    if len(whole) < len(arms) or complete.empty:
        raise MissingDataError(f"{results.experiment} has no complete seed of {model} on {dataset} yet")
    return {name: frame.loc[complete, list(arms)] for name, frame in wide.items()}


def horizon_of(results: Results, model: str, dataset: str) -> int:
    """Rounds that the measured runs of a cell were asked for."""
    runs = results.runs
    asked = runs[(runs["model"] == model) & (runs["dataset"] == dataset) & (runs["role"] == "measure")]["rounds"]
    if asked.empty:
        raise MissingDataError(f"{results.experiment} has no measured run of {model} on {dataset} yet")
    return int(asked.min())


def speed(paper_S: ArrayLike, arm_S: ArrayLike, horizon: float) -> Speedup:
    """Ratio of mean rounds to the target, ``paper`` over the arm, both cut off at ``horizon``; paired bootstrap.

    Raises:
        InvalidInputError: no seeds, or not as many of both.
    """
    ratio_R, value = _ratios(paper_S, arm_S, horizon, np.random.default_rng(0))
    low, high = percentile_interval(ratio_R) if len(np.atleast_1d(paper_S)) > 1 else (0.0, math.inf)
    reached = [int((np.asarray(rounds, float) <= horizon).sum()) for rounds in (arm_S, paper_S)]
    return Speedup(value, low, high, len(np.atleast_1d(paper_S)), *reached)


def pooled_speed(by_cell: Mapping[tuple[str, str], tuple[ArrayLike, ArrayLike, float]]) -> Speedup:
    """Geometric mean of the cells' ratios, each given as (paper_S, arm_S, horizon); seeds resampled within cells.

    Raises:
        InvalidInputError: no cells, or as :func:`speed`.
    """
    if not by_cell:
        raise InvalidInputError("there are no cells to pool")
    rng = np.random.default_rng(0)
    logs_R, log, seeds, reached, by_paper = np.zeros(RESAMPLES), 0.0, 0, 0, 0
    for paper_S, arm_S, horizon in by_cell.values():
        ratio_R, value = _ratios(paper_S, arm_S, horizon, rng)
        logs_R += np.log(ratio_R) / len(by_cell)
        log += math.log(value) / len(by_cell)
        seeds += len(np.atleast_1d(paper_S))
        reached += int((np.asarray(arm_S, float) <= horizon).sum())
        by_paper += int((np.asarray(paper_S, float) <= horizon).sum())
    alone = any(len(np.atleast_1d(paper_S)) < 2 for paper_S, _, _ in by_cell.values())
    low, high = (0.0, math.inf) if alone else percentile_interval(np.exp(logs_R))
    return Speedup(math.exp(log), low, high, seeds, reached, by_paper)


def _ratios(
    paper_S: ArrayLike, arm_S: ArrayLike, horizon: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], float]:
    paper_S, arm_S = (np.minimum(np.atleast_1d(np.asarray(values, float)), horizon) for values in (paper_S, arm_S))
    if paper_S.size == 0 or paper_S.shape != arm_S.shape:
        raise InvalidInputError(f"a ratio of speeds is of paired seeds; there are {paper_S.size} and {arm_S.size}")
    index_RS = rng.integers(len(paper_S), size=(RESAMPLES, len(paper_S)))
    return paper_S[index_RS].mean(axis=1) / arm_S[index_RS].mean(axis=1), float(paper_S.mean() / arm_S.mean())


class CellRounds(NamedTuple):
    """Of one cell: rounds to the target by seed, of the paper's and of the arm; and what else a table says of it."""

    paper_S: pd.Series
    arm_S: pd.Series
    horizon: int
    area_S: pd.Series  # arm - paper
    pooled: bool  # the paper's best trial lost enough


def rounds_by_cell(
    results: Results, arm: str, paper: str = "paper", *, least_lost: float | None = None, share: float = SHARE
) -> dict[tuple[str, str], CellRounds]:
    """Of each cell that has a complete seed of both arms."""
    by_cell = {}
    for model, dataset in cells(results.runs):
        try:
            tables = outcomes(results, model, dataset, (paper, arm), share)
            horizon = horizon_of(results, model, dataset)
        except MissingDataError:
            continue
        rounds, areas, trial = tables["rounds_to"], tables["area"], best_trial(results, model, dataset)
        pooled = least_lost is None or trial["initial_loss"] - trial["late_loss"] >= least_lost
        by_cell[model, dataset] = CellRounds(rounds[paper], rounds[arm], horizon, areas[arm] - areas[paper], pooled)
    return by_cell


def to_pool(by_cell: Mapping[tuple[str, str], CellRounds]) -> dict[tuple[str, str], tuple[pd.Series, pd.Series, int]]:
    """Those that are pooled, as :func:`pooled_speed` takes them."""
    return {cell: found[:3] for cell, found in by_cell.items() if found.pooled}


def speed_table(
    results: Results,
    arms: Sequence[str],
    paper: str = "paper",
    *,
    least_lost: float | None = None,
    share: float = SHARE,
) -> pd.DataFrame:
    """One row for each cell and arm, and the pooled rows (model and dataset "all"): the ratio of speeds with its
    interval, and the difference of the areas, arm - paper, with its t interval. A cell whose best trial of the paper's
    lost less than ``least_lost`` nats has its own row and is not pooled."""
    rounds = {
        arm: rounds_by_cell(results, arm, paper, least_lost=least_lost, share=share) for arm in arms if arm != paper
    }
    return table_of(rounds, cells(results.runs))


def table_of(
    rounds: Mapping[str, Mapping[tuple[str, str], CellRounds]], of_cells: Sequence[tuple[str, str]]
) -> pd.DataFrame:
    """The table of :func:`speed_table`, from each arm's :func:`rounds_by_cell`."""
    rows = [
        {"model": cell[0], "dataset": cell[1], "arm": arm}
        | speed(by_cell[cell].paper_S, by_cell[cell].arm_S, by_cell[cell].horizon)._asdict()
        | _prefixed("area", mean_interval(by_cell[cell].area_S))
        for cell in of_cells
        for arm, by_cell in rounds.items()
        if cell in by_cell
    ]
    rows += [
        {"model": "all", "dataset": "all", "arm": arm} | pooled_speed(to_pool(by_cell))._asdict()
        for arm, by_cell in rounds.items()
        if to_pool(by_cell)
    ]
    columns = ["model", "dataset", "arm", *Speedup._fields, "area", "area_low", "area_high"]
    return pd.DataFrame(rows, columns=columns)


def _prefixed(name: str, mean: Mean) -> dict[str, float]:
    return {name: mean.value, f"{name}_low": mean.low, f"{name}_high": mean.high}
