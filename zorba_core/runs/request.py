"""A training request: everything that a run is asked to do.

:class:`TrainRequest` is what ``zorba train``, ``zorba federate``, Flower's run-config and ``fine_tune`` take. What is
None in it is inferred, once and in one place, by :meth:`TrainRequest.resolve`. The result, a :class:`ResolvedRequest`,
is the ``config.json`` of a run, which a run reads back. The import loads no torch.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import ConfigDict, Field, SkipValidation, field_validator

from zorba_core.allocation import SOLVERS, Allocation, Problem, Solution, allocation_from_file, solve
from zorba_core.allocation.problem import parse_budgets
from zorba_core.allocation.storage import allocation_sha256
from zorba_core.checked import Checked, OneOf
from zorba_core.data.divide import DIRICHLET, DIVISIONS, division_of, named_clients
from zorba_core.data.infer import listed, task_for
from zorba_core.data.load import missing
from zorba_core.data.task import TASKS, Overrides, Task, checked_table, get_task, table_of, task_from
from zorba_core.engine.parts import method_facts
from zorba_core.engine.settings import LARGE_CLIENTS, Settings, is_large
from zorba_core.errors import InvalidInputError, MissingDataError, in_short, name_some
from zorba_core.files import check_folder
from zorba_core.fleet import Fleet
from zorba_core.installed import runs_folder
from zorba_core.vram import MAX_CLIENTS, ModelSpec, Workload

_log = logging.getLogger(__name__)
DEFAULT_SOLVER, DEFAULT_CLIENTS, DEFAULT_DATASET = "balanced", 20, "toy-reviews"
VERSION = 1  # of the layout of config.json
DEFAULT_FOLDER = runs_folder()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_OWN_ROWS = ("text", "label", "answer", "client", "test", "sheet")


class TrainRequest(Checked, frozen=True):
    """A run to make. A field that is None is inferred; the settings that are not given suit the model and the rows.

    Raises:
        InvalidInputError: a value is wrong.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    data: str | Any = None
    """Your own rows: CSV, TSV, JSON, Parquet or Excel; clients/*.csv, one file a client; or a task's TOML."""
    dataset: Annotated[str | None, OneOf(lambda: tuple(TASKS))] = DEFAULT_DATASET
    """Or a built-in task: {choices}; toy-reviews needs no data."""
    text: str | tuple[str, ...] | None = None
    """Column of the text, or several with commas; default: inferred."""
    label: str | None = None
    """Column of the label; default: inferred."""
    answer: str | None = None
    """Column of the text to generate, instead of a label."""
    prompt: str | None = None
    """What the model reads, e.g. "{text} Topic:"; default: inferred."""
    label_words: str | tuple[str, ...] | None = None
    """Words that the model answers with, one for each label, separated by commas; default: the task's."""
    test: str | Any = None
    """File of the rows to evaluate on; default: a fifth of the rows, by hash."""
    sheet: str | None = None
    """Sheet of an Excel file; default: its first."""
    client: str | None = None
    """Column of the client that each row belongs to."""
    division: Annotated[str | None, OneOf(lambda: DIVISIONS)] = None
    """How to divide rows among clients: {choices}; default: natural if rows have clients."""
    alpha: float = Field(default=1.0, allow_inf_nan=True)
    """Parameter of the Dirichlet division of rows; smaller is more uneven."""
    model: str | None = None
    """opt-mini, smollm2-135m, a Hugging Face folder, or a hub id; default opt-mini, and for --data smollm2-135m if this
    machine has it."""

    clients: int | None = Field(default=None, ge=1, le=MAX_CLIENTS)
    """Number of clients, N; default 20, and 8 for a large model."""
    allocation: Path | Allocation | Solution | None = None
    """JSON file of the blocks that each client activates, instead of a solver."""
    solver: Annotated[str | None, OneOf(SOLVERS.meanings)] = None
    """{choices}. Default: balanced."""
    total: int | None = None
    """Largest number of activated blocks over all clients."""
    budgets: str | None = None
    """Whole blocks that each client can hold, e.g. 11,9,3, or one number for all, instead of a fleet."""
    fleet: Path | None = None
    """CSV with columns client,vram_gib; default: a fleet drawn as in the paper."""

    settings: SkipValidation[Settings | dict[str, Any]] = Field(default_factory=dict)
    """All settings, or those that are given."""

    runs_folder: Path = DEFAULT_FOLDER
    """Folder that gets the run's folder."""
    name: str | None = None
    """First part of the run's name; default <dataset>-<model>."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """CPU threads; default 1, and for a large model the machine's, at most 4."""
    force: bool = False
    """Train even if the check before the run finds that these settings cannot learn."""

    @field_validator("text", "label", "answer", "prompt", "label_words", "client", "sheet")
    @classmethod
    def _check_unicode(cls, value: Any) -> Any:
        if isinstance(value, str) and value.encode("utf-8", "replace").decode() != value:
            raise ValueError("it must be Unicode text")
        return value

    @field_validator("data", "test", mode="before")
    @classmethod
    def _check_table(cls, table: Any) -> Any:
        return table if isinstance(table, Task) else checked_table(table)

    @field_validator("model", mode="before")
    @classmethod
    def _as_text(cls, model: Any) -> Any:
        return os.fspath(model) if isinstance(model, os.PathLike) else model

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str | None) -> str | None:
        return None if name is None else check_name(name)

    def resolve(self, default_clients: int | None = None) -> ResolvedRequest:
        """Infer what is None. Each inferred value is a line of the log.

        Args:
            default_clients: the number of clients where neither a field nor the rows give one.

        Raises:
            InvalidInputError, MissingDataError: two fields conflict, or model, rows and settings do not fit each other.
        """
        from zorba_core.runs.load import read_spec, suited_settings, suited_threads

        check_folder(self.runs_folder)
        model = self.resolved_model()
        spec = read_spec(model)
        if isinstance(self.settings, dict):
            Settings.suited(spec.num_parameters, **self.settings)  # report a wrong value before reading rows
        task = self.resolved_task(model)
        settings = self.settings
        if isinstance(settings, dict):
            is_given = settings.get("eval_rows") is not None
            settings = suited_settings(task, model, settings)
            if settings.eval_rows is not None and not is_given:
                _log.info(
                    "  tested  on %s of the test rows, chosen at random   [default; --eval-rows]",
                    f"{settings.eval_rows:,}",
                )
        named = named_clients(task, self.division)
        asked = self
        one_for_all = self.budgets is None or len(parse_budgets(self.budgets)) == 1
        if default_clients and not named and one_for_all and not self._given("clients", "fleet", "allocation"):
            asked = self.replace(clients=default_clients)
        allocation, made = asked.resolved_allocation(spec, settings, named)
        return ResolvedRequest(
            task=task,
            model=model,
            allocation=allocation,
            made=made,
            settings=settings,
            division=division_of(task, self.division),
            alpha=self.alpha,
            threads=self.threads or suited_threads(spec.num_parameters),
            force=self.force,
            runs_folder=self.runs_folder,
            name=self.name,
        )

    def resolved_model(self) -> str:
        """The base model; a folder by its absolute path."""
        from zorba_core.runs.models import default_model, recorded_model

        own_rows = self.data.is_own if isinstance(self.data, Task) else self.data is not None
        return default_model(own_rows) if self.model is None else recorded_model(self.model)

    def resolved_task(self, model: str) -> Task:
        """The task to train on.

        Raises:
            InvalidInputError, MissingDataError: the task is unknown, missing or unusable, or two fields conflict.
        """
        from zorba_core.runs.models import load_tokenizer

        texts, words = (
            tuple(listed(value)) if isinstance(value, str) else value or () for value in (self.text, self.label_words)
        )
        if self.data is None:
            given = [name for name in _OWN_ROWS if getattr(self, name) is not None]
            if given:
                raise InvalidInputError(f"--{given[0]} is for rows of your own; give them with --data FILE")
            task = task_for(get_task(self.dataset or DEFAULT_DATASET), Overrides(prompt=self.prompt, label_words=words))
        else:
            if self.dataset not in (None, DEFAULT_DATASET):
                raise InvalidInputError("give --dataset or --data, not both")
            overrides = Overrides(
                texts, self.label, self.answer, self.prompt, words, self.client, self.test, self.sheet
            )
            task = task_for(self.data, overrides, tokenizer=partial(load_tokenizer, model))
        if message := missing(task):
            raise MissingDataError(message)
        return task

    def resolved_allocation(
        self, spec: ModelSpec, settings: Settings, named: Sequence[str] = ()
    ) -> tuple[Allocation, dict[str, Any]]:
        """The matrix, and how it was made.

        Args:
            named: the clients that the rows name. Without another choice, there is one client for each; a fleet of
                other names gets their order.

        Raises:
            InvalidInputError: a field conflicts with another or with the method, or the matrix is for another model.
        """
        sources = (self.clients, self.allocation, self.budgets, self.fleet)
        if named and all(source is None for source in sources):
            return self.replace(clients=len(named)).resolved_allocation(spec, settings)
        given = self._given("allocation", "solver", "total", "budgets", "fleet")
        if not method_facts(settings.method).allocates:
            if given:
                raise InvalidInputError(
                    f"{given[0]} is for --method zorba; {settings.method} activates every block of every client: "
                    "leave it out, and give --clients"
                )
            return Allocation(np.ones((spec.num_blocks, self.clients or _default_clients(spec)), dtype=bool)), {}
        if self.allocation is not None:
            if len(given) > 1:
                raise InvalidInputError(f"give --allocation or {given[1]}, not both: the file says who activates what")
            return _given_allocation(self.allocation, spec, self.clients)
        budget_N, made = self._client_budgets(spec, settings, named)
        problem = Problem(budget_N, spec.num_blocks, self.total)
        solution = solve(problem, solver=self.solver or DEFAULT_SOLVER, seed=settings.seed)
        return solution.allocation, {"solver": solution.solver, "total": self.total, **made}

    def _given(self, *names: str) -> list[str]:
        """The options among these that were given."""
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]

    def _client_budgets(
        self, spec: ModelSpec, settings: Settings, named: Sequence[str]
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Blocks that each client may activate, and where they come from.

        By default capacities are drawn as in the paper, U[parameters + 1 block, parameters + M blocks].
        """
        given, clients = self._given("budgets", "fleet"), self.clients
        if len(given) > 1:
            raise InvalidInputError(
                f"give {given[0]} or {given[1]}, not both: each says how many blocks a client holds"
            )
        if self.budgets is not None:
            budget_N = parse_budgets(self.budgets)
            if len(budget_N) == 1:
                budget_N = np.repeat(budget_N, clients or len(named) or _default_clients(spec))
            if clients not in (None, len(budget_N)):
                raise InvalidInputError(
                    f"--budgets names {len(budget_N)} clients, --clients is {clients}; leave one out"
                )
            return budget_N, {"budgets": budget_N}
        workload = Workload(batch_size=settings.batch_size, seq_len=settings.seq_len)
        fleet = read_fleet(
            spec, workload, clients or (None if self.fleet else _default_clients(spec)), self.fleet, settings.seed
        )
        if named and self.fleet and not {*named} & {*fleet.names}:
            _log.info("note: %s has no client of the rows; its lines are assigned to them in order", self.fleet.name)
        fleet = fleet.matched(named)
        source = "uniform" if self.fleet is None else self.fleet.name
        return fleet.budget_N, {"budgets": fleet.budget_N, "fleet": source, "capacity_gib": fleet.capacity_N_gib}


class ResolvedRequest(Checked, frozen=True):
    """A request in which nothing is left to infer: the ``config.json`` of a run."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    task: Task
    model: str
    """Name or folder of the base model."""
    allocation: Allocation
    made: dict[str, Any] = Field(default_factory=dict)
    """How the allocation was made: solver, budgets, fleet."""
    settings: Settings
    division: str
    alpha: float = Field(allow_inf_nan=True)
    threads: int
    force: bool = False
    federation: dict[str, Any] | None = None
    """Of a federated run: the server's options, and how its clients were started."""
    runs_folder: Path = DEFAULT_FOLDER
    name: str | None = None

    @property
    def num_clients(self) -> int:
        return self.allocation.num_clients

    @property
    def divided(self) -> dict[str, Any]:
        """``alpha`` and ``division`` of the rows among clients (:mod:`zorba_core.data.divide`)."""
        return {"alpha": self.alpha, "division": self.division}

    @property
    def run_name(self) -> str:
        """First part of the run's name."""
        suffix = "" if method_facts(self.settings.method).allocates else f"-{self.settings.method}"
        return self.name or plain_name(f"{self.task.name}-{os.path.basename(os.path.normpath(self.model))}{suffix}")

    def to_config(self) -> dict[str, Any]:
        """The content of ``config.json``, except the environment: see :meth:`of_config`."""
        allocation = self.allocation
        return {
            "version": VERSION,
            **task_config(self.task),
            "model": self.model,
            "num_blocks": allocation.num_blocks,
            "num_clients": allocation.num_clients,
            "alpha": self.alpha,
            "division": self.division,
            **self.settings.model_dump(),
            "threads": self.threads,
            "force": self.force,
            "allocation": {
                **self.made,
                "total_blocks": allocation.total_blocks,
                "sha256": allocation_sha256(allocation),
                "blocks_per_client": allocation.blocks_per_client,
            },
            **({} if self.federation is None else {"federation": self.federation}),
        }

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> Self:
        """Read the content of a ``config.json``. A setting that is missing has its default. Whether this machine has
        the run's device is not checked.

        Raises:
            InvalidInputError: a value is missing or wrong.
        """
        try:
            made, alpha = dict(config["allocation"]), config["alpha"]
            blocks = made.pop("blocks_per_client")
            made = {name: value for name, value in made.items() if name not in ("total_blocks", "sha256")}
            return cls(
                task=task_of(config),
                model=config["model"],
                allocation=Allocation.from_blocks(blocks, config["num_blocks"]),
                made=made,
                settings=_settings_of(config),
                division=config.get("division", DIRICHLET),
                alpha=math.inf if alpha is None else alpha,  # JSON has no infinity
                threads=config.get("threads", 1),
                force=config.get("force", False),
                federation=config.get("federation"),
            )
        except KeyError as error:
            raise InvalidInputError(f"it has no {error}; it is damaged, or of another version") from None


def task_config(task: Task) -> dict[str, Any]:
    """The config entries of a task: its name, its label words, a changed prompt; for a user's task all its fields."""
    described: dict[str, Any] = {"task": table_of(task)} if task.is_own else {}
    if not task.is_own and task.prompt != get_task(task.name).prompt:
        described["prompt"] = task.prompt
    prior = {"prior": list(task.prior)} if task.prior else {}
    return {"dataset": task.name, "label_words": list(task.label_words), **prior, **described}


def task_of(config: Mapping[str, Any]) -> Task:
    """The task of a run's config: the inverse of :func:`task_config`."""
    task = task_from(config["task"]) if "task" in config else get_task(config["dataset"])
    of_run = {
        "prompt": config.get("prompt") or task.prompt,
        "label_words": tuple(config.get("label_words") or task.label_words),
        "prior": tuple(config.get("prior") or ()),
    }
    return task if all(getattr(task, name) == of_run[name] for name in of_run) else replace(task, **of_run)


def _settings_of(config: Mapping[str, Any]) -> Settings:
    values = {name: config[name] for name in Settings.model_fields if name in config}
    device, precision = values.get("device", "cpu"), values.get("precision", "highest")
    if device == "cpu":
        return Settings(**values)
    checked = Settings(**{**values, "device": "cpu", "precision": "highest"})
    return checked.model_copy(update={"device": device, "precision": precision})


def _default_clients(spec: ModelSpec) -> int:
    return LARGE_CLIENTS if is_large(spec.num_parameters) else DEFAULT_CLIENTS


def _given_allocation(
    given: Path | Allocation | Solution, spec: ModelSpec, clients: int | None
) -> tuple[Allocation, dict[str, Any]]:
    """A matrix from a file, from a solver's answer, or as it is."""
    what, made = "the allocation", {}
    if isinstance(given, Solution):
        read, made = given.allocation, {"solver": given.solver}
    elif isinstance(given, Allocation):
        read = given
    else:
        read, what, made = allocation_from_file(given), str(given), {"file": given.name}
    if read.num_blocks != spec.num_blocks:
        raise InvalidInputError(
            f"{what} is for {read.num_blocks} blocks and the model has {spec.num_blocks}; solve it for this model"
        )
    if clients not in (None, read.num_clients):
        raise InvalidInputError(f"{what} is for {read.num_clients} clients, --clients is {clients}; leave one out")
    if not isinstance(given, Path):
        return read, made
    idle = np.flatnonzero(read.blocks_held_N == 0)
    if idle.size:
        raise InvalidInputError(f"{what}: client {idle[0]} activates no block; give each client at least one")
    unused = np.flatnonzero(read.popularity_M == 0)
    if unused.size:
        raise InvalidInputError(f"{what}: nobody activates block {unused[0]}; give each block at least one client")
    return read, made


def read_fleet(spec: ModelSpec, workload: Workload, clients: int | None, fleet: Path | None, seed: int) -> Fleet:
    """The fleet of a table, or the paper's uniform fleet of ``clients`` (default 50). A few clients that together
    cannot hold all blocks get more, and a line of the log says what.

    Raises:
        InvalidInputError: both are given.
    """
    if fleet is not None and clients is not None:
        raise InvalidInputError("give --clients or --fleet, not both: a fleet file has its own clients")
    if fleet is not None:
        return Fleet.from_csv(fleet, spec, workload=workload)
    drawn = Fleet.uniform(spec, 50 if clients is None else clients, seed=seed, workload=workload)
    if (raised := drawn.covering()) is not drawn:
        _log.info(
            "note: the drawn fleet of %d holds %d of %d blocks together; its clients get %s (--fleet or --budgets "
            "gives others)",
            drawn.num_clients,
            drawn.budget_N.sum(),
            spec.num_blocks,
            name_some([int(budget) for budget in raised.budget_N], 12),
        )
    return raised


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
