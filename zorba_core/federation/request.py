"""The request for a run, read from the run-config of ``flwr run``, and the terms that the server sends to clients.

The terms are JSON and part of the greeting. They hold everything that decides the numbers: task, label words, division
of the rows, settings of the estimator. They do not hold a client's files, device or threads: those are in its own
``--node-config``.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from zorba_core.allocation import Allocation
from zorba_core.checked import Checked
from zorba_core.data.task import TableRows, Task, table_of, task_from
from zorba_core.engine.parts import ESTIMATORS, METHODS, method_facts
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, first_line
from zorba_core.federation.options import ServerOptions
from zorba_core.files import to_json
from zorba_core.runs.folder import RunFolder
from zorba_core.runs.load import read_spec
from zorba_core.runs.request import ResolvedRequest, TrainRequest, task_config

APP = Path(__file__).parent / "app"
MAX_CLIENTS = 100_000
# Fields of a request that are keys of the run-config, with dashes.
_GIVEN = (
    "clients", "model", "dataset", "data", "test", "prompt", "division", "alpha", "threads", "force", "runs_folder",
    "name",
)  # fmt: skip


class Terms(Checked, frozen=True):
    """The part of a request that clients need.

    Raises:
        InvalidInputError: a value out of range.
    """

    task: dict[str, Any]
    """The task as in a run's config, without paths to rows."""
    model: str
    """The base model's name, or its folder on the server."""
    clients: int = Field(ge=1, le=MAX_CLIENTS)
    division: str
    """How the rows of a built-in task, or of a shared file, are divided among the clients."""
    alpha: float = Field(gt=0, allow_inf_nan=True)
    splits: bool
    """Whether a part of the shared file is for evaluation, and no client trains on it."""
    settings: Settings

    @classmethod
    def read(cls, text: str) -> Self:
        """
        Raises:
            InvalidInputError: the text is not JSON of terms, or a value is invalid.
        """
        try:
            return cls(**json.loads(text))
        except (InvalidInputError, ValueError, TypeError, RecursionError) as error:
            raise InvalidInputError(f"the run's terms cannot be used: {first_line(error)[:200]}") from None

    def to_json(self) -> str:
        return json.dumps(self.model_dump())  # pydantic's own JSON has no Infinity, a value of alpha


def run_config(**changes: Any) -> dict[str, Any]:
    """The run-config of ``app/pyproject.toml`` with some values changed, in the form that the ServerApp gets."""
    config = tomllib.loads((APP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
    settings = {f"settings.{name}": value for name, value in config.pop("settings").items()}
    return {**config, **settings, **changes}


def shared_task(task: Task) -> dict[str, Any]:
    """The task for :attr:`Terms.task`: with the columns of its rows, without their paths."""
    config, local = task_config(task), ("train", "test", "encoding")
    if isinstance(task.rows, TableRows):
        rows = {name: value for name, value in config["task"]["rows"].items() if name not in local}
        config["task"] = {**config["task"], "rows": rows}
    return config


@dataclass(frozen=True, eq=False)
class ServerRequest:
    """A federated run to begin or to resume."""

    run: ResolvedRequest  # its task has the server's own rows, if it has any
    options: ServerOptions
    resume: RunFolder | None = None

    @classmethod
    def of(cls, run_config: Mapping[str, Any]) -> Self:
        """Read a run-config, whose keys are those of ``app/pyproject.toml``.

        Raises:
            InvalidInputError, MissingDataError: a value is invalid, or contradicts another one.
        """
        config = {name: value for name, value in run_config.items() if value != ""}
        if "resume" in config:
            return cls.to_resume(RunFolder.read(config["resume"]))
        settings = {name.removeprefix("settings."): config[name] for name in config if name.startswith("settings.")}
        options = {name: config[name.replace("_", "-")] for name in ServerOptions.model_fields}
        given = {name: config[name.replace("_", "-")] for name in _GIVEN if name.replace("_", "-") in config}
        if "task" in config:
            given["data"] = task_from(json.loads(config["task"]))
        if "label-words" in config:
            given["label_words"] = tuple(json.loads(config["label-words"]))
        given["settings"], made = Settings(**settings), None
        if not method_facts(given["settings"].method).allocates:
            allocation: dict[str, Any] = {}
        elif "allocation" in config:
            made = json.loads(config["allocation"])
            blocks = read_spec(config["model"]).num_blocks
            allocation = {"allocation": Allocation.from_blocks(made.pop("blocks_per_client"), blocks)}
        elif "budgets" in config:
            allocation = {"budgets": str(config["budgets"]), "solver": config["solver"]}
        else:  # every block on every client
            allocation = {"budgets": str(read_spec(config["model"]).num_blocks), "solver": config["solver"]}
        run = TrainRequest(**given, **allocation).resolve()
        run = run if made is None else run.replace(made=made)
        return cls(run, ServerOptions(**options)).checked()

    @classmethod
    def to_resume(cls, run: RunFolder) -> Self:
        """The request of an interrupted run, whose prompt and label prior are decided.

        Raises:
            InvalidInputError: the run was not a federated one.
        """
        federation = run.request.federation
        if federation is None:
            raise InvalidInputError(f"{run.path}: this run was made in one process; continue it with zorba resume")
        options = ServerOptions(**{name: federation[name] for name in ServerOptions.model_fields})
        return cls(run.request, options, resume=run).checked()

    @property
    def terms(self) -> Terms:
        """What clients get."""
        run = self.run
        splits = isinstance(run.task.rows, TableRows) and run.task.rows.test is None
        return Terms(
            task=shared_task(run.task),
            model=run.model,
            clients=run.num_clients,
            splits=splits,
            settings=run.settings,
            **run.divided,
        )

    def checked(self) -> Self:
        """This request, if it can be federated.

        Raises:
            InvalidInputError: the method exchanges more than scalars, the estimator needs a backward pass, the numbers
                of clients contradict each other, or the server has no rows to evaluate on.
        """
        settings, clients = self.run.settings, self.run.num_clients
        if not method_facts(settings.method).federates:
            known = ", ".join(name for name, method in METHODS.items() if method.federates)
            raise InvalidInputError(
                f"method is {settings.method}; a federation of processes runs methods that exchange scalars: {known}"
            )
        if ESTIMATORS[settings.estimator].exact:
            raise InvalidInputError(
                f"estimator is {settings.estimator}, which needs a backward pass, and a federation's clients compute "
                "forward passes only; use cohort or reference"
            )
        if self.options.min_clients > clients:
            raise InvalidInputError(f"min_clients is {self.options.min_clients} and there are {clients} clients")
        rows = self.run.task.rows
        if isinstance(rows, TableRows) and rows.test is None and rows.train is None:
            raise InvalidInputError(
                f"the server has no rows of {self.run.task.name} to evaluate on; give them with test"
            )
        return self


def config_of(request: ResolvedRequest, options: ServerOptions) -> dict[str, Any]:
    """The run-config of a resolved request: the values that differ from ``app/pyproject.toml``."""
    task, allocation = request.task, request.allocation
    return {
        "model": request.model,
        "prompt": task.prompt,
        "label-words": to_json(task.label_words),
        **({"task": to_json(table_of(task))} if task.is_own else {"dataset": task.name}),
        "clients": request.num_clients,
        "division": request.division,
        "alpha": request.alpha,
        "allocation": to_json({**request.made, "blocks_per_client": allocation.blocks_per_client}),
        **{f"settings.{name}": "" if value is None else value for name, value in request.settings.model_dump().items()},
        **{name.replace("_", "-"): value for name, value in dict(options).items()},
        "threads": request.threads,
        "force": request.force,
        "runs-folder": str(request.runs_folder),
        "name": request.name or "",
    }
