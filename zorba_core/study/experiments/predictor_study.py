"""What the experiment ``predictors`` says: correlations between matrices and, of the gain, within them; of one cell (a
base and a task), or of several together.

Shapes: K matrices, S complete seeds, of several cells side by side; R resamples.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zorba_core.allocation.gain import BlockFacts, gain
from zorba_core.errors import MissingDataError
from zorba_core.study.experiments.design import FEATURES, recipe_of, stored_design
from zorba_core.study.experiments.energies import stored_facts
from zorba_core.study.experiments.predictors import name_of
from zorba_core.study.experiments.resampling import (
    ArmsTest,
    arms_differ,
    holm,
    percentile_interval,
    two_way_resamples,
)
from zorba_core.study.experiments.specs import RunSpec
from zorba_core.study.experiments.speed import area, cells
from zorba_core.study.experiments.statistics import Correlation, left_of, rank_correlation, spearman
from zorba_core.study.experiments.store import Results

_PERMUTATIONS = 4999
Cell = tuple[str, str]  # base and task
Values = NDArray[np.float64]


class Predicting(NamedTuple):
    """Of each measure: Spearman's rho with the matrices' mean area, its 95 % interval over matrices and seeds, p-value,
    Holm's, and the range of rho over leaving each matrix out (``least``, ``most``); ``heaviest`` is the largest
    leverage of a matrix in the line through the measure."""

    table: pd.DataFrame
    seeds: int  # over all cells
    cells: str


def areas(results: Results, cell: Cell) -> pd.DataFrame:
    """Area under the loss curve, a row a matrix and a column a complete seed.

    Raises:
        MissingDataError: no complete seed.
    """
    runs = results.runs
    runs = runs[(runs["model"] == cell[0]) & (runs["dataset"] == cell[1]) & (runs["role"] == "measure")]
    curves = dict(list(results.curves.groupby("sha256")))
    values = [
        area(curves[row.sha256]["round"], curves[row.sha256]["loss"], row.rounds, diverged=row.status != "finished")
        for row in runs.itertuples()
    ]
    names = [name_of(k) for k in range(len(stored_design().columns_K))]
    table = runs.assign(area=values).pivot_table(index="arm", columns="seed", values="area", aggfunc="first")
    table = table.reindex(names).dropna(axis="columns")
    if table.shape[1] == 0:
        raise MissingDataError(f"{results.experiment} has no complete seed of {cell[0]} on {cell[1]} yet")
    return table


def cells_with(results: Results, seeds: int) -> list[Cell]:
    """The cells that have at least so many complete seeds, those of most seeds first."""
    counts = {}
    for cell in cells(results.runs[results.runs["role"] == "measure"]):
        with contextlib.suppress(MissingDataError):
            counts[cell] = areas(results, cell).shape[1]
    return sorted((cell for cell in counts if counts[cell] >= seeds), key=counts.get, reverse=True)


def predicting(results: Results, of: Sequence[Cell]) -> Predicting:
    """Between matrices, over the seeds of all of these cells. Each cell's areas are taken less their seed's mean, in
    units of their standard deviation in the cell.

    Raises:
        MissingDataError: no cell, or one without a complete seed.
    """
    area_KS = _side_by_side([areas(results, cell).to_numpy() for cell in of], lambda a_KS: a_KS - a_KS.mean(axis=0))
    mean_K, features_KF = area_KS.mean(axis=1), stored_design().features_KF
    arm_RK, mean_RK = two_way_resamples(area_KS)
    rows = {}
    for f, name in enumerate(FEATURES):
        x_K = features_KF[:, f]
        rank = rank_correlation(x_K, mean_K, resamples=9999)
        low, high = percentile_interval(spearman(x_K[arm_RK], mean_RK))
        left = [float(spearman(np.delete(x_K, k), np.delete(mean_K, k))) for k in range(len(x_K))]
        centred = x_K - x_K.mean()
        rows[name] = {
            "value": rank.value,
            "low": low,
            "high": high,
            "p_value": rank.p_value,
            "least": min(left),
            "most": max(left),
            "heaviest": float((1 / len(x_K) + centred**2 / (centred**2).sum()).max()),
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.insert(4, "holm", holm(table["p_value"]))
    return Predicting(table, area_KS.shape[1], " and ".join(f"{model} on {dataset}" for model, dataset in of))


def differing(results: Results, of: Sequence[Cell]) -> ArmsTest:
    """Do matrices differ at all beyond the noise of seeds?

    Raises:
        MissingDataError: as :func:`predicting`.
    """
    return arms_differ(_side_by_side([areas(results, cell).to_numpy() for cell in of], lambda a_KS: a_KS))


def gain_between(results: Results, of: Sequence[Cell]) -> Correlation:
    """Spearman's rho of the mean area with the matrix's own -log Phi, blocks alike with the mean facts of their cell;
    of several cells, with the mean of its standard scores. Thought of after the runs: the plan has it within matrices
    alone, since log Phi follows from D and E here.

    Raises:
        MissingDataError: as :func:`run_gains`.
    """
    design, scores = stored_design(), []
    for model, dataset in of:
        facts = stored_facts(model, dataset)
        if facts is None:
            raise MissingDataError(f"no energies of {model} on {dataset}")
        alike = BlockFacts.of(len(facts[0]), *map(float, np.mean(facts, axis=1)))
        gain_K = np.array([-np.log(gain(recipe_of(columns).build().A_MN, alike)) for columns in design.columns_K])
        scores.append((gain_K - gain_K.mean()) / gain_K.std())
    area_KS = _side_by_side([areas(results, cell).to_numpy() for cell in of], lambda a_KS: a_KS - a_KS.mean(axis=0))
    x_K, (arm_RK, mean_RK) = np.mean(scores, axis=0), two_way_resamples(area_KS)
    rank = rank_correlation(x_K, area_KS.mean(axis=1), resamples=9999)
    low, high = percentile_interval(spearman(x_K[arm_RK], mean_RK))
    return Correlation(rank.value, low, high, rank.p_value, area_KS.size)


def run_gains(results: Results, cell: Cell) -> pd.DataFrame:
    """-log Phi of every run's own matrix, blocks permuted as in the run, by the public proxy's facts: matrix x seed.

    Raises:
        MissingDataError: the proxy has not been measured for the cell.
    """
    facts = stored_facts(*cell)
    if facts is None:
        raise MissingDataError(
            f"no energies of {cell[0]} on {cell[1]}; make them with: "
            f"python -m zorba_core.study.experiments.proxy {cell[0]} {cell[1]}"
        )
    block_facts = BlockFacts.of(len(facts[0]), *facts)
    runs = results.runs
    runs = runs[(runs["model"] == cell[0]) & (runs["dataset"] == cell[1]) & (runs["role"] == "measure")]
    values = [
        -np.log(gain(RunSpec.from_request(json.loads(config)["request"]).recipe.build().A_MN, block_facts))
        for config in runs["config"]
    ]
    return runs.assign(gain=values).pivot_table(index="arm", columns="seed", values="gain", aggfunc="first")


def within_matrices(results: Results, of: Sequence[Cell], *, seed: int = 0) -> Correlation:
    """Of one matrix, does the order of blocks with the larger gain end lower? -log Phi is less its matrix's mean, the
    area less the means of matrix and seed in their cell, and of several cells in units of their standard deviations;
    the interval resamples matrices, the p-value permutes runs within matrices and cells.

    Raises:
        MissingDataError: no cell, one of fewer than two complete seeds, or no energies.
    """
    areas_C = [areas(results, cell) for cell in of]
    for cell, area_KS in zip(of, areas_C, strict=True):
        if area_KS.shape[1] < 2:
            raise MissingDataError(f"{results.experiment} needs two complete seeds of {cell[0]} on {cell[1]}")
    gains_C = [
        run_gains(results, cell).loc[area_KS.index, area_KS.columns].to_numpy()
        for cell, area_KS in zip(of, areas_C, strict=True)
    ]
    gain_KS = _side_by_side(gains_C, lambda g_KS: g_KS - g_KS.mean(axis=1, keepdims=True))
    left_KS, rng = _side_by_side([area_KS.to_numpy() for area_KS in areas_C], left_of), np.random.default_rng(seed)
    value = float(np.corrcoef(gain_KS.ravel(), left_KS.ravel())[0, 1])
    index_RK = rng.integers(len(left_KS), size=(2000, len(left_KS)))
    low, high = percentile_interval(
        [np.corrcoef(gain_KS[index_K].ravel(), left_KS[index_K].ravel())[0, 1] for index_K in index_RK]
    )
    cells_of_S = np.split(gain_KS, np.cumsum([gain.shape[1] for gain in gains_C])[:-1], axis=1)
    permuted = [
        np.corrcoef(np.hstack([rng.permuted(part, axis=1) for part in cells_of_S]).ravel(), left_KS.ravel())[0, 1]
        for _ in range(_PERMUTATIONS)
    ]
    p_value = (1 + int((np.abs(permuted) >= abs(value) - 1e-12).sum())) / (_PERMUTATIONS + 1)
    return Correlation(value, low, high, p_value, left_KS.size)


def _side_by_side(values_C: Sequence[Values], centred: Callable[[Values], Values]) -> Values:
    """Each cell's values, centred and in units of their own standard deviation."""
    if not values_C:
        raise MissingDataError("no cell has enough complete seeds yet")
    parts = [centred(values_KS) for values_KS in values_C]
    return np.hstack([part / part.std() for part in parts])
