"""What the Trade-off page shows, as a command. No Streamlit here."""

from __future__ import annotations

import shlex

from app.shared.scenario import Scenario
from zorba_core.cli.options import option_words


def as_command(scenario: Scenario, point: int | None = None) -> str:
    """The `zorba` command that prints the page's front; ``allocation_id`` of its points is ``point`` here."""
    direct = scenario.fleet_kind == "uniform" and not scenario.leave_out_small
    fleet = {"clients": scenario.num_clients} if direct else {"fleet": "fleet.csv"}
    by = {"by": "total"} if scenario.by_total else {"tau": scenario.reductions}
    points = scenario.num_totals if scenario.by_total else scenario.num_reductions
    parts = (
        {"model": scenario.model, **fleet, "seed": scenario.seed},
        scenario.workload.model_dump(),
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
