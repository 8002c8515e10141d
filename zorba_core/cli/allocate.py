"""``zorba allocate``: who trains which blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from zorba_core.allocation import SOLVERS, Solution, solve, write_allocation
from zorba_core.allocation.problem import TotalMode
from zorba_core.checked import Checked, OneOf
from zorba_core.cli.fleet_options import FleetOptions
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError
from zorba_core.files import check_target
from zorba_core.vram import Workload

SAVE_OPTION = typer.Option(None, help="Also write the allocation to this .json file.")
_MOST_ROWS = 60


class SolveOptions(Checked):
    """Options of :func:`zorba_core.allocation.solve`, which checks them together."""

    solver: Annotated[str, OneOf(SOLVERS.meanings)] = "balanced"
    """{choices}."""
    time_limit: float = 10.0
    """Seconds for the exact solver; then the best so far and its bound."""


class Limits(Checked):
    """The limits of an allocation in addition to the budgets."""

    total: int | None = Field(None, ge=1)
    """Activated blocks over all clients, T."""
    total_mode: TotalMode = "le"
    """le: at most T; eq: exactly T."""
    min_popularity: int = Field(1, ge=1)
    """Clients that every block needs."""
    max_blocks_per_client: int | None = Field(None, ge=1)
    """Cap on every client, on top of its budget."""


def allocate(
    fleet: FleetOptions = options_of(FleetOptions),
    workload: Workload = options_of(Workload),
    limits: Limits = options_of(Limits),
    how: SolveOptions = options_of(SolveOptions),
    save: Path | None = SAVE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Choose each client's blocks within its budget, and say how good the choice is."""
    check_save(save)
    solution = solve(fleet.request(workload), seed=fleet.seed, **dict(limits), **dict(how))
    if save is not None:
        write_allocation(save, solution.allocation)
    emit(solution.describe(), as_json, solution_lines(solution))


def check_save(save: Path | None) -> None:
    """Refuse a file name before anything is computed.

    Raises:
        InvalidInputError: a name that does not end in .json, or a place where nothing can be written.
    """
    if save is None:
        return
    if save.suffix.lower() != ".json":
        raise InvalidInputError(f"cannot save to {str(save)!r}; use a name that ends in .json")
    check_target(save)


def solution_lines(solution: Solution) -> Iterator[str]:
    """A solution for people: the measures, then a row per client; computed when they are read."""
    allocation, gap = solution.allocation, f"gap {100 * solution.gap:.2f} %"
    lines = [
        f"{allocation.num_clients} clients, {allocation.num_blocks} blocks, solver {solution.solver}, "
        f"{solution.seconds:.3f} s",
        f"  Λ, convergence bias             {solution.value:10.4g}   none below {solution.lower_bound:.4g}, {gap}",
        f"  V, mean of 1/popularity         {allocation.mean_inverse_popularity:10.4f}",
        f"  Effective clients               {allocation.effective_clients:10.1f}",
        f"  Largest influence of a client   {allocation.largest_influence:10.3f}",
        f"  Clients of the scarcest block   {allocation.min_popularity:10d}   gamma* {solution.gamma_star}",
        f"  Activated blocks                {allocation.total_blocks:10,d}",
    ]
    if solution.fleet is not None:
        lines.append(f"  Total VRAM                      {solution.vram_N_gib.sum():10.2f} GiB")
    lines += [f"  {solution.status.value}", "", "client                budget  blocks"]
    names = solution.fleet.names if solution.fleet else range(allocation.num_clients)
    rows = zip(names, solution.problem.budget_N, allocation.blocks_per_client, strict=True)
    for name, budget, ids in itertools.islice(rows, _MOST_ROWS):
        lines.append(f"{name:<20} {budget:7d}  {' '.join(map(str, ids))}")
    if allocation.num_clients > _MOST_ROWS:
        lines.append(f"... and {allocation.num_clients - _MOST_ROWS} more clients (--json or --save for all)")
    yield from lines
