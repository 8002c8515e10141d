"""Why no matrix does better than gamma*: the cut of the flow network, drawn and in words.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import streamlit as st

from app.shared import components, state
from app.shared.components import Number
from app.shared.scenario import SCALED_KINDS, Scenario
from app.shared.study import Study
from zorba_core.allocation import GammaCertificate, gamma_certificate
from zorba_core.plots.flow import client_groups, cut_figure


@st.cache_resource(max_entries=32, show_spinner="Finding the minimum cut …", show_time=True)
def _certificate(scenario: Scenario, point: int) -> GammaCertificate:
    problem = state.solved(scenario).front.problem(point)
    return gamma_certificate(problem.usable_N, problem.num_blocks)


def show(study: Study, point: int) -> None:
    budget_N, num_blocks = study.front.problem(point).usable_N, study.front.num_blocks
    certificate = _certificate(study.scenario, point)
    short = certificate.demand - certificate.capacity
    gamma = certificate.gamma_star
    st.markdown(
        f"**γ\\* = {gamma}** is the largest number of clients that *every* block can have within these budgets. Could "
        f"it be {gamma + 1}? Then blocks would ask for {gamma + 1} clients each. A flow from the clients' budgets to "
        "the blocks shows that it cannot: the dashed arcs below are full, whatever one does."
    )
    components.numbers(
        [
            Number(
                "γ*, Theorem 4",
                f"{gamma}",
                r"$\gamma_* = \left\lfloor \frac{1}{M} \sum_n \min(\lambda_n, M) \right\rfloor$, with whole-block "
                r"budgets $\lambda_n$.",
                f"⌊{int(budget_N.sum())} / {num_blocks}⌋",
            ),
            Number(
                "Asked for",
                f"{certificate.demand}",
                f"{gamma + 1} clients for each of the {len(certificate.blocks)} blocks behind the cut.",
                f"{len(certificate.blocks)} blocks × {gamma + 1}",
            ),
            Number(
                "The cut lets through",
                f"{certificate.capacity}",
                "The most that can flow into those blocks: the capacities of the dashed arcs, added up.",
            ),
            Number("Missing", f"{short}", "Places that budgets would have to gain before γ* can rise by one."),
        ]
    )
    components.figure(
        cut_figure(budget_N, num_blocks, certificate, palette=components.palette()),
        key="cut_plot",
        name="zorba-gamma-cut",
        alt=f"Flow network from {len(budget_N)} clients, grouped by budget, to {num_blocks} blocks. The cut lets "
        f"{certificate.capacity} through where {certificate.demand} are asked for.",
    )
    st.markdown(_bottleneck(study, point, certificate))
    st.latex(
        r"\sum_{n \notin \mathcal{O}} \lambda_n + |\mathcal{O}|\,|\mathcal{B}| = "
        rf"{certificate.capacity} \;<\; (\gamma_* + 1)\,|\mathcal{{B}}| = {gamma + 1} \times {len(certificate.blocks)} "
        rf"= {certificate.demand}"
    )
    st.caption(
        "𝓑: the blocks behind the cut. 𝓞: clients whose budget exceeds what 𝓑 can take; they count once per block."
    )


def _bottleneck(study: Study, point: int, certificate: GammaCertificate) -> str:
    budget_N = study.front.problem(point).usable_N
    short = certificate.demand - certificate.capacity
    groups = [group for group in client_groups(budget_N, certificate) if not group.open]
    closed = sum(len(group.clients) for group in groups)
    blocks = "all blocks" if len(certificate.blocks) == study.front.num_blocks else f"blocks {certificate.blocks}"
    opened = len(certificate.open_clients)
    others = (
        f" {opened} client{'s' if opened > 1 else ''} could hold more than that, but can train each block only once."
        if opened
        else ""
    )
    ones = next((len(group.clients) for group in groups if group.budget == 1), 0)
    where = (
        f" {ones} client{' holds' if ones == 1 else 's hold'} one block only: a shorter L, a smaller B or half "
        "precision would make room for a second."
        if ones and study.scenario.fleet_kind not in SCALED_KINDS  # whose VRAM shrinks with what a block needs
        else ""
    )
    return (
        f"**The bottleneck is the budgets of {closed} client{'s' if closed > 1 else ''}** in front of {blocks}."
        f"{others} γ\\* rises to {certificate.gamma_star + 1} as soon as budgets grow by **{short} block"
        f"{'s' if short > 1 else ''}** in all, and not before.{where}"
    )
