"""``zorba allocate``: who trains which blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from zorba_core.allocation import MEASURES, AllocationProblem, Solution, solve, write_allocation
from zorba_core.cli.fleet_options import Request, read_request
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.cli.solver_option import solver_option
from zorba_core.errors import InvalidInputError
from zorba_core.files import check_target
from zorba_core.planning.memory import GIB, psi_client_bytes

_MOST_ROWS = 60


def register(app: typer.Typer) -> None:
    app.command("allocate")(allocate)


def allocate(
    budgets: str | None = typer.Option(None, help="Whole blocks of each client, e.g. 11,9,3."),
    blocks: int | None = typer.Option(None, help="M: number of blocks (with --budgets)."),
    model: str | None = typer.Option(None, help="Model whose VRAM gives the budgets: a preset or a Hugging Face path."),
    clients: int | None = typer.Option(None, help="N: draw a uniform fleet of this size, as in the paper."),
    fleet: Path | None = typer.Option(None, help="CSV with columns client,vram_gib."),
    seed: int = typer.Option(0, help="Seed of the fleet and of the solver's random choices."),
    batch_size: int = typer.Option(8, help="B: sequences a batch."),
    seq_len: int = typer.Option(128, help="L: tokens a sequence."),
    dtype: str = typer.Option("float32", help="float32, bfloat16, float16 or float64."),
    solver: str = solver_option(),
    total: int | None = typer.Option(None, help="T: activated blocks over all clients."),
    total_mode: str = typer.Option("le", help="le: at most T; eq: exactly T."),
    min_popularity: int = typer.Option(1, help="Clients that every block needs."),
    max_blocks_per_client: int | None = typer.Option(None, help="Cap on every client, on top of its budget."),
    objective: str = typer.Option("lambda", help="lambda or v: what to minimise and bound."),
    time_limit: float = typer.Option(10.0, help="Seconds of a search (exact); then the best found and its bound."),
    block_order: str = typer.Option("as-solved", help="as-solved, or least-work: ids that let clients start late."),
    save: Path | None = typer.Option(None, help="Also write the allocation to this .npz, .json or .csv file."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Choose each client's blocks within its budget, and say how good the choice is."""
    check_save(save)
    request = read_request(budgets, blocks, model, clients, fleet, seed, batch_size, seq_len, dtype)
    problem = AllocationProblem(
        request.budget_N, request.num_blocks, total, total_mode, min_popularity, max_blocks_per_client
    )
    solution = solve(
        problem, solver=solver, seed=seed, objective=objective, time_limit=time_limit, block_order=block_order
    )
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


def solution_json(solution: Solution, request: Request) -> dict[str, Any]:
    """The JSON object of ``allocate`` and ``scenario``."""
    return {**solution.describe(), "vram_gib": _vram_gib(solution, request)}


def solution_lines(solution: Solution, request: Request) -> Iterator[str]:
    """The same for people: the measures, then a row per client; computed when they are read."""
    allocation = solution.allocation
    bounded = "lambda" if solution.objective == "lambda" else "mean_inverse_popularity"
    notes = {"min_popularity": f"   gamma* {solution.gamma_star}"}
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


def _vram_gib(solution: Solution, request: Request) -> dict[str, Any] | None:
    if request.model is None:
        return None
    per_client = psi_client_bytes(request.model, request.workload, solution.allocation.blocks_held_N) / GIB
    return {"total": float(per_client.sum()), "per_client": per_client}
