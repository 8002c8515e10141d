"""Two points side by side: only what differs, and by how much. No Streamlit here."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from app.shared.scenario import FLEET_KINDS, Scenario
from app.shared.scenario_fields import TAU_LABELS, used_fields
from app.shared.study import Study
from app.shared.tradeoff import MEASURES, value_of
from zorba_core.allocation import Solution
from zorba_core.fields import declared


@dataclass(frozen=True, eq=False)
class Side:
    """One of two points: its scenario solved, and its allocation."""

    study: Study
    point: int
    solution: Solution

    @property
    def scenario(self) -> Scenario:
        return self.study.scenario


@dataclass(frozen=True, eq=False)
class Comparison:
    """``differing`` has a row for each setting and number that differs; ``same`` names those that do not."""

    differing: pd.DataFrame
    same: list[str]


def compare(first: Side, second: Side, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """What tells two points apart."""
    rows, same = [], []
    against = f"{names[1]} against {names[0]}"

    def add(label: str, left: str, right: str, delta: str) -> None:
        if left == right:
            same.append(label)
        else:
            rows.append({"": label, names[0]: left, names[1]: right, against: delta})

    relevant = dict.fromkeys((*used_fields(first.scenario), *used_fields(second.scenario)))
    for field in relevant:
        add(declared(Scenario)[field].label, _setting(first.scenario, field), _setting(second.scenario, field), "")
    for label, left, right, spec in _numbers(first, second):
        add(label, format(left, spec), format(right, spec), _delta(left, right))
    return Comparison(pd.DataFrame(rows, columns=["", *names, against]), same)


def _setting(scenario: Scenario, field: str) -> str:
    if field not in used_fields(scenario):
        return "–"
    value = getattr(scenario, field)
    if field == "fleet_kind":
        return FLEET_KINDS[value] + (f", {len(scenario.table)} clients" if value == "table" else "")
    if field == "tau_mode":
        return TAU_LABELS[value]
    if field == "solver":
        return scenario.solved_by.title
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _numbers(first: Side, second: Side) -> list[tuple[str, float, float, str]]:
    sides = (first, second)
    gib = [float(side.study.used_N_gib(side.solution.allocation.blocks_held_N).sum()) for side in sides]
    ratio = [used / side.study.capacity_gib for used, side in zip(gib, sides, strict=True)]
    blocks = [side.solution.allocation.total_blocks for side in sides]
    most = [int(side.solution.allocation.blocks_held_N.max()) for side in sides]
    numbers = [
        ("Share of all VRAM", *ratio, ".1%"),
        ("VRAM (GiB)", *gib, ",.2f"),
        ("Activated blocks", *blocks, ",d"),
        ("Most blocks of one client", *most, "d"),
    ]
    for name, measure in MEASURES.items():
        numbers.append((measure.label, *(value_of(side.solution, name) for side in sides), measure.format))
    return numbers


def _delta(left: float, right: float) -> str:
    if left == 0:
        return ""
    ratio = right / left
    return f"× {ratio:.2f}" if not 0.9 < ratio < 1.1 else f"{ratio - 1:+.1%}"
