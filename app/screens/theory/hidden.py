"""What Lambda hides: the same allocation by every number that says something about its noise and bias.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app.screens.allocation.files import numbers
from app.screens.allocation.solvers import rival
from app.shared import components, selection
from app.shared.components import as_pdf
from app.shared.scenario import PROVER
from app.shared.study import Study
from zorba_core.allocation import MEASURES, SOLVERS, Allocation, Measure
from zorba_core.plots.theory import hidden_figure

SHOWN = ("lambda", "mean_inverse_popularity", "effective_clients", "coupled_noise", "direction_coupling")


def show(study: Study, allocation: Allocation) -> None:
    rows = _allocations(study, allocation)
    st.empty()  # takes the place of the other part, whose container would else be drawn once more, with all within
    formula = st.container()  # filled after the picture, which is what a change is looked at for
    numbers_by_name = {name: numbers(each) for name, each in rows.items()}
    full = numbers_by_name["full activation"]
    ratios = {
        name: {MEASURES[key].symbol: _ratio(values, full, MEASURES[key]) for key in SHOWN}
        for name, values in numbers_by_name.items()
        if name != "full activation"
    }
    drawn = hidden_figure(ratios, palette=components.palette())
    components.figure(
        drawn,
        key="hidden_plot",
        name="zorba-what-lambda-hides",
        alt="Each number of each allocation as a multiple of full activation's. The table below has the numbers.",
    )
    with formula:
        st.markdown(
            "Λ is one number, and it looks at one block of each client. Two allocations with the same Λ can differ "
            "widely in how noisy and how one-sided the averaged update is. The expected square of a block's estimate "
            "in one round says what is missing:"
        )
        st.latex(
            r"\mathbb{E}\,\|\hat{g}_m\|^2 \;\approx\; \frac{d_m}{Q} \sum_{m'} \Bigl[ "
            r"\underbrace{\bigl(\tfrac{c_{m,m'}}{c_m}\bigr)^2}_{\text{summed: } D} \|g_{m'}\|^2 \;+\; "
            r"\underbrace{\tfrac{c_{m,m'}}{c_m^2}}_{\text{summed: } E} s^2 \Bigr]"
        )
    st.caption(
        "N_eff is drawn upside down (full activation's over the allocation's), so that left is better everywhere. "
        "All of these are derived for one round. Which of them tells how training ends is undecided."
    )
    components.downloads(as_pdf(lambda: drawn, "zorba-what-lambda-hides"), key="hidden_files")
    _table(numbers_by_name, rows)
    _lesson(numbers_by_name)
    with st.expander("What each number says", icon=":material/function:"):
        for measure in map(MEASURES.get, SHOWN):
            st.latex(measure.formula)
            st.caption(f"**{measure.label}**: {measure.says}.")


def _allocations(study: Study, allocation: Allocation) -> dict[str, Allocation]:
    """This one, the solvers' at the same number of blocks, and all blocks on all clients."""
    point = selection.current_point(study)
    rows = {"this allocation": allocation}
    for solver in (name for name in SOLVERS if name != PROVER):
        solution = rival(study.scenario, point, allocation, solver)
        if solution is None:
            continue
        solved = Allocation(solution.allocation.A_MN)
        same = np.array_equal(solved.A_MN, allocation.A_MN)
        if same:
            rows.pop("this allocation", None)
        rows[f"{solver}: this allocation" if same else solver] = solved
    rows["full activation"] = Allocation(np.ones_like(allocation.A_MN))
    return rows


def _ratio(values: dict, full: dict, measure: Measure) -> float:
    key = measure.name
    return full[key] / values[key] if measure.better == "higher" else values[key] / full[key]


def _table(values: dict[str, dict], rows: dict[str, Allocation]) -> None:
    table = pd.DataFrame(
        {MEASURES[key].symbol: [MEASURES[key].text(values[name][key]) for name in values] for key in SHOWN}
        | {
            "least trained": [values[name]["min_popularity"] for name in values],
            "blocks": [each.total_blocks for each in rows.values()],
        },
        index=pd.Index(list(values), name="allocation"),
    )
    st.dataframe(table, width="stretch", alt="Λ, V, N_eff, E and D of each allocation.")
    st.download_button(
        "Numbers (CSV)",
        lambda: pd.DataFrame(values).T.to_csv().encode(),
        "zorba-what-lambda-hides.csv",
        "text/csv",
        on_click="ignore",
        icon=":material/download:",
        key="hidden_csv",
    )


def _lesson(numbers_by_name: dict[str, dict]) -> None:
    """The pair that shows the point best, in numbers."""
    low, even = (
        next((values for name, values in numbers_by_name.items() if name.startswith(solver)), None)
        for solver in ("two-level", "balanced")
    )
    if low is None or even is None:
        return
    if low["lambda"] >= even["lambda"] * (1 - 1e-9):
        return
    less = 1 - low["lambda"] / even["lambda"]
    v, noise = (low[key] / even[key] for key in ("mean_inverse_popularity", "coupled_noise"))
    count, of = low["effective_clients"], even["effective_clients"]
    st.info(
        f"With at most as many blocks, *two-level* has {less:.0%} less Λ than *balanced*. It pays with {v:.2f} times "
        f"the V and {noise:.2f} times the coupled noise, and {count:.1f} clients count instead of {of:.1f}. By the "
        "theorems it should learn better, by the noise of one round worse; which of the two is undecided. Train both "
        "and see.",
        icon=":material/balance:",
    )
