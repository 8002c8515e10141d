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
from functools import partial
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from zorba_core.allocation import Allocation, Problem, solve
from zorba_core.checked import Checked
from zorba_core.data.divide import division_of
from zorba_core.data.infer import task_for
from zorba_core.data.task import Overrides, TableRows, Task, get_task, task_from
from zorba_core.engine.parts import ESTIMATORS, METHODS, method_facts
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, first_line
from zorba_core.federation.options import ServerOptions
from zorba_core.runs.folder import RunFolder, task_config
from zorba_core.runs.load import read_spec
from zorba_core.runs.models import load_tokenizer

APP = Path(__file__).parent / "app"
MAX_CLIENTS = 100_000


class Terms(Checked):
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
class Request:
    """A federated run to begin or to resume."""

    task: Task  # with the server's own rows, if it has any
    terms: Terms
    allocation: Allocation
    origin: dict[str, Any]  # how the allocation was computed, for the run's config
    options: ServerOptions
    threads: int
    force: bool
    runs_folder: str
    name: str | None
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
        model, words = config["model"], tuple(json.loads(config.get("label-words", "[]")))
        spec = read_spec(model)
        if "task" in config:
            task = task_from(json.loads(config["task"]))
        elif "data" in config:
            overrides = Overrides(label_words=words, test=config.get("test"))
            task = task_for(config["data"], overrides, tokenizer=partial(load_tokenizer, model))
        else:
            overrides = Overrides(prompt=config.get("prompt"), label_words=words)
            task = task_for(get_task(config.get("dataset", "toy-reviews")), overrides)
        terms = Terms(
            task=shared_task(task),
            model=model,
            clients=config["clients"],
            division=division_of(task, config.get("division")),
            alpha=config["alpha"],
            splits=_splits(task),
            settings=Settings(**settings),
        )
        allocation, origin = _allocation(config, spec.num_blocks, terms)
        return cls(
            task,
            terms,
            allocation,
            origin,
            ServerOptions(**options),
            threads=config["threads"],
            force=config["force"],
            runs_folder=config["runs-folder"],
            name=config.get("name"),
        ).checked()

    @classmethod
    def to_resume(cls, run: RunFolder) -> Self:
        """The request of an interrupted run, whose prompt and label prior are decided.

        Raises:
            InvalidInputError: the run was not a federated one.
        """
        config = run.config
        if "federation" not in config:
            raise InvalidInputError(f"{run.path}: this run was made in one process; continue it with zorba resume")
        task = run.task
        terms = Terms(
            task=shared_task(task),
            model=config["model"],
            clients=config["num_clients"],
            **run.division,
            splits=_splits(task),
            settings=run.settings,
        )
        options = ServerOptions(**{name: config["federation"][name] for name in ServerOptions.model_fields})
        settled = {"threads": config["threads"], "force": config["force"]}
        place = {"runs_folder": str(run.path.parent), "name": None}
        return cls(task, terms, run.allocation, {}, options, **settled, **place, resume=run).checked()

    def checked(self) -> Self:
        """This request, if it can be federated.

        Raises:
            InvalidInputError: the method exchanges more than scalars, the estimator needs a backward pass, the numbers
                of clients contradict each other, or the server has no rows to evaluate on.
        """
        settings, clients = self.terms.settings, self.terms.clients
        if not method_facts(settings.method).federates:
            known = ", ".join(name for name, facts in METHODS.items() if facts.federates)
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
        if self.allocation.num_clients != clients:
            raise InvalidInputError(f"the allocation is for {self.allocation.num_clients} clients, not {clients}")
        rows = self.task.rows
        if isinstance(rows, TableRows) and rows.test is None and rows.train is None:
            raise InvalidInputError(f"the server has no rows of {self.task.name} to evaluate on; give them with test")
        return self


def _splits(task: Task) -> bool:
    return isinstance(task.rows, TableRows) and task.rows.test is None


def _allocation(config: Mapping[str, Any], num_blocks: int, terms: Terms) -> tuple[Allocation, dict[str, Any]]:
    if "allocation" in config:
        given = json.loads(config["allocation"])
        return Allocation.from_blocks(given.pop("blocks_per_client"), num_blocks), given
    if "budgets" not in config or not method_facts(terms.settings.method).allocates:
        return Allocation.from_blocks([list(range(num_blocks))] * terms.clients, num_blocks), {}
    try:
        budgets = [int(part) for part in str(config["budgets"]).split(",")]
    except ValueError:
        raise InvalidInputError(f"budgets is {config['budgets']!r}; give whole numbers, e.g. 12,6,4,2") from None
    solution = solve(Problem(budgets, num_blocks), solver=config["solver"], seed=terms.settings.seed)
    return solution.allocation, {"solver": solution.solver, "budgets": budgets}
