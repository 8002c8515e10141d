"""Run folders: the files of a fine-tuning run, read without torch.

A run is a folder ``<runs folder>/<name>-<hash of its config>/``:

    config.json       the requested settings
    environment.json  what it ran on: versions, commit, device, seeds, fingerprints of weights and rows
    allocation.npz    A_MN, bool
    task.toml         of a run on the user's own rows: the task, to be read and used again (config.json has it too)
    trajectory.log    every round's seeds and scalars: with the base model, the weights of any round
    metrics.parquet   one row a round (see METRIC_COLUMNS); rewritten at every evaluation while the run continues
    summary.json      the outcome; written last, so a folder without it is a run in progress or an interrupted one

Shapes: M blocks, N clients, P rows of the metrics.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zorba_core.allocation import Allocation, allocation_from_file
from zorba_core.allocation.storage import allocation_sha256
from zorba_core.errors import InvalidInputError, MissingDataError, ZorbaError, in_short, one_line
from zorba_core.files import fingerprint
from zorba_core.runs.trajectory import header_of_rounds
from zorba_core.runs.trajectory_records import Header

if TYPE_CHECKING:
    from zorba_core.runs.use.evaluating import EvaluationReport
    from zorba_core.runs.use.rows import Table, Texts

CONFIG, ENVIRONMENT, ALLOCATION = "config.json", "environment.json", "allocation.npz"
METRICS, SUMMARY, TRAJECTORY = "metrics.parquet", "summary.json", "trajectory.log"
TASK = "task.toml"
DEFAULT_FOLDER = Path("artifacts/runs")
EARLIER_NAMES = {"num_perturbations": "directions"}  # what stored configs and tables call a setting, and its name now

METRIC_COLUMNS = {
    "round": pa.int64(),  # rounds done; 0 is the model before fine-tuning
    "train_loss": pa.float64(),  # mean over clients at the round's start; null in round 0
    "eval_loss": pa.float64(),  # null where not evaluated, as is the next
    "eval_accuracy": pa.float64(),
    "seconds": pa.float64(),  # in rounds so far, evaluations not counted
    "forward_passes": pa.int64(),  # of one client's batch, so far
    "scalars_up": pa.int64(),  # numbers sent by all clients (finite differences, estimates or weights), so far
    "scalars_down": pa.int64(),  # numbers sent to all clients (averages and seeds, estimates or weights), so far
    "clients_reported": pa.int64(),  # in this round; null in round 0, as is the next
    "clients_refused": pa.int64(),  # in this round, for scalars that could not be used
    "backward_passes": pa.int64(),  # of one client's batch, so far
}
BACKWARD_WORK = 2  # a backward pass costs about two forward passes
METRIC_SCHEMA = pa.schema(list(METRIC_COLUMNS.items()))

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DAMAGED = "the file is damaged; restore it from a copy"
_CUT_SHORT = "not a run folder, or one that was cut short at its start:"


@dataclass(frozen=True, eq=False)
class Run:
    """One run folder. ``summary`` is empty while the run is in progress, or when it was interrupted."""

    path: Path
    name: str  # the folder's name
    config: dict[str, Any]
    environment: dict[str, Any]
    metrics: pd.DataFrame  # columns METRIC_COLUMNS, null as NaN
    allocation: Allocation
    summary: dict[str, Any]

    @property
    def finished(self) -> bool:
        return bool(self.summary)

    @property
    def work(self) -> pd.Series:
        """For each row of ``metrics``, what had been computed so far, in forward passes of one client's batch; a
        backward pass counts as ``BACKWARD_WORK``. Comparable between methods where rounds are not."""
        return pd.Series(self.work_P, self.metrics.index)

    @property
    def work_P(self) -> NDArray[np.int64]:
        """:attr:`work` as an array, a number for each of the P rows."""
        return self.metrics["forward_passes"].to_numpy() + BACKWARD_WORK * self.metrics["backward_passes"].to_numpy()

    @property
    def communication(self) -> dict[str, Any] | None:
        """What a finished run sent (:mod:`zorba_core.engine.communication`)."""
        return self.summary.get("communication")

    @property
    def evaluations(self) -> pd.DataFrame:
        """The rows of ``metrics`` in which the model was evaluated."""
        return self.metrics.dropna(subset=["eval_accuracy"])

    # What follows loads the model, so its code loads when it is first used (zorba_core.runs.use).

    def predict(self, texts: Texts, *, base: bool = False) -> pd.DataFrame:
        """The texts with the columns ``prediction`` and ``probability`` by the fine-tuned model.

        Args:
            texts: a text or several; for a task of several text columns mappings; or a table with those columns.
            base: also ``base_prediction`` and ``base_probability``, by the model before fine-tuning.

        Raises:
            InvalidInputError, MissingDataError: as :func:`zorba_core.runs.use.predict`.
        """
        from zorba_core.runs.use.predicting import predict

        return predict(self, texts, base=base).table()

    def evaluate(
        self, data: Table | None = None, *, label: str | None = None, client: str | None = None
    ) -> EvaluationReport:
        """How good the fine-tuned model is on labelled rows, beside the base model; by default on the run's own.

        Args:
            data: a file or a table with the columns of the run's own rows.
            label, client: its columns of labels and of whose row it is, where they have other names.

        Raises:
            InvalidInputError, MissingDataError: as :func:`zorba_core.runs.use.evaluate_run`.
        """
        from zorba_core.runs.use.evaluating import evaluate_run

        return evaluate_run(self, data, label=label, client=client)

    def export(self, to: str | os.PathLike[str]) -> Path:
        """Write the fine-tuned model in Hugging Face format, with tokenizer and model card, to a new folder.

        Raises:
            InvalidInputError, MissingDataError: as :func:`zorba_core.runs.use.export_run`.
        """
        from zorba_core.runs.use.export import export_run

        return export_run(self, to)


def check_name(name: str) -> str:
    """A run's name becomes part of a folder's.

    Raises:
        InvalidInputError: anything but letters, digits, dot, dash and underscore, or longer than 100.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"run name {in_short(name)}: use up to 100 letters, digits, dots, dashes and underscores"
        )
    return name


class Request(NamedTuple):
    """The request that a run started from, and its environment."""

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    allocation: Allocation


class RunListing(NamedTuple):
    """The runs of a folder, newest first, and one line for each entry that could not be read."""

    runs: tuple[Run, ...]
    problems: tuple[str, ...]


def list_runs(folder: str | os.PathLike[str] = DEFAULT_FOLDER) -> RunListing:
    """Every run in ``folder`` (none when it does not exist yet). A damaged entry does not hide the others.

    Hidden entries and plain files are not runs and are passed over; a folder that is not a readable run becomes
    a line in ``problems``.
    """
    runs: list[tuple[float, Run]] = []
    problems: list[str] = []
    folder = Path(folder)
    if not folder.is_dir():
        return RunListing((), ())
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_dir():
            continue
        try:
            run = read_run(path)
            runs.append(((path / CONFIG).stat().st_mtime, run))
        except (ZorbaError, OSError) as error:
            problems.append(one_line(error))
    runs.sort(key=lambda dated: dated[0], reverse=True)
    return RunListing(tuple(run for _, run in runs), tuple(problems))


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a run folder, finished or not.

    Raises:
        MissingDataError: no such folder.
        InvalidInputError: not a run folder, or a file in it is damaged; names the file.
    """
    request = read_request(path)
    path = request.path
    if not (path / METRICS).is_file():
        raise InvalidInputError(f"{path}: {_CUT_SHORT} no {METRICS}")
    header = header_of_rounds(path / TRAJECTORY)
    if header is not None:
        check_written_under(request, header)
    return Run(
        path=path,
        name=path.name,
        config={"method": "zorba", **request.config},  # older runs do not name it
        environment=request.environment,
        metrics=_read_metrics(path / METRICS),
        allocation=request.allocation,
        summary=read_summary(path),
    )


def read_summary(path: Path) -> dict[str, Any]:
    """A run's summary; empty for one that has not ended.

    Raises:
        InvalidInputError: it is damaged.
    """
    return _read_object(path / SUMMARY) if (path / SUMMARY).is_file() else {}


def read_request(path: str | os.PathLike[str]) -> Request:
    """The part of a run folder that is there before the first round.

    Raises:
        MissingDataError, InvalidInputError: as :func:`read_run`.
    """
    path = Path(path)
    if not os.path.isdir(path):
        raise MissingDataError(f"run {str(path)!r} does not exist; give a folder such as {DEFAULT_FOLDER}/<name>")
    missing = [name for name in (CONFIG, ENVIRONMENT, ALLOCATION) if not (path / name).is_file()]
    if missing:
        raise InvalidInputError(f"{path}: {_CUT_SHORT} no {missing[0]}")
    config, environment = current_names(_read_object(path / CONFIG)), _read_object(path / ENVIRONMENT)
    allocation = allocation_from_file(path / ALLOCATION)
    for name, number in (("num_clients", allocation.num_clients), ("num_blocks", allocation.num_blocks)):
        if config.get(name, number) != number:
            raise InvalidInputError(
                f"{path}: {name} is {config[name]} in {CONFIG} and {number} in {ALLOCATION}; one of them is damaged"
            )
    return Request(path, config, environment, allocation)


def current_names(config: dict[str, Any]) -> dict[str, Any]:
    """A stored config with the names that its settings have now."""
    return {EARLIER_NAMES.get(name, name): value for name, value in config.items()}


def header_of(config: dict[str, Any], environment: dict[str, Any], allocation: Allocation) -> Header:
    """The log's first record, for the folder's other files."""
    return Header(
        config_sha256=fingerprint(config),
        allocation_sha256=allocation_sha256(allocation),
        base_weights_sha256=environment.get("base_weights_sha256", ""),
        num_clients=allocation.num_clients,
        num_blocks=allocation.num_blocks,
    )


def check_written_under(request: Request, header: Header) -> None:
    """Refuse a folder whose files are not those that its log was written under. Of the environment the base model's
    weights count, which decide the result.

    Raises:
        InvalidInputError: it names the file that was changed.
    """
    expected = header_of(_read_object(request.path / CONFIG), request.environment, request.allocation)
    for name, what in (
        ("config_sha256", CONFIG),
        ("allocation_sha256", ALLOCATION),
        ("base_weights_sha256", ENVIRONMENT),
    ):
        if getattr(header, name) != getattr(expected, name):
            raise InvalidInputError(
                f"{request.path / what} is not the one that {TRAJECTORY} was written under: it was damaged or changed; "
                "put the original back"
            )


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise InvalidInputError(f"{path}: not JSON; {_DAMAGED}") from None
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path}: holds a {type(content).__name__} where a JSON object belongs")
    return content


def _read_metrics(path: Path) -> pd.DataFrame:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError):
        raise InvalidInputError(f"{path}: not a metrics table; {_DAMAGED}") from None
    if "backward_passes" not in table.column_names:  # of a run from before there were first-order methods
        table = table.append_column("backward_passes", pa.array([0] * len(table), pa.int64()))
    missing = [name for name in METRIC_COLUMNS if name not in table.column_names]
    if missing:
        raise InvalidInputError(f"{path}: no column {missing[0]}; want {', '.join(METRIC_COLUMNS)}")
    return table.select(list(METRIC_COLUMNS)).cast(METRIC_SCHEMA).to_pandas()
