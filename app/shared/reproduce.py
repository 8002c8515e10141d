"""What a page shows, as something to run elsewhere: Python, a command, a scenario as JSON. No Streamlit here."""

from __future__ import annotations

import shlex
from dataclasses import asdict

from app.shared.scenario import Scenario
from app.shared.scenario_json import scenario_to_json
from app.shared.study import PROOF_SECONDS
from zorba_core.cli.options import option_words
from zorba_core.data.gpu_catalogue import MIXES

# Each kind of fleet: the functions it needs, and the call. What has no call comes from a file.
_DRAWN = {
    "uniform": ("planning.fleets", "uniform_fleet", "uniform_fleet(model, workload, {num_clients}, seed={seed})"),
    "normal": (
        "planning.fleets",
        "truncated_normal_fleet",
        "truncated_normal_fleet(\n    model, workload, {num_clients}, seed={seed}, mean_fraction={mean_fraction}, "
        "spread={spread}\n)",
    ),
    "lognormal": (
        "planning.fleets",
        "lognormal_fleet",
        "lognormal_fleet(\n    model, workload, {num_clients}, seed={seed}, median_fraction={median_fraction}, "
        "sigma={sigma}\n)",
    ),
    "two-kinds": (
        "planning.fleets",
        "two_kinds_fleet",
        "two_kinds_fleet({small_gib}, {large_gib}, {num_clients}, {large_fraction}, seed={seed})",
    ),
    "three-kinds": (
        "planning.fleets",
        "three_kinds_fleet",
        "three_kinds_fleet(\n    {small_gib}, {medium_gib}, {large_gib}, {num_clients}, {medium_fraction}, "
        "{large_fraction}, seed={seed}\n)",
    ),
    **{
        mix: (
            "data.gpu_catalogue",
            "mix_fleet",
            'mix_fleet("{fleet_kind}", {num_clients}, seed={seed}, share={card_share})',
        )
        for mix in MIXES
    },
}
_FROM_FILE = ("data.fleet_tables", "read_fleet_table", 'read_fleet_table("fleet.csv")  # saved on the Fleet page')


def as_python(scenario: Scenario, point: int | None = None) -> str:
    """A program that computes the page's front and, given a point of it, that point's allocation."""
    module, function, call = _DRAWN.get(scenario.fleet_kind, _FROM_FILE)
    leaves_out = scenario.leave_out_small and scenario.fleet_kind in _DRAWN
    sweep = "sweep_totals" if scenario.by_total else "sweep"
    lines = ["import zorba_core as zorba"]
    if scenario.by_total:
        lines.append("from zorba_core.allocation import sweep_totals")
    lines.append(f"from zorba_core.{module} import {function}")
    if leaves_out:
        lines.append("from zorba_core.planning.memory import affordable_blocks")
    lines += [
        "",
        f'model = zorba.model_spec("{scenario.model}")',
        f'workload = zorba.Workload({scenario.batch_size}, {scenario.seq_len}, "{scenario.dtype}")',
        f"fleet = {call.format(**vars(scenario))}",
        "capacity = fleet.capacity_N_bytes",
    ]
    if leaves_out:
        lines.append("capacity = capacity[affordable_blocks(capacity, model, workload) >= 1]")
    limit = f", time_limit={PROOF_SECONDS}" if scenario.solved_by.takes_time_limit else ""
    if scenario.by_total:
        drawn = f", seed={scenario.seed}" if scenario.solved_by.random else ""
        options = f'{scenario.num_totals}, solver="{scenario.solver}"{drawn}{limit}'
    else:
        sweep = f"zorba.{sweep}"
        options = (
            f'{scenario.num_reductions}, solver="{scenario.solver}", tau_mode="{scenario.reductions}", '
            f"seed={scenario.seed}{limit}"
        )
    lines.append(f"front = {sweep}(\n    capacity, model, workload, {options}\n)")
    if point is not None:
        lines += [
            f"plan = front.solution({point})  # the selected point",
            "print(plan.allocation.bias_lambda, plan.allocation.blocks_per_client)",
        ]
    return "\n".join(lines) + "\n"


def as_command(scenario: Scenario, point: int | None = None) -> str:
    """The `zorba` command that prints the page's front; ``allocation_id`` of its points is ``point`` here."""
    direct = scenario.fleet_kind == "uniform" and not scenario.leave_out_small
    fleet = {"clients": scenario.num_clients} if direct else {"fleet": "fleet.csv"}
    by = {"by": "total"} if scenario.by_total else {"tau": scenario.reductions}
    points = scenario.num_totals if scenario.by_total else scenario.num_reductions
    parts = (
        {"model": scenario.model, **fleet, "seed": scenario.seed},
        asdict(scenario.workload),
        {"epsilons": points, "solver": scenario.solver, **by, "as_json": True},
    )
    words = (shlex.join(option_words("pareto", part)) for part in parts)
    lines = ["zorba pareto " + " \\\n    ".join(words)]
    notes = []
    if not direct:
        notes.append("# fleet.csv is the download of the Fleet page: the clients that take part")
    if point is not None:
        notes.append(f"# the selected point is the one with allocation_id {point}")
    return "\n".join(notes + lines) + "\n"


def as_json(scenario: Scenario) -> str:
    """The scenario, as the Fleet page reads it back."""
    return scenario_to_json(scenario)
