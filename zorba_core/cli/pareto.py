"""``zorba pareto``: Lambda against VRAM over many reductions (Algorithm 2)."""

from __future__ import annotations

import numpy as np
import typer

from zorba_core.allocation import Front, sweep, sweep_totals
from zorba_core.cli.allocate import SolveOptions
from zorba_core.cli.fleet_options import DEFAULT_MODEL, FleetOptions, read_fleet
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError
from zorba_core.vram import Workload, model_spec


def pareto(
    fleet: FleetOptions = options_of(
        FleetOptions, "model", "clients", "fleet", "seed", defaults={"model": DEFAULT_MODEL}
    ),
    workload: Workload = options_of(Workload),
    how: SolveOptions = options_of(SolveOptions, "solver"),
    epsilons: int = typer.Option(1000, help="E: number of reductions, or of totals with --by total."),
    by: str = typer.Option("reduction", help="reduction: Algorithm 2; total: full budgets, at most T blocks in all."),
    tau: str = typer.Option("client", help="client: a reduction for each client; vector: one for all, as printed."),
    as_json: bool = JSON_OPTION,
) -> None:
    """The front of Lambda against the fraction of all VRAM in use."""
    seed = fleet.seed
    chosen = read_fleet(model_spec(fleet.model), workload, fleet.clients, fleet.fleet, seed)
    front: Front
    if by == "total":
        front = sweep_totals(chosen, epsilons, how.solver, seed=seed)
    elif by == "reduction":
        front = sweep(chosen, epsilons, how.solver, tau, seed)
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
    on_front = np.flatnonzero(front.on_front_E)
    on_front = on_front[np.argsort(front.vram_ratio_E[on_front])]
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
