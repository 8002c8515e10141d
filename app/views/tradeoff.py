"""Trade-off: what VRAM buys, and who trains what at the point you choose.

Shapes: M blocks, N clients, E points of the sweep, F points of its front.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import streamlit as st

from app import components, files, selection, state
from app.components import Download, Number
from app.glossary import glossary
from app.infeasible import explain
from app.links import linked
from app.scenario import Scenario, Study
from zorba_core.allocation import Solution
from zorba_core.plots import PAPER_SCENARIOS, allocation_figure, client_order, front_figure, front_order

ORDERS = {"vram": "VRAM", "blocks": "blocks held", "given": "order given"}
SAVINGS = (0.1, 0.2, 0.3)
SPARSE = 0.03
HEAD_START_SECONDS = 0.08


def page() -> None:
    scenario = state.current()
    st.title("How much VRAM does good training need?", anchor=False)
    study = state.solved_or_error(scenario)
    if not isinstance(study, Study):
        explain(study, scenario)
        return
    _introduction(study)
    rows = front_order(study.front)
    point = selection.selected_point(study, rows)
    solution = state.solution(scenario, point)
    _headline(study, point, solution)
    plot, words = st.columns([0.63, 0.37], gap="medium")
    with plot:
        _trade_off(study, point)
        _let_it_be_drawn(scenario)
    with words:
        _cost_of_saving(study)
        _front_table(study, rows, point)
    st.divider()
    _allocation(study, point, solution)
    components.reproduce(scenario, point)
    glossary()


def _introduction(study: Study) -> None:
    capacity_N = study.fleet.capacity_N_gib
    blocks = study.front.num_blocks
    st.markdown(
        f"**{study.fleet.num_clients} clients** share the fine-tuning of {study.scenario.model.upper()}, a model of "
        f"**{blocks} blocks**. Each trains only some blocks, as many as its GPU can hold "
        f"({capacity_N.min():.2f} to {capacity_N.max():.2f} GiB; {study.capacity_gib:.1f} GiB together). "
        "Fewer blocks save memory, but a block that few clients train learns with more bias, which **Λ** measures."
    )
    if study.left_out:
        shown = ", ".join(study.left_out[:8]) + (" …" if len(study.left_out) > 8 else "")
        st.caption(
            f":material/person_remove: {len(study.left_out)} clients too small for one block are left out: {shown}"
        )
    blank = int(np.isnan(study.front.bias_lambda_E).sum())
    if blank:
        st.caption(
            f":material/info: {blank} of {len(study.front)} reductions leave fewer than {blocks} blocks to hand out, "
            "so some block would go untrained; they are not drawn."
        )


def _headline(study: Study, point: int, solution: Solution) -> None:
    allocation = solution.allocation
    num_blocks, num_clients = allocation.num_blocks, allocation.num_clients
    used = float(study.used_N_gib(allocation.blocks_held_N).sum())
    knee = point == study.default_point()
    kind = "the knee, below which every GiB saved costs ever more bias" if knee else f"point {point}"
    left, right = st.columns([0.8, 0.2], vertical_alignment="center")
    left.markdown(f"##### Selected: {kind}")
    if not knee:
        right.button(
            "Back to the knee",
            on_click=selection.select,
            args=(study.scenario, None),
            type="tertiary",
            icon=":material/undo:",
        )
    components.numbers(
        [
            Number(
                "VRAM in use",
                f"{used / study.capacity_gib:.1%}",
                r"$\sum_n \psi_{\mathrm{tot},n} \,/\, \sum_n \psi_{\max,n}$: parameters and activations of all "
                "clients, as a share of the VRAM they have.",
                f"{used:.1f} of {study.capacity_gib:.1f} GiB",
            ),
            Number(
                "Λ, convergence bias",
                f"{allocation.bias_lambda:.3g}",
                r"$\Lambda = \sum_n 1 / \underline{c}_n^2$, where $\underline{c}_n$ is the smallest popularity among "
                "client *n*'s blocks. Lower is better; it is the part of the paper's convergence bound that the "
                "allocation decides.",
                f"{allocation.bias_lambda / study.everything.allocation.bias_lambda:.1f} × that of all VRAM",
            ),
            Number(
                "Activated blocks",
                f"{allocation.total_blocks}",
                r"$\sum_m \sum_n a_{m,n}$: how many blocks are trained, over all clients. VRAM grows with it.",
                f"of {num_blocks * num_clients}",
            ),
            Number(
                "Least trained block",
                f"{allocation.min_popularity}",
                r"$\min_m c_m$: clients that train the block with the fewest. A block trained by one client learns "
                "that client's data only.",
                "client" if allocation.min_popularity == 1 else "clients",
            ),
            Number(
                "V, mean of 1/popularity",
                f"{allocation.mean_inverse_popularity:.3f}",
                r"$V = \frac{1}{M} \sum_m 1 / c_m$: bias and variance of the averaged update. Λ counts a client once, "
                "however many scarce blocks it carries; V counts every block.",
                f"at best {1 / num_clients:.3f}",
            ),
            Number(
                "Effective clients",
                f"{allocation.effective_clients:.1f}",
                r"$N_{\mathrm{eff}} = 1 / \sum_n I_n^2$ with $I_n = \frac{1}{M} \sum_m a_{m,n} / c_m$: how many equal "
                "clients would weigh on the result as these do. Few means that a few clients decide.",
                f"of {num_clients}",
            ),
        ]
    )


def _trade_off(study: Study, point: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.markdown("##### Bias against memory", width="stretch")
        log_lambda = st.toggle("Log Λ", True, key="log", bind="query-params", help="Logarithmic axis for Λ.")
        paper = st.toggle(
            "Paper's scenarios",
            True,
            key="paper",
            bind="query-params",
            help="SC1, SC2 and SC3 as printed: (VRAM ratio, Λ) of (0.71, 0.50), (0.86, 0.50) and (0.86, 0.95).",
        )
    drawn = front_figure(
        study.front,
        selected=point,
        references=PAPER_SCENARIOS if paper else {},
        log_lambda=log_lambda,
        palette=components.palette(),
        height=480,
    )
    drawn.update_layout(uirevision=hash((study.scenario, log_lambda)))
    components.figure(
        drawn,
        key=selection.plot_key(),
        select=True,
        name="zorba-front",
        alt=f"Scatter plot of Λ against the share of VRAM used for {len(study.front)} reductions. The Pareto front "
        f"has {int(study.front.on_front_E.sum())} points; the selected one uses "
        f"{study.front.vram_ratio_E[point]:.0%} of the VRAM at Λ = {study.front.bias_lambda_E[point]:.3g}. The table "
        "beside it lists the front.",
    )
    st.caption("Click a point to see who trains what there. Grey points cost more VRAM or more bias than the front.")


def _let_it_be_drawn(scenario: Scenario) -> None:
    """Give the browser the time to draw a new front before the rest of the page arrives, which it would otherwise draw
    in one go: the answer to a changed control is on screen 100 ms sooner (`tests/benchmarks/bench_dashboard.py`)."""
    if st.session_state.get("drawn") != scenario:
        st.session_state["drawn"] = scenario
        time.sleep(HEAD_START_SECONDS)


def _cost_of_saving(study: Study) -> None:
    best = study.everything.allocation.bias_lambda
    st.markdown("##### What does saving memory cost?")
    lines = []
    for saving in SAVINGS:
        found = study.best_within(1 - saving)
        if found is None:
            lines.append(f"- Saving **{saving:.0%}** is out of reach: no sampled reduction goes that far.")
            continue
        reached, ratio = study.front.bias_lambda_E[found], study.front.vram_ratio_E[found]
        times = f"**{reached / best:.1f} × the bias**"
        # A sweep with one tau for each client leaves most of the range above its front empty.
        at_most = f"at most, found at {ratio:.0%} of the VRAM, " if ratio < 1 - saving - SPARSE else ""
        lines.append(f"- Saving **{saving:.0%}** costs {at_most}{times} (Λ = {reached:.3g}).")
    st.markdown(
        f"With nothing held back the fleet uses {study.everything_ratio:.0%} of its VRAM and reaches "
        f"Λ = {best:.3g}.\n\n" + "\n".join(lines)
    )


def _front_table(study: Study, rows: np.ndarray, point: int) -> None:
    front = study.front
    table = pd.DataFrame(
        {
            "VRAM": front.vram_ratio_E[rows],
            "Λ": front.bias_lambda_E[rows],
            "blocks": front.total_blocks_E[rows],
            "min": front.min_popularity_E[rows],
            "V": front.mean_inverse_popularity_E[rows],
            "N_eff": front.effective_clients_E[rows],
        }
    )
    st.dataframe(
        table,
        key=selection.TABLE,
        on_select="rerun",
        selection_mode="single-row",
        hide_index=True,
        width="stretch",
        height=290,
        column_config={
            "VRAM": st.column_config.NumberColumn(format="percent", help="Share of all VRAM in use"),
            "Λ": st.column_config.NumberColumn(format="%.4g", help="Convergence bias, lower is better"),
            "blocks": st.column_config.NumberColumn(help="Activated blocks over all clients"),
            "min": st.column_config.NumberColumn(help="Clients on the least trained block"),
            "V": st.column_config.NumberColumn(format="%.4f", help="Mean of 1/popularity"),
            "N_eff": st.column_config.NumberColumn(format="%.1f", help="Effective clients"),
        },
        alt="The points of the Pareto front, least VRAM first. Select a row to select the point.",
    )
    where = np.flatnonzero(rows == point)
    st.caption(
        f"{len(rows)} points on the front, least VRAM first; "
        + (f"row {where[0] + 1} is selected." if where.size else "the selected point is not one of them.")
    )
    name = f"zorba-points-{study.scenario.model}"
    components.downloads(
        [
            Download(
                f"All {len(front)} points",
                f"{name}.csv",
                "text/csv",
                lambda: files.points_csv(study),
                "Every swept point as CSV, the front marked.",
            ),
            Download(
                "Fleet",
                "fleet.csv",
                "text/csv",
                lambda: study.fleet.to_frame().to_csv(index=False).encode(),
                "Client names and VRAM; the CSV upload in the sidebar reads it back.",
            ),
        ],
        key="front_files",
    )


def _allocation(study: Study, point: int, solution: Solution) -> None:
    allocation = solution.allocation
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.subheader("Who trains what", anchor=False, width="stretch")
        st.caption("Sort clients by", width="content")
        order = linked(
            st.segmented_control,
            "Sort clients by",
            list(ORDERS),
            required=True,
            format_func=ORDERS.get,
            key="sort",
            label_visibility="collapsed",
        )
    held_N = allocation.blocks_held_N
    st.markdown(_in_words(solution))
    _best_possible(study, point, solution)
    drawn = allocation_figure(
        allocation.A_MN,
        names=study.fleet.names,
        used_N_gib=study.used_N_gib(held_N),
        capacity_N_gib=study.fleet.capacity_N_gib,
        parameters_gib=study.parameters_gib,
        order_N=client_order(allocation.A_MN, study.fleet.capacity_N_gib, order),
        palette=components.palette(),
    )
    components.figure(
        drawn,
        key="allocation_plot",
        name="zorba-allocation",
        alt="Top: VRAM used by each client against its capacity. Middle: which of "
        f"{allocation.num_blocks} blocks each of {allocation.num_clients} clients trains. "
        "Right: how many clients train each block, from "
        f"{allocation.min_popularity} to {int(allocation.popularity_M.max())}.",
    )
    name = f"zorba-allocation-{study.scenario.model}-{point}"
    components.downloads(
        [
            Download(
                "Allocation (JSON)",
                f"{name}.json",
                "application/json",
                lambda: files.allocation_json(study, solution),
                "Block ids of each client, with the metrics and the scenario.",
            ),
            Download(
                "Matrix (NPZ)",
                f"{name}.npz",
                "application/octet-stream",
                lambda: files.allocation_npz(study, solution),
                "NumPy arrays: A_MN (blocks by clients), budget_N, capacity_N_bytes.",
            ),
        ],
        key="allocation_files",
    )


def _best_possible(study: Study, point: int, solution: Solution) -> None:
    """On request: the optimum for the same budgets, and what its smaller Lambda is paid with."""
    if solution.optimal:
        return
    asked = st.session_state.get("proof_of") == (study.scenario, point)
    if not asked:
        st.button(
            "How close is this to the best possible?",
            on_click=lambda: st.session_state.update(proof_of=(study.scenario, point)),
            icon=":material/verified:",
            help="Searches for the smallest Λ that these budgets allow and proves it, for a few seconds at most.",
        )
        return
    best, here = state.best_possible(study.scenario, point), solution.allocation
    there = best.allocation
    found = "The smallest possible Λ" if best.optimal else "The smallest Λ found in time"
    bound = "" if best.optimal else f" (none is below {best.lower_bound:.3g})"
    if there.bias_lambda >= here.bias_lambda * (1 - 1e-9):
        st.success(f"{found} within these budgets is the one shown{bound}.", icon=":material/verified:")
        return
    st.info(
        f"{found} within these budgets is **{there.bias_lambda:.3g}**{bound}, "
        f"{1 - there.bias_lambda / here.bias_lambda:.0%} below the one shown. "
        f"Its least trained block has {there.min_popularity} of the clients instead of {here.min_popularity}, "
        f"V is {there.mean_inverse_popularity:.3f} instead of {here.mean_inverse_popularity:.3f}, and "
        f"{there.effective_clients:.1f} clients count instead of {here.effective_clients:.1f}.",
        icon=":material/verified:",
    )


def _in_words(solution: Solution) -> str:
    allocation = solution.allocation
    least, most = allocation.min_popularity, int(allocation.popularity_M.max())
    spread = f"exactly {least}" if least == most else f"{least} to {most}"
    held_N = allocation.blocks_held_N
    held = f"{held_N.min()}" if held_N.min() == held_N.max() else f"{held_N.min()} to {held_N.max()}"
    bound = (
        "this matrix is proven optimal for Λ"
        if solution.optimal
        else f"no other matrix within these budgets has Λ below **{solution.lower_bound:.3g}** (this one has "
        f"{allocation.bias_lambda:.3g})"
    )
    return (
        f"Each block is trained by {spread} clients, and each client trains {held} blocks. The best possible least "
        f"popularity is **γ\\* = {solution.gamma_star}**; {bound}."
    )


page()
