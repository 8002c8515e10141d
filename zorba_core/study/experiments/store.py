"""What is kept of an experiment: two small Parquet tables a profile, read without torch.

    artifacts/experiments/<name>/<profile>/runs.parquet     one row a run, with its whole config
    artifacts/experiments/<name>/<profile>/curves.parquet   one row an evaluation
    artifacts/experiments/work/                             the run folders while and after they run; not tracked

Rows of another engine version, or of a run that the experiment no longer asks for, are named and left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from zorba_core.engine import ENGINE_VERSION
from zorba_core.errors import InvalidInputError, MissingDataError, first_line
from zorba_core.files import write_parquet
from zorba_core.study.experiments.definitions import EXPERIMENTS
from zorba_core.study.experiments.specs import EARLIER_NAMES, Experiment, RunSpec

DEFAULT_ROOT = Path("artifacts/experiments")
WORK = "work"
_AGAIN = "restore it from a copy, or remove it and run the experiment again"

RUN_COLUMNS: Mapping[str, pa.DataType] = {
    "sha256": pa.string(),  # of the request
    "engine_version": pa.int64(),
    "arm": pa.string(),
    "role": pa.string(),
    "status": pa.string(),  # "finished", or "failed": it diverged, and `reason` says when
    "reason": pa.string(),
    "seed": pa.int64(),
    "dataset": pa.string(),
    "data_note": pa.string(),  # says so where the training rows are a subset of the official ones
    "model": pa.string(),
    "alpha": pa.float64(),
    "method": pa.string(),
    "num_clients": pa.int64(),
    "num_blocks": pa.int64(),
    "rounds": pa.int64(),  # asked for
    "lr": pa.float64(),
    "mu": pa.float64(),
    "directions": pa.int64(),
    "batch_size": pa.int64(),
    "direction": pa.string(),
    "inactive": pa.string(),
    "target": pa.float64(),
    "lambda": pa.float64(),
    "V": pa.float64(),
    "E": pa.float64(),
    "D": pa.float64(),
    "N_eff": pa.float64(),
    "T": pa.int64(),
    "min_c": pa.int64(),
    "rounds_done": pa.int64(),
    "rounds_to_target": pa.float64(),  # null: not reached
    "initial_loss": pa.float64(),
    "initial_accuracy": pa.float64(),
    "final_loss": pa.float64(),
    "final_accuracy": pa.float64(),
    "late_loss": pa.float64(),  # mean over the evaluations of the last quarter of the rounds asked for
    "late_accuracy": pa.float64(),
    "best_accuracy": pa.float64(),
    "forward_passes": pa.int64(),
    "work": pa.int64(),  # forward and backward passes of one client's batch
    "sent_paper": pa.int64(),  # up and down over the run: numbers by the paper's text
    "sent_needed": pa.int64(),  # numbers that the receivers cannot do without
    "sent_bytes": pa.int64(),  # on the wire
    "psi_gib": pa.float64(),  # all clients, by the paper's VRAM model at this run's batch and length
    "seconds": pa.float64(),
    "weights_sha256": pa.string(),  # final
    "base_weights_sha256": pa.string(),
    "git_commit": pa.string(),
    "git_dirty": pa.bool_(),
    "machine": pa.string(),
    "config": pa.string(),  # JSON: the request, from which the run can be made again
}
CURVE_COLUMNS: Mapping[str, pa.DataType] = {
    "sha256": pa.string(),
    "round": pa.int64(),
    "loss": pa.float64(),
    "accuracy": pa.float64(),
    "forward_passes": pa.int64(),
    "seconds": pa.float64(),
}
RUN_SCHEMA, CURVE_SCHEMA = pa.schema(list(RUN_COLUMNS.items())), pa.schema(list(CURVE_COLUMNS.items()))


@dataclass(frozen=True, eq=False)
class Results:
    """An experiment's runs and evaluations, and one line for whatever was left out or is still missing."""

    experiment: str
    profile: str
    runs: pd.DataFrame  # RUN_COLUMNS
    curves: pd.DataFrame  # CURVE_COLUMNS
    left_out: tuple[str, ...]
    missing: int  # runs that the profile asks for and the tables do not have

    @property
    def finished(self) -> pd.DataFrame:
        """The runs that did not diverge."""
        return self.runs[self.runs["status"] == "finished"]

    @cached_property
    def curve_by_run(self) -> dict[str, pd.DataFrame]:
        """By the ``sha256`` of a run its evaluations, in the order of rounds."""
        ordered = self.curves.sort_values(["sha256", "round"])
        sha_E = ordered["sha256"].to_numpy()
        ends = [0, *(np.flatnonzero(sha_E[1:] != sha_E[:-1]) + 1), len(sha_E)]
        return {sha_E[start]: ordered.iloc[start:stop] for start, stop in pairwise(ends) if start < stop}


def results_folder(name: str, profile: str, root: str | os.PathLike[str] = DEFAULT_ROOT) -> Path:
    return Path(root) / name / profile


def experiment_named(name: str) -> Experiment:
    """Raises:
    InvalidInputError: an unknown name.
    """
    if name not in EXPERIMENTS:
        raise InvalidInputError(f"experiment {name!r} is unknown; choose one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def read_results(name: str, profile: str = "standard", root: str | os.PathLike[str] = DEFAULT_ROOT) -> Results:
    """The tables of one experiment and profile, with rows that do not belong left out and named.

    Raises:
        InvalidInputError: an unknown experiment or profile, or a damaged table.
        MissingDataError: nothing has been run; names the command that does.
    """
    experiment = experiment_named(name)
    folder = results_folder(name, profile, root)
    if not (folder / "runs.parquet").is_file():
        experiment.specs(profile, empty_runs())  # an unknown profile is said before a missing file
        raise MissingDataError(
            f"{folder / 'runs.parquet'} does not exist; make it with: zorba experiment {name} --profile {profile}"
        )
    runs, curves = read_tables(folder)
    runs, left_out, specs = select(runs, experiment, profile)
    curves = curves[curves["sha256"].isin(runs["sha256"])].reset_index(drop=True)
    return Results(name, profile, runs, curves, left_out, len(specs) - len(runs))


def select(
    runs: pd.DataFrame, experiment: Experiment, profile: str
) -> tuple[pd.DataFrame, tuple[str, ...], list[RunSpec]]:
    """(rows that belong, in the order of the specs and with their labels; a line for each group that does not; all
    specs now known)."""
    current = runs[runs["engine_version"] == ENGINE_VERSION]
    lines = [
        f"{experiment.name}: {len(rows)} runs of engine version {version} left out (this is {ENGINE_VERSION})"
        for version, rows in runs[runs["engine_version"] != ENGINE_VERSION].groupby("engine_version")
    ]
    specs = experiment.specs(profile, current)
    place = {spec.sha256: place for place, spec in enumerate(specs)}
    strangers = current[~current["sha256"].isin(list(place))]
    lines += [
        f"{experiment.name}: {len(rows)} runs of arm {arm} left out: profile {profile} asks for another config now"
        for arm, rows in strangers.groupby("arm")
    ]
    chosen = current[current["sha256"].isin(list(place))].drop_duplicates("sha256", keep="last")
    chosen = chosen.iloc[chosen["sha256"].map(place).argsort(kind="stable")].reset_index(drop=True)
    for column in ("arm", "role"):
        chosen[column] = [getattr(specs[place[sha]], column) for sha in chosen["sha256"]]
    return chosen, tuple(lines), specs


def empty_runs() -> pd.DataFrame:
    return RUN_SCHEMA.empty_table().to_pandas()


def read_tables(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables whole, empty where there is none yet."""
    return _read(folder / "runs.parquet", RUN_SCHEMA), _read(folder / "curves.parquet", CURVE_SCHEMA)


def write_tables(folder: Path, runs: pd.DataFrame, curves: pd.DataFrame) -> None:
    # The curves first: a reader between the two, or after a process that dies there, has no run without its curve.
    for name, frame, schema in (("curves", curves, CURVE_SCHEMA), ("runs", runs, RUN_SCHEMA)):
        table = pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)
        write_parquet(folder / f"{name}.parquet", table)


def frame_of(rows: Sequence[Mapping], schema: pa.Schema) -> pd.DataFrame:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema).to_pandas()


def _read(path: Path, schema: pa.Schema) -> pd.DataFrame:
    if not path.is_file():
        return schema.empty_table().to_pandas()
    try:
        table = pq.read_table(path)
        table = table.rename_columns([EARLIER_NAMES.get(name, name) for name in table.column_names])
        return table.select(schema.names).cast(schema).to_pandas()
    except (pa.ArrowException, OSError, KeyError) as error:
        raise InvalidInputError(f"{path}: not a table of runs ({first_line(error)[:200]}); {_AGAIN}") from None
