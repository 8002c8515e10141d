"""What a page shows, as something to run elsewhere: Python, a command, a scenario as JSON. No Streamlit here."""

from __future__ import annotations

from app.scenario import Scenario
from app.scenario_json import scenario_to_json

# Fleets that a command line names by itself; any other goes through a file.
_DRAWN_BY_COMMAND = "uniform"
_DRAWN = {
    "uniform": "uniform_fleet(model, workload, num_clients={num_clients}, seed={seed})",
    "normal": "truncated_normal_fleet(\n    model, workload, num_clients={num_clients}, seed={seed}, "
    "mean_fraction={mean_fraction}, spread={spread}\n)",
    "two-kinds": "two_kinds_fleet({small_gib}, {large_gib}, num_clients={num_clients}, "
    "large_fraction={large_fraction}, seed={seed})",
}
_SOURCE = {
    "uniform": "uniform_fleet",
    "normal": "truncated_normal_fleet",
    "two-kinds": "two_kinds_fleet",
}


def as_python(scenario: Scenario, point: int | None = None) -> str:
    """A program that computes the page's front and, given a point of it, that point's allocation."""
    function = _SOURCE.get(scenario.fleet_kind, "read_fleet_csv")
    drawn = _DRAWN.get(scenario.fleet_kind, 'read_fleet_csv("fleet.csv")  # the download "Fleet"')
    fleet = drawn.format(**vars(scenario))
    lines = [
        "import zorba_core as zorba",
        f"from zorba_core.fleets import {function}",
        "",
        f'model = zorba.model_spec("{scenario.model}")',
        f"workload = zorba.Workload(batch_size={scenario.batch_size}, seq_len={scenario.seq_len}, "
        f'dtype="{scenario.dtype}")',
        f"fleet = {fleet}",
        "capacity = fleet.capacity_N_bytes",
    ]
    if scenario.leave_out_small and scenario.fleet_kind in _DRAWN:
        lines[1] += "\nfrom zorba_core.memory import affordable_blocks"
        lines.append("capacity = capacity[affordable_blocks(capacity, model, workload) >= 1]")
    lines += [
        "front = zorba.sweep(",
        f"    capacity, model, workload, num_epsilons={scenario.num_epsilons},",
        f'    solver="{scenario.solver}", tau_mode="{scenario.tau_mode}", seed={scenario.seed},',
        ")",
    ]
    if point is not None:
        lines += [
            f"plan = front.solution({point})",
            "print(plan.allocation.bias_lambda, plan.allocation.blocks_per_client)",
        ]
    return "\n".join(lines) + "\n"


def as_command(scenario: Scenario, point: int | None = None) -> str:
    """The `zorba` command that prints the page's front; ``allocation_id`` of its points is ``point`` here."""
    direct = scenario.fleet_kind == _DRAWN_BY_COMMAND and not scenario.leave_out_small
    fleet = f"--clients {scenario.num_clients}" if direct else "--fleet fleet.csv"
    lines = [
        f"zorba pareto --model {scenario.model} {fleet} --seed {scenario.seed} \\",
        f"    --batch-size {scenario.batch_size} --seq-len {scenario.seq_len} --dtype {scenario.dtype} \\",
        f"    --epsilons {scenario.num_epsilons} --solver {scenario.solver} --tau {scenario.tau_mode} --json",
    ]
    notes = []
    if not direct:
        notes.append('# fleet.csv is the download "Fleet"')
    if point is not None:
        notes.append(f"# the selected point is the one with allocation_id {point}")
    return "\n".join(notes + lines) + "\n"


def as_json(scenario: Scenario) -> str:
    """The scenario, as the Fleet page reads it back."""
    return scenario_to_json(scenario)
