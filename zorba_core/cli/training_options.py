"""Options that ``zorba train``, ``federate`` and ``task`` share: task and model, allocation, run folder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from zorba_core.allocation import SOLVERS, Allocation, Problem, allocation_from_file, solve
from zorba_core.checked import Checked, OneOf
from zorba_core.cli.allocation import parse_budgets, read_fleet
from zorba_core.cli.options import note
from zorba_core.data.divide import DIVISIONS
from zorba_core.data.infer import listed, task_for
from zorba_core.data.task import TASKS, Overrides, Task, get_task
from zorba_core.engine.parts import method_facts
from zorba_core.engine.settings import LARGE_CLIENTS, Settings, is_large
from zorba_core.errors import InvalidInputError
from zorba_core.runs import DEFAULT_FOLDER
from zorba_core.runs.folder import check_name
from zorba_core.vram import MAX_CLIENTS, ModelSpec, Workload

DEFAULT_SOLVER, DEFAULT_CLIENTS = "balanced", 20


class TaskOptions(Checked):
    """The task and the model."""

    data: str | None = None
    """Your own rows: CSV, TSV, JSON, Parquet or Excel; clients/*.csv, one file a client; or a task's TOML."""
    dataset: Annotated[str | None, OneOf(lambda: tuple(TASKS))] = "toy-reviews"
    """Or a built-in task: {choices}; toy-reviews needs no data."""
    text: str | None = None
    """Column of the text, or several with commas; default: inferred."""
    label: str | None = None
    """Column of the label; default: inferred."""
    answer: str | None = None
    """Column of the text to generate, instead of a label."""
    prompt: str | None = None
    """What the model reads, e.g. "{text} Topic:"; default: inferred."""
    label_words: str | None = None
    """Words that the model answers with, one for each label, separated by commas; default: the task's."""
    test: str | None = None
    """File of the rows to evaluate on; default: a fifth of the rows, by hash."""
    sheet: str | None = None
    """Sheet of an Excel file; default: its first."""
    client: str | None = None
    """Column of the client that each row belongs to."""
    division: Annotated[str | None, OneOf(lambda: DIVISIONS)] = None
    """How to divide rows among clients: {choices}; default: natural if rows have clients."""
    alpha: float = Field(1.0, allow_inf_nan=True)
    """Parameter of the Dirichlet division of rows; smaller is more uneven."""
    model: str | None = None
    """opt-mini, smollm2-135m, a Hugging Face folder, or a hub id; default opt-mini, and for --data smollm2-135m if this
    machine has it."""

    @field_validator("text", "label", "answer", "prompt", "label_words", "client", "sheet")
    @classmethod
    def _check_unicode(cls, value: str | None) -> str | None:
        if value is not None and value.encode("utf-8", "replace").decode() != value:
            raise ValueError("it must be Unicode text")
        return value

    def with_model(self) -> TaskOptions:
        """The same, with the default base model if none is given."""
        from zorba_core.runs.models import default_model

        if self.model is not None:
            return self
        return self.replace(model=default_model(self.data is not None))

    def task(self) -> Task:
        """The task to train on. For the user's own rows, everything inferred is printed on stderr.

        Raises:
            InvalidInputError, MissingDataError: the task is unknown, missing or unusable, or two options conflict.
        """
        from zorba_core.runs.models import load_tokenizer

        words = tuple(listed(self.label_words or ""))
        if self.data is None:
            of_data = ("text", "label", "answer", "client", "test", "sheet")
            given = [name for name in of_data if getattr(self, name) is not None]
            if given:
                raise InvalidInputError(f"--{given[0]} is for rows of your own; give them with --data FILE")
            return task_for(get_task(self.dataset), Overrides(prompt=self.prompt, label_words=words))
        if self.dataset not in (None, TaskOptions.model_fields["dataset"].default):
            raise InvalidInputError("give --dataset or --data, not both")
        texts = tuple(listed(self.text or ""))
        overrides = Overrides(texts, self.label, self.answer, self.prompt, words, self.client, self.test, self.sheet)
        return task_for(self.data, overrides, tokenizer=partial(load_tokenizer, self.model))


class FolderOptions(Checked):
    """The run's folder, threads, and whether a failed check stops it."""

    runs_folder: Path = DEFAULT_FOLDER
    """Folder that gets the run's folder."""
    name: str | None = None
    """First part of the run's name; default <dataset>-<model>."""
    threads: int | None = Field(None, ge=1, le=1024)
    """CPU threads; default 1, and for a large model the machine's, at most 4."""
    force: bool = False
    """Train even if the check before the run finds that these settings cannot learn."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str | None) -> str | None:
        return None if name is None else check_name(name)


class AllocationChoice(Checked):
    """The allocation: from a file, or by a solver from budgets."""

    clients: int | None = Field(None, ge=1, le=MAX_CLIENTS)
    """Number of clients, N; default 20, and 8 for a large model."""
    allocation: Path | None = None
    """JSON file of the blocks that each client activates, instead of a solver."""
    solver: Annotated[str | None, OneOf(SOLVERS.meanings)] = None
    """{choices}. Default: balanced."""
    total: int | None = None
    """Largest number of activated blocks over all clients."""
    budgets: str | None = None
    """Whole blocks that each client can hold, e.g. 11,9,3, or one number for all, instead of a fleet."""
    fleet: Path | None = None
    """CSV with columns client,vram_gib; default: a fleet drawn as in the paper."""

    def allocation_for(
        self, spec: ModelSpec, settings: Settings, named: Sequence[str] = ()
    ) -> tuple[Allocation, dict[str, Any]]:
        """The matrix, and its origin for the run's config.

        Args:
            named: the rows' clients. If no option decides the number of clients, these are all; a fleet with their
                names gets their order.

        Raises:
            InvalidInputError: an option conflicts with another or with the method, or the matrix is for another model.
        """
        sources = (self.clients, self.allocation, self.budgets, self.fleet)
        if named and all(source is None for source in sources):
            return self.replace(clients=len(named)).allocation_for(spec, settings)
        given = self._given(*(name for name in AllocationChoice.model_fields if name != "clients"))
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
            return _from_file(self.allocation, spec, self.clients), {"file": self.allocation.name}
        budget_N, origin = self._client_budgets(spec, settings, named)
        problem = Problem(budget_N, spec.num_blocks, self.total)
        solution = solve(problem, solver=self.solver or DEFAULT_SOLVER, seed=settings.seed)
        return solution.allocation, {"solver": solution.solver, "total": self.total, **origin}

    def _given(self, *names: str) -> list[str]:
        """The options among these that were given."""
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]

    def _client_budgets(
        self, spec: ModelSpec, settings: Settings, named: Sequence[str]
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Blocks that each client may activate, and their origin for the run's config.

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
        fleet = self.fleet
        chosen = read_fleet(
            spec, workload, clients or (None if fleet else _default_clients(spec)), fleet, settings.seed
        )
        if named and fleet and not {*named} & {*chosen.names}:
            note(f"note: {fleet.name} has no client of the rows; its lines are assigned to them in order")
        chosen = chosen.matched(named)
        origin = {"fleet": "uniform" if fleet is None else fleet.name, "capacity_gib": chosen.capacity_N_gib}
        return chosen.budget_N, {"budgets": chosen.budget_N, **origin}


def _default_clients(spec: ModelSpec) -> int:
    return LARGE_CLIENTS if is_large(spec.num_parameters) else DEFAULT_CLIENTS


def _from_file(path: Path, spec: ModelSpec, clients: int | None) -> Allocation:
    read = allocation_from_file(path)
    if read.num_blocks != spec.num_blocks:
        raise InvalidInputError(
            f"{path} is for {read.num_blocks} blocks and the model has {spec.num_blocks}; solve it for this model"
        )
    if clients not in (None, read.num_clients):
        raise InvalidInputError(f"{path} is for {read.num_clients} clients, --clients is {clients}; leave one out")
    idle = np.flatnonzero(read.blocks_held_N == 0)
    if idle.size:
        raise InvalidInputError(f"{path}: client {idle[0]} activates no block; give each client at least one")
    unused = np.flatnonzero(read.popularity_M == 0)
    if unused.size:
        raise InvalidInputError(f"{path}: nobody activates block {unused[0]}; give each block at least one client")
    return read
