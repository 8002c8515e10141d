"""What the experiment ``predictors`` says: correlations between matrices and, of the gain, within them.

Shapes: K matrices, S complete seeds, R resamples.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zorba_core.allocation.gain import BlockFacts, gain
from zorba_core.errors import MissingDataError
from zorba_core.study.experiments.design import FEATURES, stored_design
from zorba_core.study.experiments.energies import stored_facts
from zorba_core.study.experiments.predictors import name_of
from zorba_core.study.experiments.resampling import holm, percentile_interval, two_way_resamples
from zorba_core.study.experiments.specs import RunSpec
from zorba_core.study.experiments.speed import area, cells
from zorba_core.study.experiments.statistics import Correlation, rank_correlation, spearman
from zorba_core.study.experiments.store import Results

_PERMUTATIONS = 4999


class Predicting(NamedTuple):
    """Of each measure: Spearman's rho with the matrices' mean area, its 95 % interval over matrices and seeds, p-value,
    Holm's, and the range of rho over leaving each matrix out (``least``, ``most``); ``heaviest`` is the largest
    leverage of a matrix in the line through the measure."""

    table: pd.DataFrame
    seeds: int
    cell: str


def areas(results: Results, cell: tuple[str, str]) -> pd.DataFrame:
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


def _first_cell(results: Results) -> tuple[str, str]:
    """The cell with most complete seeds.

    Raises:
        MissingDataError: none has any.
    """
    counts = {}
    for cell in cells(results.runs[results.runs["role"] == "measure"]):
        try:
            counts[cell] = areas(results, cell).shape[1]
        except MissingDataError:
            continue
    if not counts:
        raise MissingDataError(f"{results.experiment} has no complete seed yet")
    return max(counts, key=counts.get)


def predicting(results: Results, cell: tuple[str, str] | None = None) -> Predicting:
    """Between matrices; the cell with most seeds where none is given.

    Raises:
        MissingDataError: no complete seed.
    """
    cell = cell or _first_cell(results)
    area_KS = areas(results, cell).to_numpy()
    area_KS = area_KS - area_KS.mean(axis=0)
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
    return Predicting(table, area_KS.shape[1], f"{cell[0]} on {cell[1]}")


def run_gains(results: Results, cell: tuple[str, str]) -> pd.DataFrame:
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


def within_matrices(results: Results, cell: tuple[str, str] | None = None, *, seed: int = 0) -> Correlation:
    """Of one matrix, does the order of blocks with the larger gain end lower? Both less the means of matrix and seed;
    the interval resamples matrices, the p-value permutes runs within matrices.

    Raises:
        MissingDataError: fewer than two complete seeds, or no energies.
    """
    cell = cell or _first_cell(results)
    area_KS = areas(results, cell)
    if area_KS.shape[1] < 2:
        raise MissingDataError(f"{results.experiment} needs two complete seeds of {cell[0]} on {cell[1]}")
    gain_KS = _within(run_gains(results, cell).loc[area_KS.index, area_KS.columns].to_numpy())
    left_KS, rng = _within(area_KS.to_numpy()), np.random.default_rng(seed)
    value = float(np.corrcoef(gain_KS.ravel(), left_KS.ravel())[0, 1])
    index_RK = rng.integers(len(left_KS), size=(2000, len(left_KS)))
    low, high = percentile_interval(
        [np.corrcoef(gain_KS[index_K].ravel(), left_KS[index_K].ravel())[0, 1] for index_K in index_RK]
    )
    permuted = [np.corrcoef(rng.permuted(gain_KS, axis=1).ravel(), left_KS.ravel())[0, 1] for _ in range(_PERMUTATIONS)]
    p_value = (1 + int((np.abs(permuted) >= abs(value) - 1e-12).sum())) / (_PERMUTATIONS + 1)
    return Correlation(value, low, high, p_value, left_KS.size)


def _within(values_KS: NDArray[np.float64]) -> NDArray[np.float64]:
    return values_KS - values_KS.mean(axis=1, keepdims=True) - values_KS.mean(axis=0) + values_KS.mean()
