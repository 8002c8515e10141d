"""The menu of downloads: the figure, the matrix, the fleet, a Python program, and the link."""

from __future__ import annotations

import json

import streamlit as st

from app import scenario as scenarios
from app.parts import fleets, pictures
from app.parts.shape import compared_fleets
from app.scenario import Scenario
from zorba_core.allocation import Allocation, allocation_json
from zorba_core.plots.pictures import can_be_made, picture_bytes
from zorba_core.plots.theme import LIGHT

_WIDTH, _HEIGHT = 480, 330  # pixels; a point each in a column of a paper makes texts of 6 to 7 points


def menu(scenario: Scenario, study: fleets.Study, allocation: Allocation) -> None:
    """Buttons in a popover. A click makes the file."""
    name = f"zorba-{scenario.model}-{allocation.num_clients}"
    if can_be_made():
        for suffix in ("pdf", "svg", "png"):
            _button(f"Front ({suffix.upper()})", f"{name}.{suffix}", lambda s=suffix: _picture(scenario, study, s))
    _button("Matrix (JSON)", f"{name}.json", lambda: allocation_json(allocation).encode())
    _button("Fleet (CSV)", f"{name}.csv", lambda: study.fleet.to_frame().to_csv(index=False).encode())
    _button("Python", f"{name}.py", lambda: python_of(scenario, study, allocation.total_blocks).encode())
    address = (st.context.url or "").split("?")[0].rstrip("/")
    link = scenarios.link_of(scenario)
    st.caption("Link to this page:")
    st.code(f"{address}/{'?' + link if link else ''}", language=None, wrap_lines=True)


def _button(label: str, file_name: str, content) -> None:
    st.download_button(
        label,
        content,
        file_name,
        on_click="ignore",
        key=f"file_{file_name}",
        type="tertiary",
        icon=":material/download:",
    )


def _picture(scenario: Scenario, study: fleets.Study, suffix: str) -> bytes:
    """Λ against VRAM as a picture for a column of a paper, on white."""
    figure = pictures.front(scenario, study, compared_fleets(scenario), palette=LIGHT, height=_HEIGHT)
    return picture_bytes(figure.update_layout(width=_WIDTH), suffix)


def python_of(scenario: Scenario, study: fleets.Study, total: int) -> str:
    """A program that computes the page's front, and the page's allocation of ``total`` blocks if another method than
    the paper's makes it."""
    gib = json.dumps([round(float(value), 6) for value in study.gib_N])
    return f'''"""Λ against VRAM for {len(study.gib_N)} clients of {scenario.model}."""

import pandas as pd

import zorba_core as zorba

workload = zorba.Workload(batch_size={scenario.batch}, seq_len={scenario.length}, dtype="{scenario.precision}")
clients = pd.DataFrame({{"vram_gib": {gib}}})
fleet = zorba.Fleet.from_frame(clients, "{scenario.model}", workload=workload)
front = zorba.front(fleet, points={fleets.POINTS}, tau_mode="vector", seed={scenario.seed})
print(front.query("on_front").sort_values("vram_ratio").to_string())
''' + (
        ""
        if scenario.follow == "paper"
        else f"""
plan = zorba.solve(fleet, solver="{scenario.follow}", total={total})
print(plan.value, plan.lower_bound, plan.status)
"""
    )
