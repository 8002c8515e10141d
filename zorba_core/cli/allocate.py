"""``zorba allocate``: who trains which blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from zorba_core.allocation import MEASURES, SOLVERS, AllocationProblem, Solution, solve, write_allocation
from zorba_core.cli.fleet_options import FleetOptions, FleetRequest
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError
from zorba_core.fields import setting
from zorba_core.files import check_target
from zorba_core.planning.memory import GIB, Workload, psi_client_bytes

SAVE_OPTION = typer.Option(None, help="Also write the allocation to this .npz, .json or .csv file.")
_MOST_ROWS = 60


@dataclass(frozen=True)
class SolveOptions:
    """Options of :func:`zorba_core.allocation.solve`, which checks them."""

    solver: str = setting("balanced", "{choices}.", choices=SOLVERS.meanings)
    objective: str | None = setting(None, "lambda or v: what to minimise and bound. Default: the solver's own.")
    time_limit: float = setting(10.0, "Seconds for the exact solver; then the best found and its bound.")


def allocate(
    fleet: FleetOptions = options_of(FleetOptions),
    workload: Workload = options_of(Workload),
    limits: dict[str, Any] = options_of(AllocationProblem, without=("num_blocks",), make=dict),
    how: SolveOptions = options_of(SolveOptions),
    save: Path | None = SAVE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Choose each client's blocks within its budget, and say how good the choice is."""
    check_save(save)
    request = fleet.request(workload)
    problem = AllocationProblem(request.budget_N, request.num_blocks, **limits)
    options = {name: getattr(how, name) for name in ("solver", "objective", "time_limit")}
    solution = solve(problem, seed=fleet.seed, **options)
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
    if request.model is None:
        return None
    per_client = psi_client_bytes(request.model, request.workload, solution.allocation.blocks_held_N) / GIB
    return {"total": float(per_client.sum()), "per_client": per_client}
