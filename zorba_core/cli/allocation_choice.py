"""The allocation, from the options of ``zorba train``: solved for a fleet, or read from a file; for
a method that activates every block there is nothing to choose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from pydantic import Field

from zorba_core.allocation import (
    SOLVERS,
    Allocation,
    Problem,
    allocation_from_file,
    solve,
)
from zorba_core.checked import Checked, OneOf
from zorba_core.cli.fleet_options import parse_budgets, read_fleet
from zorba_core.engine.parts import method_facts
from zorba_core.engine.settings import LARGE_CLIENTS, is_large
from zorba_core.errors import InvalidInputError
from zorba_core.vram import MAX_CLIENTS, Workload

if TYPE_CHECKING:
    from zorba_core.engine.settings import Settings
    from zorba_core.vram import ModelSpec

DEFAULT_SOLVER = "balanced"
DEFAULT_CLIENTS = 20


class AllocationChoice(Checked):
    """The allocation: from a file, or by a solver from budgets."""

    clients: int | None = Field(None, ge=1, le=MAX_CLIENTS)
    """Number of clients, N; default 20, and 8 of a large model."""
    allocation: Path | None = None
    """JSON or CSV of who activates which blocks, instead of a solver."""
    solver: Annotated[str | None, OneOf(SOLVERS.meanings)] = None
    """{choices}. Default: balanced."""
    total: int | None = None
    """Most activated blocks over all clients."""
    budgets: str | None = None
    """Whole blocks of each client, e.g. 11,9,3, or one number for all, instead of a fleet."""
    fleet: Path | None = None
    """CSV with columns client,vram_gib; default: drawn as in the paper."""

    def allocation_for(
        self, spec: ModelSpec, settings: Settings, named: Sequence[str] = ()
    ) -> tuple[Allocation, dict[str, Any]]:
        """The matrix, and where it comes from, for the run's config.

        Args:
            named: the clients that the rows name. Where no option says how many clients there are, there are these; a
                fleet that has their names is put in their order.

        Raises:
            InvalidInputError: options that contradict each other or the method, by name; a matrix for another model.
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
            read = _from_file(self.allocation, spec, self.clients)
            return read, {"file": self.allocation.name}
        budget_N, origin = self._client_budgets(spec, settings, named)
        problem = Problem(budget_N, spec.num_blocks, self.total)
        solution = solve(problem, solver=self.solver or DEFAULT_SOLVER, seed=settings.seed)
        return solution.allocation, {"solver": solution.solver, "total": self.total, **origin}

    def _given(self, *names: str) -> list[str]:
        """The options among these that were given."""
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) not in (None, False)]

    def _client_budgets(
        self, spec: ModelSpec, settings: Settings, named: Sequence[str]
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Blocks that each client may activate, and where they come from, for the run's config.

        Without a word about it: capacities drawn as in the paper, U[parameters + 1 block, parameters + M blocks].
        """
        given, clients = self._given("budgets", "fleet"), self.clients
        if len(given) > 1:
            raise InvalidInputError(
                f"give {given[0]} or {given[1]}, not both: each says how many blocks a client holds"
            )
        if self.budgets is not None:
            budget_N = parse_budgets(self.budgets)
            if len(budget_N) == 1 and clients is not None:
                budget_N = np.repeat(budget_N, clients)
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
            typer.echo(f"note: {fleet.name} names none of the rows' clients; its rows are theirs in order", err=True)
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
