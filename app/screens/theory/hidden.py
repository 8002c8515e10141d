"""What Lambda does not see: the same allocation by every number that says something about its noise and bias.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app.screens.allocation.files import numbers
from app.screens.allocation.solvers import rival
from app.shared import components, selection
from app.shared.components import Picture
from app.shared.scenario import Study
from zorba_core.allocation import Allocation
from zorba_core.plots.theory import hidden_figure

# name on screen: (key in files, is more better, format, LaTeX, what it says)
MEASURES = {
    "Λ": (
        "lambda", False, "%.4g", r"\Lambda = \sum_n \frac{1}{\underline{c}_n^{\,2}}",
        "charges each client once, for its scarcest block, however many scarce blocks it carries.",
    ),
    "V": (
        "mean_inverse_popularity", False, "%.4f", r"V = \frac{1}{M} \sum_m \frac{1}{c_m}",
        "the bias of a block towards the data of its few clients: Σ over blocks and clients of the squared distance of "
        "their weights from 1/N is M(V − 1/N). Balanced allocations minimise it at every total; that they train better "
        "for it is not shown.",
    ),
    "N_eff": (
        "effective_clients", True, "%.1f",
        r"N_{\mathrm{eff}} = \frac{1}{\sum_n I_n^2}, \quad I_n = \frac{1}{M} \sum_m \frac{a_{m,n}}{c_m}",
        "how many equal clients would weigh on the result as these do.",
    ),
    "E": (
        "coupled_noise", False, "%.3f", r"E = \frac{1}{M} \sum_m \frac{1}{c_m^2} \sum_{n:\,a_{m,n}=1} k_n",
        "mini-batch noise that enters a block from all blocks of its clients, who hold k_n each. M/N when both "
        "popularities and holdings are even, whatever the total; large where few generalists carry scarce blocks.",
    ),
    "D": (
        "direction_coupling", False, "%.2f",
        r"D = \frac{1}{M} \sum_m \sum_{m'} \Bigl(\frac{c_{m,m'}}{c_m}\Bigr)^2",
        "how many blocks' random directions a block's estimate carries; averaging over clients does not lower it, "
        "since they share the directions. M for full activation, 1 for one block each.",
    ),
}  # fmt: skip


def show(study: Study, allocation: Allocation) -> None:
    rows = _allocations(study, allocation)
    st.markdown(
        "Λ is one number, and it looks at one block of each client. Two allocations with the same Λ can differ widely "
        "in how noisy and how one-sided the averaged update is. The expected square of a block's estimate in one round "
        "says what is missing:"
    )
    st.latex(
        r"\mathbb{E}\,\|\hat{g}_m\|^2 \;\approx\; \frac{d_m}{Q} \sum_{m'} \Bigl[ "
        r"\underbrace{\bigl(\tfrac{c_{m,m'}}{c_m}\bigr)^2}_{\text{summed: } D} \|g_{m'}\|^2 \;+\; "
        r"\underbrace{\tfrac{c_{m,m'}}{c_m^2}}_{\text{summed: } E} s^2 \Bigr]"
    )
    found = {name: numbers(each) for name, each in rows.items()}
    full = found["full activation"]
    ratios = {
        name: {label: _ratio(values, full, measure) for label, measure in MEASURES.items()}
        for name, values in found.items()
        if name != "full activation"
    }
    drawn = hidden_figure(ratios, palette=components.palette())
    components.figure(
        drawn,
        key="hidden_plot",
        name="zorba-what-lambda-hides",
        alt="Each number of each allocation as a multiple of full activation's. The table below has the numbers.",
    )
    components.let_it_be_drawn("hidden", tuple(ratios))
    st.caption(
        "N_eff is drawn upside down (full activation's over the allocation's), so that left is better everywhere. "
        "All of these are derived for one round. Which of them decides how training ends is open: at an equal number "
        "of blocks no run here tells (page *Paper*, claim *lambda/predicts*)."
    )
    components.downloads([], key="hidden_files", picture=Picture(lambda: drawn, "zorba-what-lambda-hides"))
    _table(found, rows)
    _lesson(found)
    with st.expander("What each number says", icon=":material/function:"):
        for label, (_, _, _, latex, says) in MEASURES.items():
            st.latex(latex)
            st.caption(f"**{label}**: {says}")


def _allocations(study: Study, allocation: Allocation) -> dict[str, Allocation]:
    """This one, the solvers' at the same number of blocks, and all blocks on all clients."""
    point = selection.current_point(study)
    rows = {"this allocation": allocation}
    for solver in ("balanced", "two-level", "lexicographic"):
        solution = rival(study.scenario, point, allocation, solver)
        if solution is None:
            continue
        found = Allocation(solution.allocation.A_MN)
        same = np.array_equal(found.A_MN, allocation.A_MN)
        if same:
            rows.pop("this allocation", None)
        rows[f"{solver}: this allocation" if same else solver] = found
    rows["full activation"] = Allocation(np.ones_like(allocation.A_MN))
    return rows


def _ratio(values: dict, full: dict, measure: tuple) -> float:
    key, more_is_better = measure[:2]
    return full[key] / values[key] if more_is_better else values[key] / full[key]


def _table(found: dict[str, dict], rows: dict[str, Allocation]) -> None:
    table = pd.DataFrame(
        {label: [form % found[name][key] for name in found] for label, (key, _, form, _, _) in MEASURES.items()}
        | {
            "least trained": [found[name]["min_popularity"] for name in found],
            "blocks": [each.total_blocks for each in rows.values()],
        },
        index=pd.Index(list(found), name="allocation"),
    )
    st.dataframe(table, width="stretch", alt="Λ, V, N_eff, E and D of each allocation.")
    st.download_button(
        "Numbers (CSV)", lambda: pd.DataFrame(found).T.to_csv().encode(), "zorba-what-lambda-hides.csv", "text/csv",
        on_click="ignore", icon=":material/download:", key="hidden_csv",
    )  # fmt: skip


def _lesson(found: dict[str, dict]) -> None:
    """The pair that shows the point best, in numbers."""
    low, even = (
        next((values for name, values in found.items() if name.startswith(solver)), None)
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
        "theorems it should learn better, by the noise of one round worse; runs have not decided. Train both and see.",
        icon=":material/balance:",
    )
