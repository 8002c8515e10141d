"""What an allocation may cost in loss: stored runs of like V, each beside full activation with the same seed.

Nothing is fitted. Of the stored runs of the experiment ``lambda``, those whose V is nearest count, and their difference
to the run in which every client trained everything is shown as it is. That is evidence about a small model after a few
rounds, not a promise about another one.

Shapes: R runs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zorba_core.errors import MissingDataError

_SAME = ["seed", "num_clients", "lr", "alpha", "rounds"]  # in which the two runs of a pair agree
_COLUMNS = [*_SAME, "arm", "status", "V", "final_loss", "initial_loss", "dataset", "model"]
NEIGHBOURS = 40
_QUANTILES = (0.1, 0.9)


@dataclass(frozen=True)
class LossDifference:
    """Final loss less that of full activation: the mean of the nearest runs, and where four fifths of them lie."""

    mean: float
    low: float
    high: float
    learned: float  # by how much full activation lowered the loss in the same runs
    num_runs: int
    v_low: float
    v_high: float
    about: str  # model, task, rounds


@dataclass(frozen=True, eq=False)
class RunsByV:
    """Pairs of runs that differ in their allocation alone, by rising V."""

    v_R: NDArray[np.float64]
    difference_R: NDArray[np.float64]
    learned_R: NDArray[np.float64]
    about: str

    def at(self, v: float) -> LossDifference:
        """The evidence nearest to ``v``."""
        distance_R = np.abs(np.log(self.v_R) - np.log(v))
        near = np.sort(np.argsort(distance_R, kind="stable")[:NEIGHBOURS])
        low, high = np.quantile(self.difference_R[near], _QUANTILES)
        return LossDifference(
            float(self.difference_R[near].mean()),
            float(low),
            float(high),
            float(self.learned_R[near].mean()),
            len(near),
            float(self.v_R[near].min()),
            float(self.v_R[near].max()),
            self.about,
        )


@functools.lru_cache(maxsize=4)
def _read(path: Path, modified: int) -> RunsByV:
    del modified  # part of the cache's key only
    runs = pd.read_parquet(path, columns=list(_COLUMNS))
    runs = runs[(runs.status == "finished") & runs.final_loss.notna() & (runs.V > 0)]
    full = runs[runs.arm == "full"].drop_duplicates(_SAME)
    pairs = runs[runs.arm != "full"].merge(full, on=_SAME, suffixes=("", "_full"))
    if pairs.empty:
        raise MissingDataError(f"{path} has no run beside one of full activation")
    pairs = pairs.sort_values("V")
    first = pairs.iloc[0]
    return RunsByV(
        pairs.V.to_numpy(float),
        (pairs.final_loss - pairs.final_loss_full).to_numpy(float),
        (pairs.initial_loss_full - pairs.final_loss_full).to_numpy(float),
        f"{first['model']} on {first['dataset']}, {int(first['rounds'])} rounds",
    )


def runs_by_v(experiments: Path) -> RunsByV:
    """The pairs of the folder of experiments.

    Raises:
        MissingDataError: the experiment is not there.
    """
    path = experiments / "lambda" / "standard" / "runs.parquet"
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; make it with zorba experiment lambda --profile standard")
    return _read(path, path.stat().st_mtime_ns)
