"""The menu of downloads: the figure in two sizes, the matrix, the fleet, a Python program, and the link."""

from __future__ import annotations

import json
from collections.abc import Callable

import streamlit as st

from app import scenario as scenarios
from app.parts import fleets, pictures
from app.scenario import Scenario, method_titles
from zorba_core import files
from zorba_core.errors import name_some
from zorba_core.plots.pictures import can_be_made, picture_bytes
from zorba_core.plots.theme import LIGHT

# Pixels; at a point each, one column of a paper or two, with texts of 6 to 7 points.
_SIZES = {"one column": (480, 330), "two columns": (980, 380)}


def menu(scenario: Scenario, study: fleets.Study) -> None:
    """Buttons in a popover. A click makes the file."""
    name = f"zorba-{scenario.model}-{len(study.gib_N)}"
    if can_be_made():
        for size in _SIZES:
            with st.container(horizontal=True, gap="small"):
                for suffix in ("pdf", "svg", "png"):
                    label, file = f"{suffix.upper()}, {size}", f"{name}-{size.replace(' ', '-')}.{suffix}"
                    _button(label, file, lambda s=suffix, z=size: _picture(scenario, z, s))
    _button("Matrix (JSON)", f"{name}.json", lambda: files.to_json(matrix_of(scenario)).encode())
    _button("Fleet (CSV)", f"{name}.csv", lambda: study.fleet.to_frame().to_csv(index=False).encode())
    _button("Python", f"{name}.py", lambda: python_of(scenario).encode())
    address = (st.context.url or "").split("?")[0].rstrip("/")
    link = scenarios.link_of(scenario)
    st.caption("Link to this page:")
    st.code(f"{address}/{'?' + link if link else ''}", language=None, wrap_lines=True)


def _button(label: str, file_name: str, content: Callable[[], bytes]) -> None:
    st.download_button(
        label,
        content,
        file_name,
        on_click="ignore",
        key=f"file_{file_name}",
        type="tertiary",
        icon=":material/download:",
    )


def _picture(scenario: Scenario, size: str, suffix: str) -> bytes:
    """Λ against VRAM with the point, on white."""
    width, height = _SIZES[size]
    figure = pictures.front(scenario, palette=LIGHT, height=height)
    return picture_bytes(figure.update_layout(width=width), suffix)


def matrix_of(scenario: Scenario) -> dict[str, object]:
    """An allocation file, which ``zorba train --allocation`` reads, with what the page says about it.

    Raises:
        InfeasibleError: the fleet or the method has no allocation.
    """
    study, solution, allocation = fleets.planned(scenario)
    return {
        "num_blocks": allocation.num_blocks,
        "num_clients": allocation.num_clients,
        "blocks_per_client": allocation.blocks_per_client,
        "lambda": allocation.bias_lambda,
        "gib": study.used_gib(allocation),
        "total_blocks": allocation.total_blocks,
        "limit": study.total(scenario),
        "method": solution.solver,
        "lower_bound": solution.lower_bound,
        "changed_by_hand": fleets.cells_of(scenario.flips),
        "problems": study.complaints(allocation),
        "model": scenario.model,
        "batch_size": scenario.batch,
        "seq_len": scenario.length,
        "precision": scenario.precision,
        "seed": scenario.seed,
        "vram_gib": study.gib_N,
    }


def python_of(scenario: Scenario) -> str:
    """A program that solves the page's allocation again, changes the cells that were changed by hand, and prints the
    page's GiB and Λ.

    Raises:
        InfeasibleError: the fleet or the method has no allocation.
    """
    study, _, allocation = fleets.planned(scenario)
    gib = json.dumps([round(float(value), 6) for value in study.gib_N])
    total, title = study.total(scenario), method_titles()[scenario.follow]
    solve = f'zorba.solve(fleet, solver="{scenario.follow}", total={total}, seed={scenario.seed})'
    if scenario.follow == "paper":  # Algorithm 2: every client's VRAM is reduced by the same share
        budgets = study.solution("paper", total).problem.budget_N.tolist()  # type: ignore[union-attr]
        problem = f"zorba.Problem({budgets}, {study.needs.num_blocks})"
        solve = f'zorba.solve({problem}, solver="lexicographic", seed={scenario.seed})'
    idle = [n for n, held in enumerate(allocation.blocks_held_N.tolist()) if not held]
    note = f"\n# Without a block, so that Lambda is infinite: client {name_some(idle)}." if idle else ""
    return f'''"""{len(study.gib_N)} clients of {scenario.model}, {title}, at most {total} blocks: GiB and Lambda."""

import numpy as np
import pandas as pd

import zorba_core as zorba

workload = zorba.Workload(batch_size={scenario.batch}, seq_len={scenario.length}, dtype="{scenario.precision}")
clients = pd.DataFrame({{"vram_gib": {gib}}})
fleet = zorba.Fleet.from_frame(clients, "{scenario.model}", workload=workload)

plan = {solve}
A = np.array(plan.allocation.A_MN)  # rows are blocks, columns are clients
for block, client in {fleets.cells_of(scenario.flips)}:  # the cells that were changed by hand
    A[block, client] ^= True{note}

# The matrix of the page; exact may find another one of the same Lambda.
on_page = zorba.Allocation.from_blocks({allocation.blocks_per_client}, {allocation.num_blocks})
used = fleet.used_N_bytes(on_page.blocks_held_N).sum() / zorba.GIB
print(f"{{used:.1f}} GiB, Lambda {{on_page.bias_lambda:.3g}}, solved again: {{zorba.Allocation(A).bias_lambda:.3g}}")
'''
