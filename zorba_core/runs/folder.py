"""Runs on disk. A run is a folder ``<runs folder>/<name>-<hash of its config>/`` of three files:

    config.json    the request, the allocation, versions, fingerprints of model and rows, facts about the rows
    rounds.jsonl   a line for each round: seeds, scalars, averages, costs, evaluations (:mod:`zorba_core.runs.log`)
    summary.json   the outcome. It is written last: without it, the run is in progress or was interrupted

A log of scalars cannot restore the weights of FedIT, whose clients send weights: its folder has ``weights.safetensors``
too. This module does not load torch.

Shapes: M blocks, N clients, T rounds.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pandas as pd

from zorba_core import show
from zorba_core.allocation import Allocation
from zorba_core.data.task import Task
from zorba_core.engine.course import Course, is_over, path
from zorba_core.engine.parts import METHODS
from zorba_core.engine.round import Round
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, MissingDataError, in_short
from zorba_core.files import read_json
from zorba_core.runs.log import CONFIG, check_start, read_log
from zorba_core.runs.request import DEFAULT_FOLDER, VERSION, ResolvedRequest

SUMMARY = "summary.json"
BACKWARD_WORK = 2  # forward passes that cost about as much as one backward pass
TOTALS = ("seconds", "forward_passes", "backward_passes", "scalars_up", "scalars_down")


@dataclass(frozen=True, eq=False, repr=False)
class RunFolder:
    """The content of a run folder. ``summary`` is empty if the run is in progress or was interrupted."""

    path: Path
    config: dict[str, Any]  # as in config.json; :attr:`request` has it checked
    summary: dict[str, Any]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a run folder.

        Raises:
            MissingDataError: no such folder.
            InvalidInputError: not a run folder, or a file in it is damaged; the message names the file.
        """
        run = cls.listed(path)
        _ = run.rounds  # read now, so that damage is reported here
        return run

    @classmethod
    def listed(cls, path: str | os.PathLike[str]) -> Self:
        """As :meth:`read`, but the log is read at the first use of ``rounds``; only its first line is checked now.

        Raises:
            MissingDataError: no such folder.
            InvalidInputError: not a run folder, or a file in it is damaged; the message names the file.
        """
        path = Path(path)
        if not path.is_dir():
            raise MissingDataError(f"run {str(path)!r} does not exist; give a folder such as {DEFAULT_FOLDER}/<name>")
        if not (path / CONFIG).is_file():
            raise InvalidInputError(f"{path}: not a run folder: it has no {CONFIG}")
        config = _read_object(path / CONFIG)
        for name in ("allocation", "environment", "model", "dataset"):
            if name not in config:
                raise InvalidInputError(f"{path / CONFIG}: it has no {name}; it is damaged, or of an earlier version")
        if (method := config.get("method", "zorba")) not in METHODS:
            raise InvalidInputError(f"{path}: its method {in_short(method)} is unknown here; import what registers it")
        if config.get("version", 1) != VERSION:
            raise InvalidInputError(
                f"{path / CONFIG}: its layout is version {in_short(config['version'])}, and this zorba_core reads "
                f"version {VERSION}; use the zorba_core that made the run"
            )
        summary = _read_object(path / SUMMARY) if (path / SUMMARY).is_file() else {}
        check_start(path)
        return cls(path, config, summary)

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The log. Round 0 is the base model's evaluation.

        Raises:
            InvalidInputError: a line is damaged.
        """
        return tuple(read_log(self.path).rounds)

    def __repr__(self) -> str:
        done = f"{self.rounds_done} of {self.request.settings.rounds} rounds"
        before, after = self._ends()
        scores = "" if before is None else f", {self.metric} {before:.3f} → {after:.3f}"
        method = METHODS[self.request.settings.method].title
        return f"{type(self).__name__}({self.name}: {method} on {self.request.task.name}, {done}{scores})"

    def _repr_html_(self) -> str:
        """In a notebook: the loss of each evaluation."""
        rows = self.evaluations
        if rows.empty:
            return show.card(repr(self), "")
        round_P, loss_P = rows["round"].to_numpy(float), rows["eval_loss"].to_numpy(float)
        ends = ("0", str(int(round_P[-1])), f"{loss_P.min():.2f}", f"{loss_P.max():.2f}")
        return show.card(repr(self), show.curve(round_P, loss_P, ends, "round and evaluation loss", None))

    def _ends(self) -> tuple[float | None, float | None]:
        """The accuracy before and after training; of a run in progress, at its last evaluation."""
        if self.finished:
            return self.summary["initial_accuracy"], self.summary["final_accuracy"]
        measured = [done.eval_accuracy for done in self.rounds if done.eval_accuracy is not None]
        return (measured[0], measured[-1]) if measured else (None, None)

    @property
    def metric(self) -> str:
        """What the accuracy counts: "accuracy", or "exact match" of written answers."""
        return str(self.environment.get("data", {}).get("metric", "accuracy")).replace("_", " ")

    @property
    def best_accuracy(self) -> float | None:
        """The best accuracy of the evaluations; None before the first."""
        if self.finished:
            return self.summary["best_accuracy"]
        measured = [done.eval_accuracy for done in self.rounds if done.eval_accuracy is not None]
        return max(measured, default=None)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def finished(self) -> bool:
        """Whether the last round is done and the summary written."""
        return bool(self.summary)

    @property
    def rounds_done(self) -> int:
        """Rounds in the log, without round 0."""
        return max(len(self.rounds) - 1, 0)

    @property
    def resumes_from(self) -> int:
        """The round whose weights the run continues with: as the network had them when the log ended."""
        over = bool(self.rounds) and is_over(self.rounds[-1], self.settings)
        return Course(self.rounds).weights(over)

    @property
    def final_round(self) -> int:
        """The round whose weights are the run's model: the last one, unless it is worse than the base model."""
        return Course(self.rounds).final

    @cached_property
    def request(self) -> ResolvedRequest:
        """What the run was asked to do: the config.

        Raises:
            InvalidInputError: a value in the config is invalid.
        """
        try:
            return ResolvedRequest.of_config(self.config)
        except InvalidInputError as error:
            raise InvalidInputError(f"{self.path / CONFIG}: {error}") from None

    @cached_property
    def settings(self) -> Settings:
        """The run's settings.

        Raises:
            InvalidInputError: a value is invalid on this machine, such as a missing device.
        """
        return self.settings_with()

    def settings_with(self, **changes: Any) -> Settings:
        """As :attr:`settings`, with some values changed."""
        try:
            return self.request.settings.replace(**changes)
        except InvalidInputError as error:
            raise InvalidInputError(f"{self.path / CONFIG}: {error}") from None

    @property
    def trained_task(self) -> Task:
        """The task as the run trains on it. No row is read."""
        return self.request.task

    @cached_property
    def task(self) -> Task:
        """The task, with the preference among label words that the run's model takes out of its scores. With
        calibration batch it was measured with the weights of the last evaluation. No row is read."""
        prior_C = self.preference(self.final_round)
        return self.trained_task if prior_C is None else replace(self.trained_task, prior=tuple(prior_C.tolist()))

    def preference(self, round_index: int) -> np.ndarray | None:
        """The preference that was measured at the last evaluation up to a round; None without calibration batch."""
        steps = [*self.rounds[:1], *path(self.rounds, round_index)]
        return next((done.prior_C for done in reversed(steps) if done.prior_C is not None), None)

    @property
    def allocation(self) -> Allocation:
        """A_MN of the run."""
        return self.request.allocation

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, device, fingerprints of base model and rows, facts about the rows."""
        return self.config["environment"]

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """A row for each round: ``round, lr, train_loss, eval_loss, eval_accuracy, clients_reported, clients_refused``,
        and the sums since the start of ``seconds, forward_passes, backward_passes, scalars_up, scalars_down``. Without
        an evaluation, loss and accuracy are NaN."""
        columns = ("round", "lr", "train_loss", "eval_loss", "eval_accuracy", *TOTALS)
        table = pd.DataFrame({name: [getattr(done, name) for done in self.rounds] for name in columns})
        measured = ["train_loss", "eval_loss", "eval_accuracy"]
        table[measured] = table[measured].astype(float)
        table[[*TOTALS]] = table[[*TOTALS]].cumsum()
        table["clients_reported"] = [int(done.reported_N.sum()) for done in self.rounds]
        table["clients_refused"] = [int(done.refused_N.sum()) for done in self.rounds]
        return table

    @property
    def evaluations(self) -> pd.DataFrame:
        """The rows of :attr:`metrics` in which the model was evaluated."""
        return self.metrics.dropna(subset=["eval_accuracy"])

    @property
    def work(self) -> pd.Series:
        """Computation up to each row of :attr:`metrics`, in forward passes of one client's batch; a backward pass
        counts as ``BACKWARD_WORK``. It compares methods whose rounds differ in cost."""
        return cast(pd.Series, self.metrics["forward_passes"] + BACKWARD_WORK * self.metrics["backward_passes"])


def path_of(run: str | os.PathLike[str]) -> Path:
    """The folder of a run, which may be given by its name in the default folder, or by the name that it was asked to
    have (``train --name``), without the end that makes it unique, while only one run has it.

    Raises:
        MissingDataError: no such run; the message has similar names.
    """
    path = Path(run)
    if path.is_dir() or len(path.parts) != 1:
        return path
    folders = DEFAULT_FOLDER.iterdir() if DEFAULT_FOLDER.is_dir() else ()
    there = sorted(folder.name for folder in folders if folder.is_dir())
    if path.name in there:
        return DEFAULT_FOLDER / path
    begun = [name for name in there if name.rpartition("-")[0] == path.name]
    if len(begun) == 1:
        return DEFAULT_FOLDER / begun[0]
    alike = begun or difflib.get_close_matches(path.name, there, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(alike[:3])}?" if alike else "zorba runs lists the names"
    raise MissingDataError(f"run {os.fspath(run)!r} does not exist; {hint}")


def read_folder(run: str | os.PathLike[str] | RunFolder) -> RunFolder:
    """The run of this folder, or of this name in the default folder.

    Raises:
        MissingDataError, InvalidInputError: as :func:`path_of` and :meth:`RunFolder.read`.
    """
    return run if isinstance(run, RunFolder) else RunFolder.read(path_of(run))


def finished_folder(run: str | os.PathLike[str] | RunFolder) -> RunFolder:
    """As :func:`read_folder`, for a finished run.

    Raises:
        InvalidInputError: the run is not finished.
    """
    run = read_folder(run)
    if not run.finished:
        raise InvalidInputError(
            f"{run.path}: this run is not finished (round {run.rounds_done} of {run.request.settings.rounds}); "
            f"complete it with: zorba resume {run.path}"
        )
    return run


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path}: not a JSON object; the file is damaged, restore it from a copy")
    return content
