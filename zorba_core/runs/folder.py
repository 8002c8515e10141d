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
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pandas as pd

from zorba_core.allocation import Allocation
from zorba_core.data.divide import DIRICHLET
from zorba_core.data.task import Task, get_task, table_of, task_from
from zorba_core.engine.course import Course, path
from zorba_core.engine.round import Round
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, MissingDataError, in_short
from zorba_core.files import read_json
from zorba_core.runs.log import CONFIG, read_log

SUMMARY = "summary.json"
DEFAULT_FOLDER = Path("artifacts/runs")
BACKWARD_WORK = 2  # forward passes that cost about as much as one backward pass
TOTALS = ("seconds", "forward_passes", "backward_passes", "scalars_up", "scalars_down")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, eq=False)
class RunFolder:
    """The content of a run folder. ``summary`` is empty if the run is in progress or was interrupted."""

    path: Path
    config: dict[str, Any]
    rounds: tuple[Round, ...]  # round 0 is the base model's evaluation
    summary: dict[str, Any]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a run folder.

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
        summary = _read_object(path / SUMMARY) if (path / SUMMARY).is_file() else {}
        return cls(path, config, tuple(read_log(path).rounds), summary)

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
    def final_round(self) -> int:
        """The round whose weights are the run's model: the last one, unless it is worse than the base model."""
        return Course(self.rounds).final

    @cached_property
    def settings(self) -> Settings:
        """The settings in the config; a setting that is not there has its default.

        Raises:
            InvalidInputError: a value is invalid on this machine, such as a missing device.
        """
        return self.settings_with()

    def settings_with(self, **changes: Any) -> Settings:
        """As :attr:`settings`, with some values changed."""
        config = {**self.config, **changes}
        try:
            return Settings(**{name: config[name] for name in Settings.model_fields if name in config})
        except InvalidInputError as error:
            raise InvalidInputError(f"{self.path / CONFIG}: {error}") from None

    @cached_property
    def task(self) -> Task:
        """The task, with the run's prompt and label words, and the preference among these that the run's model takes
        out of its scores. No row is read."""
        task = task_of(self.config)
        measured = [done for done in path(self.rounds, self.final_round) if done.prior_C is not None]
        measured = measured or [done for done in self.rounds[:1] if done.prior_C is not None]
        return replace(task, prior=tuple(measured[-1].prior_C.tolist())) if measured else task

    @cached_property
    def allocation(self) -> Allocation:
        """A_MN of the run."""
        return Allocation.from_blocks(self.config["allocation"]["blocks_per_client"], self.config["num_blocks"])

    @property
    def threads(self) -> int:
        """CPU threads."""
        return self.config.get("threads", 1)

    @property
    def division(self) -> dict[str, Any]:
        """``alpha`` and ``division`` of the rows among clients (:mod:`zorba_core.data.divide`)."""
        alpha = self.config["alpha"]
        return {
            "alpha": math.inf if alpha is None else alpha,  # JSON has no infinity
            "division": self.config.get("division", DIRICHLET),
        }

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
        return self.metrics["forward_passes"] + BACKWARD_WORK * self.metrics["backward_passes"]


def read_folder(run: str | os.PathLike[str] | RunFolder) -> RunFolder:
    """The run of this folder, or of this name in the default folder.

    Raises:
        MissingDataError: no such run; the message has similar names.
        InvalidInputError: as :meth:`RunFolder.read`.
    """
    if isinstance(run, RunFolder):
        return run
    path = Path(run)
    if not path.is_dir() and len(path.parts) == 1:
        named = DEFAULT_FOLDER / path
        if not named.is_dir():
            there = [entry.name for entry in DEFAULT_FOLDER.iterdir()] if DEFAULT_FOLDER.is_dir() else []
            alike = difflib.get_close_matches(path.name, there, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(alike)}?" if alike else "zorba runs lists the names"
            raise MissingDataError(f"run {os.fspath(run)!r} does not exist; {hint}")
        path = named
    return RunFolder.read(path)


def finished_folder(run: str | os.PathLike[str] | RunFolder) -> RunFolder:
    """As :func:`read_folder`, for a finished run.

    Raises:
        InvalidInputError: the run is not finished.
    """
    run = read_folder(run)
    if not run.finished:
        raise InvalidInputError(
            f"{run.path}: this run is not finished (round {run.rounds_done} of {run.config.get('rounds', '?')}); "
            f"complete it with: zorba resume {run.path}"
        )
    return run


def check_name(name: str) -> str:
    """Return a run's name, which becomes part of a folder's name.

    Raises:
        InvalidInputError: it has other characters than letters, digits, dot, dash and underscore, or more than 100.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"run name {in_short(name)}: use up to 100 letters, digits, dots, dashes and underscores"
        )
    return name


def plain_name(text: str) -> str:
    """A valid run name made from any text."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:100]


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path}: not a JSON object; the file is damaged, restore it from a copy")
    return content


def task_of(config: Mapping[str, Any]) -> Task:
    """The task of a run's config: the inverse of :func:`task_config`."""
    task = task_from(config["task"]) if "task" in config else get_task(config["dataset"])
    of_run = {
        "prompt": config.get("prompt") or task.prompt,
        "label_words": tuple(config.get("label_words") or task.label_words),
        "prior": tuple(config.get("prior") or ()),
    }
    return task if all(getattr(task, name) == of_run[name] for name in of_run) else replace(task, **of_run)


def task_config(task: Task) -> dict[str, Any]:
    """The config entries of a task: its name, its label words, a changed prompt; for a user's task all its fields."""
    described = {"task": table_of(task)} if task.is_own else {}
    if not task.is_own and task.prompt != get_task(task.name).prompt:
        described["prompt"] = task.prompt
    prior = {"prior": list(task.prior)} if task.prior else {}
    return {"dataset": task.name, "label_words": list(task.label_words), **prior, **described}
