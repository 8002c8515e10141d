"""``zorba allocate``, ``pareto``, ``scenario`` and ``vram``: who trains which blocks, and with how much VRAM."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast

import typer
from pydantic import Field

from zorba_core.allocation import SOLVERS, Front, Problem, Solution, solve, sweep, sweep_totals, write_allocation
from zorba_core.allocation.fronts import TauMode
from zorba_core.allocation.problem import TotalMode, parse_budgets
from zorba_core.allocation.scenarios import PAPER_SCENARIOS, solve_scenario
from zorba_core.checked import Checked, OneOf
from zorba_core.cli.options import JSON_OPTION, emit, options_of
from zorba_core.engine.parts import METHODS, method_facts
from zorba_core.errors import InvalidInputError
from zorba_core.files import check_target
from zorba_core.fleet import Fleet
from zorba_core.runs.request import read_fleet
from zorba_core.vram import GIB, PRESETS, Workload, model_spec, psi_block_bytes, psi_model_bytes

DEFAULT_MODEL = "opt-125m"
_SAVE = typer.Option(None, help="Also write the allocation to this .json file.")
_MOST_ROWS = 60


class FleetOptions(Checked, frozen=True):
    """The clients and their budgets."""

    budgets: str | None = None
    """Whole blocks that each client can hold, e.g. 11,9,3."""
    blocks: int | None = None
    """Number of blocks, M, with --budgets."""
    model: str | None = None
    """Model whose VRAM gives the budgets: a preset or a Hugging Face path."""
    clients: int | None = None
    """Draw a uniform fleet of this size, N, as in the paper (50)."""
    fleet: Path | None = None
    """CSV or Excel file with columns client,vram_gib, or CSV of nvidia-smi."""
    seed: int = Field(default=0, ge=0)
    """Random seed for the fleet and the solver."""

    def request(self, workload: Workload) -> Fleet | Problem:
        """A problem from ``--budgets --blocks``, or a fleet from a model with ``--clients`` or ``--fleet``.

        Raises:
            InvalidInputError: both are given, or neither is complete.
            InfeasibleError: the budgets do not cover every block.
        """
        if self.budgets is not None:
            for name in ("model", "clients", "fleet"):
                if getattr(self, name) is not None:
                    raise InvalidInputError(f"give --budgets or --{name}, not both")
            if self.blocks is None:
                raise InvalidInputError("--budgets needs --blocks, the number of blocks M")
            return Problem(parse_budgets(self.budgets), self.blocks)
        if self.blocks is not None:
            raise InvalidInputError("--blocks belongs to --budgets; a model has its own number of blocks")
        if self.model is None and self.clients is None and self.fleet is None:
            raise InvalidInputError("give --budgets with --blocks, or --model with --clients, or --fleet with a CSV")
        return read_fleet(model_spec(self.model or DEFAULT_MODEL), workload, self.clients, self.fleet, self.seed)


class SolveOptions(Checked, frozen=True):
    """Options of :func:`zorba_core.allocation.solution`, which checks them together."""

    solver: Annotated[str, OneOf(SOLVERS.meanings)] = "balanced"
    """{choices}"""
    time_limit: float = 10.0
    """Seconds for the exact solver, which then returns the best so far and its bound."""


class Limits(Checked, frozen=True):
    """Limits of an allocation besides the budgets."""

    total: int | None = Field(default=None, ge=1)
    """Activated blocks over all clients, T."""
    total_mode: TotalMode = "le"
    """le: at most T; eq: exactly T."""
    min_popularity: int = Field(default=1, ge=1)
    """Least number of clients of each block."""
    max_blocks_per_client: int | None = Field(default=None, ge=1)
    """Largest number of blocks of a client, in addition to its budget."""


def allocate(
    fleet: FleetOptions = options_of(FleetOptions),
    workload: Workload = options_of(Workload),
    limits: Limits = options_of(Limits),
    how: SolveOptions = options_of(SolveOptions),
    save: Path | None = _SAVE,
    as_json: bool = JSON_OPTION,
) -> None:
    """Choose each client's blocks within its budget, and bound how much better a choice could be."""
    _check_save(save)
    solution = solve(fleet.request(workload), seed=fleet.seed, **dict(limits), **dict(how))
    if save is not None:
        write_allocation(save, solution.allocation)
    emit(solution.describe(), as_json, _solution_lines(solution))


def _check_save(save: Path | None) -> None:
    """Check a file name before anything is computed.

    Raises:
        InvalidInputError: the name does not end in .json, or the file cannot be written.
    """
    if save is None:
        return
    if save.suffix.lower() != ".json":
        raise InvalidInputError(f"cannot save to {str(save)!r}; use a name that ends in .json")
    check_target(save)


def _solution_lines(solution: Solution) -> Iterator[str]:
    """A solution as text: the measures, then a line for each client. Nothing is computed before the first line."""
    allocation, gap = solution.allocation, f"gap {100 * solution.gap:.2f} %"
    lines = [
        f"{allocation.num_clients} clients, {allocation.num_blocks} blocks, solver {solution.solver}, "
        f"{solution.seconds:.3f} s",
        f"  Λ, convergence bias             {solution.value:10.4g}   bound {solution.lower_bound:.4g}, {gap}",
        f"  V, mean of 1/popularity         {allocation.mean_inverse_popularity:10.4f}",
        f"  Effective clients               {allocation.effective_clients:10.1f}",
        f"  Largest influence of a client   {allocation.largest_influence:10.3f}",
        f"  Clients of the scarcest block   {allocation.min_popularity:10d}   gamma* {solution.gamma_star}",
        f"  Activated blocks                {allocation.total_blocks:10,d}",
    ]
    if (used_N_gib := solution.vram_N_gib) is not None:
        lines.append(f"  Total VRAM                      {used_N_gib.sum():10.2f} GiB")
    lines += [f"  {solution.status.value}", "", "client                budget  blocks"]
    names = solution.fleet.names if solution.fleet else range(allocation.num_clients)
    rows = zip(names, solution.problem.budget_N, allocation.blocks_per_client, strict=True)
    for name, budget, ids in itertools.islice(rows, _MOST_ROWS):
        lines.append(f"{name:<20} {budget:7d}  {' '.join(map(str, ids))}")
    if allocation.num_clients > _MOST_ROWS:
        lines.append(f"... and {allocation.num_clients - _MOST_ROWS} more clients (--json or --save for all)")
    yield from lines


def pareto(
    fleet: FleetOptions = options_of(
        FleetOptions, "model", "clients", "fleet", "seed", defaults={"model": DEFAULT_MODEL}
    ),
    workload: Workload = options_of(Workload),
    how: SolveOptions = options_of(SolveOptions, "solver"),
    epsilons: int = typer.Option(1000, help="E: number of reductions, or of totals with --by total."),
    by: str = typer.Option("reduction", help="reduction: Algorithm 2; total: full budgets, at most T blocks together."),
    tau: str = typer.Option("client", help="client: one reduction for each client; vector: one for all clients."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Compute the front of Lambda against the share of all VRAM in use."""
    seed = fleet.seed
    chosen = read_fleet(model_spec(fleet.model or DEFAULT_MODEL), workload, fleet.clients, fleet.fleet, seed)
    front: Front
    if by == "total":
        front = sweep_totals(chosen, epsilons, how.solver, seed=seed)
    elif by == "reduction":
        front = sweep(chosen, epsilons, how.solver, cast(TauMode, tau), seed)  # sweep refuses any other
    else:
        raise InvalidInputError(f"unknown sweep {by!r}; choose reduction or total")
    points = front.to_frame().drop(columns="knee").assign(allocation_id=range(len(front))).to_dict("records")
    result = {
        "model": chosen.model.name,
        "num_clients": len(chosen.names),
        "solver": how.solver,
        "by": by,
        "tau_mode": tau if by == "reduction" else None,
        "seed": seed,
        "points": points,
        "hypervolume": front.hypervolume,
        "reference": front.reference,
        "knee": front.knee,
        "vectors_with_clamped_clients": int((front.clamped_E > 0).sum()),
    }
    on_front = front.order_F
    lines = [
        f"{chosen.model.name}, {len(chosen.names)} clients, {len(front)} {by}s, solver {how.solver}: "
        f"{len(on_front)} on the front",
        f"  hypervolume {front.hypervolume:.4f} up to ratio {front.reference[0]:g} and Lambda {front.reference[1]:g}",
        f"  {result['vectors_with_clamped_clients']} reductions left a client below one block and gave it one",
        "",
        "   id    ratio  blocks     Lambda        V  min c   N_eff",
    ]
    lines += [
        f"{i:5d} {front.vram_ratio_E[i]:8.4f} {front.total_blocks_E[i]:7d} {front.bias_lambda_E[i]:10.5f} "
        f"{front.mean_inverse_popularity_E[i]:8.5f} {front.min_popularity_E[i]:6d} {front.effective_clients_E[i]:7.2f}"
        + ("   knee" if i == front.knee else "")
        for i in on_front
    ]
    emit(result, as_json, lines)


def scenario(
    fleet: FleetOptions = options_of(FleetOptions),
    workload: Workload = options_of(Workload),
    limits: Limits = options_of(
        Limits, without=("total_mode",), help={"total": "Exact number of activated blocks over all clients, T."}
    ),
    name: str | None = typer.Option(None, help=f"{', '.join(PAPER_SCENARIOS)}: total and target from the paper."),
    vram_ratio: float | None = typer.Option(None, help="Share of all VRAM, instead of a total; needs a model."),
    target_lambda: float | None = typer.Option(None, help="Lambda to construct."),
    tolerance: float = typer.Option(1e-3, help="Largest distance from the target."),
    time_limit: float = typer.Option(10.0, help="Seconds to search, or to prove that no matrix has this Lambda."),
    save: Path | None = _SAVE,
    as_json: bool = JSON_OPTION,
) -> None:
    """Construct a matrix with the given total and Lambda."""
    _check_save(save)
    request = fleet.request(workload)
    exact_total, target = _aim(request, name, limits.total, vram_ratio, target_lambda)
    exactly = {**dict(limits), "total": exact_total, "total_mode": "eq"}
    solution = solve_scenario(request, target, tolerance, seed=fleet.seed, time_limit=time_limit, **exactly)
    if save is not None:
        write_allocation(save, solution.allocation)
    result = solution.describe() | {"target_lambda": target, "tolerance": tolerance}
    emit(result, as_json, [f"target Lambda {target:g} with {exact_total} blocks", *_solution_lines(solution)])


def _aim(
    request: Fleet | Problem, name: str | None, total: int | None, vram_ratio: float | None, target_lambda: float | None
) -> tuple[int, float]:
    """The exact total and the target Lambda.

    Raises:
        InvalidInputError: the name is unknown or comes with the values that it stands for, or values are missing.
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
    if total is not None and vram_ratio is None:
        return total, target_lambda
    if total is not None or vram_ratio is None:
        raise InvalidInputError("give either --total or --vram-ratio")
    if not isinstance(request, Fleet):
        raise InvalidInputError(
            "a VRAM ratio needs capacities: give --model or --fleet instead of --budgets, or --total"
        )
    if not 0 < vram_ratio <= 1:
        raise InvalidInputError(f"VRAM ratio is {vram_ratio}; it must be above 0 and at most 1")
    exact_total = request.total_at_ratio(vram_ratio)
    if exact_total < 1:
        raise InvalidInputError(f"VRAM ratio {vram_ratio:g} is too low for the clients' models alone; raise it")
    return exact_total, target_lambda


def vram(
    model: str = typer.Option("opt-125m", help=f"{', '.join(PRESETS)}, or a Hugging Face folder or config.json."),
    workload: Workload = options_of(
        Workload, help={"seq_len": "Tokens in a sequence (128 for AG-News and SST-2, 256 for SNLI)."}
    ),
    clients: int = typer.Option(50, help="N: number of clients."),
    total_blocks: int | None = typer.Option(None, help="Activated blocks over all clients (ZorBA only)."),
    method: str = typer.Option("zorba", help=f"{', '.join(METHODS)}."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Compute the VRAM of all clients together by the paper's model, for ZorBA or a baseline."""
    spec = model_spec(model)
    result = {
        "model": spec.name,
        "method": method,
        "num_blocks": spec.num_blocks,
        "num_parameters": spec.num_parameters,
        "psi_model_gib": psi_model_bytes(spec, workload) / GIB,
        "psi_block_gib": psi_block_bytes(spec, workload) / GIB,
        "total_gib": method_facts(method).total_bytes(spec, workload, clients, total_blocks) / GIB,
    }
    shown = total_blocks if METHODS[method].allocates else f"all {spec.num_blocks * clients}"
    lines = [
        f"{spec.name}, {method}, {clients} clients, {shown} blocks, B={workload.batch_size}, L={workload.seq_len}, "
        f"{workload.dtype}",
        f"  parameters, each client    {result['psi_model_gib']:10.3f} GiB",
        f"  one activated block        {result['psi_block_gib']:10.3f} GiB",
        f"  all clients together       {result['total_gib']:10.2f} GiB",
    ]
    emit(result, as_json, lines)
