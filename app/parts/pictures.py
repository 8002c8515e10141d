"""Figures for the pages and for downloads."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from app.parts import fleets, ui
from app.scenario import Scenario, method_titles, of_link
from zorba_core.allocation import Allocation, Problem, solve
from zorba_core.plots.allocation import allocation_figure, client_order
from zorba_core.plots.front import FLEET_STYLES, METHOD_STYLES, OTHER_LOOK, Stairs, stairs_figure
from zorba_core.plots.theme import Palette

_POINTS = 60  # of a curve


def plain_matrix(allocation: Allocation, height: int = 240) -> go.Figure:
    """The matrix without VRAM, clients with most blocks first."""
    order_N = client_order(allocation.A_MN)
    return allocation_figure(allocation.A_MN, order_N=order_N, palette=ui.palette(), height=height)


def front(scenario: Scenario, *, palette: Palette, height: int) -> go.Figure:
    """Λ against VRAM: the curves of the page, the kept fleets' and the point, with the cells changed by hand.

    Raises:
        InfeasibleError: the fleet or the method has no allocation.
    """
    study, _, allocation = fleets.planned(scenario)
    titles, curves = method_titles(), []
    for name in ("bound", "balanced", "two-level", *(("paper",) if scenario.follow == "paper" else ())):
        strong, title = name == scenario.follow, titles.get(name, "No allocation is below")
        look = METHOD_STYLES.get(name, OTHER_LOOK)
        curves.append(_stairs(study, name, title, look, strong=strong))
    for item in scenario.compared:
        slot, title, link = item.split("|", 2)
        kept = fleets.study(of_link(link).fleet)
        if not kept.problem and slot in "0123":
            curves.append(_stairs(kept, "balanced", title, FLEET_STYLES[int(slot)]))
    clients, blocks = len(study.gib_N), study.needs.num_blocks
    name = f"{titles[scenario.follow]}{', changed by hand' if scenario.flips else ''}"
    return stairs_figure(
        curves,
        chosen=(study.used_gib(allocation), allocation.bias_lambda, f"{name}: Λ {allocation.bias_lambda:.3g}"),
        lambda_range=(0.8 / clients, 1.5 * clients / max(1, clients // blocks) ** 2),
        palette=palette,
        height=height,
    )


def _stairs(study: fleets.Study, method: str, title: str, look: tuple[int, str], strong: bool = False) -> Stairs:
    if method == "paper":
        curve = study.ask_curve().result()
        totals, values = curve.blocks_P, curve.lambda_P
    else:
        totals = np.unique(np.linspace(study.least, study.most, _POINTS).round().astype(int))
        values = np.array([_lambda(study, method, int(total)) for total in totals])
    return Stairs(title, study.gib(0) + totals * study.needs.block_gib, values, look, method == "bound", strong)


def _lambda(study: fleets.Study, method: str, total: int) -> float:
    if method == "bound":
        return study.bound(total)
    return solve(Problem(study.budget_N, study.needs.num_blocks, total), method).value
