"""``zorba scenario``: a matrix with an exact total and a given Lambda, such as the paper's SC1, SC2, SC3."""

from __future__ import annotations

from pathlib import Path

import typer

from zorba_core.allocation import Problem, write_allocation
from zorba_core.allocation.scenarios import PAPER_SCENARIOS, solve_scenario
from zorba_core.cli.allocate import SAVE_OPTION, Limits, check_save, solution_lines
from zorba_core.cli.fleet_options import FleetOptions
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import Fleet
from zorba_core.vram import Workload


def scenario(
    fleet: FleetOptions = options_of(FleetOptions),
    workload: Workload = options_of(Workload),
    limits: Limits = options_of(
        Limits, without=("total_mode",), help={"total": "Exact number of activated blocks over all clients, T."}
    ),
    name: str | None = typer.Option(None, help=f"{', '.join(PAPER_SCENARIOS)}: total and target from the paper."),
    vram_ratio: float | None = typer.Option(None, help="Instead of a total: fraction of all VRAM, with a model."),
    target_lambda: float | None = typer.Option(None, help="Lambda to meet."),
    tolerance: float = typer.Option(1e-3, help="Largest distance from the target."),
    time_limit: float = typer.Option(10.0, help="Seconds to search, and to prove what is out of reach."),
    save: Path | None = SAVE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Construct a matrix that has exactly the given total and Lambda."""
    check_save(save)
    request = fleet.request(workload)
    exact_total, target = _aim(request, name, limits.total, vram_ratio, target_lambda)
    exactly = {**dict(limits), "total": exact_total, "total_mode": "eq"}
    solution = solve_scenario(request, target, tolerance, seed=fleet.seed, time_limit=time_limit, **exactly)
    if save is not None:
        write_allocation(save, solution.allocation)
    result = solution.describe() | {"target_lambda": target, "tolerance": tolerance}
    emit(result, as_json, [f"target Lambda {target:g} with {exact_total} blocks", *solution_lines(solution)])


def _aim(
    request: Fleet | Problem, name: str | None, total: int | None, vram_ratio: float | None, target_lambda: float | None
) -> tuple[int, float]:
    """The exact total and the target Lambda.

    Raises:
        InvalidInputError: an unknown name, a name together with the values it stands for, or too few values.
    """
    if name is not None:
        if total is not None or vram_ratio is not None or target_lambda is not None:
            raise InvalidInputError("give --name, or --target-lambda with --total or --vram-ratio, not both")
        if name.upper() not in PAPER_SCENARIOS:
            raise InvalidInputError(f"unknown scenario {name!r}; choose one of {', '.join(PAPER_SCENARIOS)}")
        scenario = PAPER_SCENARIOS[name.upper()]
        vram_ratio, target_lambda = scenario.vram_ratio, scenario.bias_lambda
    if target_lambda is None:
        raise InvalidInputError("give --target-lambda, or --name with one of the paper's scenarios")
    if (total is None) == (vram_ratio is None):
        raise InvalidInputError("give --total or --vram-ratio, one of them")
    if vram_ratio is None:
        return total, target_lambda
    if not isinstance(request, Fleet):
        raise InvalidInputError(
            "a VRAM ratio needs capacities: give --model or --fleet instead of --budgets, or --total"
        )
    if not 0 < vram_ratio <= 1:
        raise InvalidInputError(f"VRAM ratio is {vram_ratio}; it must be above 0 and at most 1")
    exact_total = request.total_at_ratio(vram_ratio)
    if exact_total < 1:
        raise InvalidInputError(f"VRAM ratio {vram_ratio:g} does not even hold every client's model; raise it")
    return exact_total, target_lambda
