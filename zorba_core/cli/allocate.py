"""``zorba allocate``: who trains which blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from zorba_core.allocation import MEASURES, SOLVERS, Problem, Solution, solve, write_allocation
from zorba_core.allocation.problem import TotalMode
from zorba_core.allocation.solve import Objective
from zorba_core.checked import Checked, OneOf
from zorba_core.cli.fleet_options import FleetOptions, FleetRequest
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError
from zorba_core.files import check_target
from zorba_core.vram import GIB, Workload

SAVE_OPTION = typer.Option(None, help="Also write the allocation to this .npz, .json or .csv file.")
_MOST_ROWS = 60


class SolveOptions(Checked):
    """Options of :func:`zorba_core.allocation.solve`, which checks them together."""

    solver: Annotated[str, OneOf(SOLVERS.meanings)] = "balanced"
    """{choices}."""
    objective: Objective = "lambda"
    """lambda or v: what to minimise and bound."""
    time_limit: float = 10.0
    """Seconds for the exact solver; then the best found and its bound."""


class Limits(Checked):
    """What an allocation has to keep to, beside the budgets."""

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
    request = fleet.request(workload)
    problem = Problem(request.budget_N, request.num_blocks, **dict(limits))
    solution = solve(problem, seed=fleet.seed, **dict(how))
    if save is not None:
        write_allocation(save, solution.allocation)
    emit(solution_json(solution, request), as_json, solution_lines(solution, request))


def check_save(save: Path | None) -> None:
    """Refuse a file name before anything is computed.

    Raises:
        InvalidInputError: an ending that is no allocation format, or a place where nothing can be written.
    """
    if save is None:
        return
    if save.suffix.lower() not in (".npz", ".json", ".csv"):
        raise InvalidInputError(f"cannot save to {str(save)!r}; use a name that ends in .npz, .json or .csv")
    check_target(save)


def solution_json(solution: Solution, request: FleetRequest) -> dict[str, Any]:
    """The JSON object of ``allocate`` and ``scenario``."""
    return {**solution.describe(), "vram_gib": _vram_gib(solution, request)}


def solution_lines(solution: Solution, request: FleetRequest) -> Iterator[str]:
    """The same for people: the measures, then a row per client; computed when they are read."""
    allocation = solution.allocation
    notes = {"min_popularity": f"   gamma* {solution.gamma_star}"}
    bounded = "lambda" if solution.objective == "lambda" else "mean_inverse_popularity"
    notes[bounded] = f"   none below {MEASURES[bounded].text(solution.lower_bound)}, gap {100 * solution.gap:.2f} %"
    lines = [
        f"{allocation.num_clients} clients, {allocation.num_blocks} blocks, solver {solution.solver}, "
        f"{solution.seconds:.3f} s",
    ]
    lines += [
        f"  {measure.label:<32}{measure.text(measure.value(allocation)):>10}{notes.get(name, '')}"
        for name, measure in MEASURES.items()
    ]
    vram = _vram_gib(solution, request)
    if vram is not None:
        lines.append(f"  total VRAM                      {vram['total']:10.2f} GiB")
    lines += [f"  {solution.status.value}", "", "client                budget  blocks"]
    for client, ids in enumerate(allocation.blocks_per_client[:_MOST_ROWS]):
        lines.append(f"{request.names[client]:<20} {request.budget_N[client]:7d}  {' '.join(map(str, ids))}")
    if allocation.num_clients > _MOST_ROWS:
        lines.append(f"... and {allocation.num_clients - _MOST_ROWS} more clients (--json or --save for all)")
    yield from lines


def _vram_gib(solution: Solution, request: FleetRequest) -> dict[str, Any] | None:
    if request.fleet is None:
        return None
    per_client = request.fleet.used_N_bytes(solution.allocation.blocks_held_N) / GIB
    return {"total": float(per_client.sum()), "per_client": per_client}
