"""Figures that several pages show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from app.parts import fleets, ui
from app.parts.shape import ComparedFleet
from app.scenario import Scenario
from zorba_core.allocation import PAPER_SCENARIOS, Allocation
from zorba_core.plots.allocation import allocation_figure, client_order
from zorba_core.plots.front import FLEET_STYLES, METHOD_STYLES, OTHER_LOOK, Stairs, stairs_figure
from zorba_core.plots.theme import Palette


def matrix(study: fleets.Study, allocation: Allocation, **arguments: Any) -> go.Figure:
    """The matrix under the clients' VRAM, largest first."""
    need = study.needs
    return allocation_figure(
        allocation.A_MN,
        used_N_gib=need.model_gib + allocation.blocks_held_N * need.block_gib,
        capacity_N_gib=study.gib_N,
        parameters_gib=need.model_gib,
        order_N=study.order_N,
        palette=ui.palette(),
        **arguments,
    )


def plain_matrix(allocation: Allocation, height: int = 240) -> go.Figure:
    """The matrix without VRAM, clients with most blocks first."""
    order_N = client_order(allocation.A_MN)
    return allocation_figure(allocation.A_MN, order_N=order_N, palette=ui.palette(), height=height)


def front(
    scenario: Scenario,
    study: fleets.Study,
    compared: Sequence[ComparedFleet],
    *,
    palette: Palette,
    height: int,
    point: int | None = None,
) -> go.Figure:
    """Λ against VRAM: this fleet by the chosen methods, and the fleets kept for comparison by the paper's."""
    curves, titles = [], fleets.methods()
    shown = [name for name in titles if name in {*scenario.methods, scenario.follow}]
    for method in sorted(shown, key=lambda name: name == scenario.follow):
        name = f"{titles[method]}, this fleet" if compared and method == "paper" else titles[method]
        curves.append(
            _stairs(name, study, method, look=METHOD_STYLES.get(method, OTHER_LOOK), strong=method == scenario.follow)
        )
    # On top, since the curves of different fleets nearly coincide.
    curves += [_stairs(each.name, each.study, "paper", look=FLEET_STYLES[each.slot]) for each in compared]
    chosen = None
    if point is not None:
        followed = study.curve(scenario.follow)
        chosen = float(followed.gib_P[point]), float(followed.lambda_P[point])
    sizes = [(len(other.gib_N), other.needs.num_blocks) for other in [study, *(each.study for each in compared)]]
    return stairs_figure(
        curves,
        chosen=chosen,
        references=_references(scenario, study),
        lambda_range=(
            min(0.8 / clients for clients, _ in sizes),
            max(1.5 * clients / max(1, clients // blocks) ** 2 for clients, blocks in sizes),
        ),
        share=scenario.unit == "%",
        palette=palette,
        height=height,
    )


def has_references(scenario: Scenario) -> bool:
    """Whether the paper's three scenarios are for this fleet."""
    paper = Scenario()
    names = ("model", "clients", "batch", "length", "precision")
    return scenario.is_paper and all(getattr(scenario, name) == getattr(paper, name) for name in names)


def _references(scenario: Scenario, study: fleets.Study) -> dict[str, tuple[float, float]] | None:
    if not has_references(scenario):
        return None
    return {name: (share * study.total_gib, value) for name, (share, value) in PAPER_SCENARIOS.items()}


def _stairs(name: str, study: fleets.Study, method: str, *, look: tuple[int, str], strong: bool = False) -> Stairs:
    curve = study.curve(method)
    points = (curve.gib_P, curve.lambda_P, curve.least_P, study.total_gib)
    bound_P = curve.bound_P if method == "exact" else None
    return Stairs(name, *points, look, is_bound=method == "bound", strong=strong, bound_P=bound_P)
