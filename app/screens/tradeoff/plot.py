"""The plot of the Trade-off page: which axes, which methods, which landmarks.

Shapes: E points of a sweep, H numbers shown on hover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import plotly.graph_objects as go
import streamlit as st
from numpy.typing import NDArray

from app.shared import components, selection, state
from app.shared.links import choice, linked, linked_many, linked_switch, several, switched
from app.shared.study import Study
from app.shared.tradeoff import COSTS, EXTRAS, MEASURES, View, baselines, bound, paper_scenarios
from zorba_core.allocation import SOLVERS
from zorba_core.errors import ZorbaError
from zorba_core.plots import Axis, Mark, Points, tradeoff_figure
from zorba_core.plots.tradeoff import shared_points

_MENTIONED = 0.5  # share of common points from which on it is said
_HOVER = (
    "<b>%{customdata[2]:.1%} of VRAM, Λ = %{customdata[3]:.4g}</b><br>"
    "activated blocks %{customdata[4]}<br>"
    "clients on the least trained block %{customdata[5]}<br>"
    "V = %{customdata[6]:.4f} · N<sub>eff</sub> = %{customdata[7]:.1f}"
)


@dataclass(frozen=True)
class Axes:
    log: bool
    shown: tuple[str, ...]  # methods and extras beside the sidebar's solver


def chosen(study: Study) -> Axes:
    """What :func:`controls` will say, before they are drawn."""
    measure = MEASURES[choice("y", list(MEASURES))]
    return Axes(switched("log", True) and measure.log, tuple(several("show", _extras(study), list(EXTRAS))))


def _extras(study: Study) -> list[str]:
    return [*EXTRAS, *(name for name in SOLVERS if name != study.scenario.solver)]


def controls(study: Study) -> Axes:
    """What to draw. The axes themselves are remembered where every page finds them."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        measure = linked(
            st.selectbox,
            "What it buys",
            list(MEASURES),
            format_func=lambda name: MEASURES[name].label,
            key="y",
            help="The vertical axis. "
            + " ".join(f"**{measure.label}**: {measure.help}" for measure in MEASURES.values()),
        )
        linked(
            st.selectbox,
            "What it costs",
            list(COSTS),
            format_func=lambda name: COSTS[name].label,
            key="x",
            help="The horizontal axis. VRAM is by the paper's model.",
        )
        log = linked_switch("Log", True, key="log", help="Logarithmic vertical axis, for measures that it suits.")
    shown = linked_many(
        st.pills,
        "Also show",
        _extras(study),
        list(EXTRAS),
        key="show",
        selection_mode="multi",
        format_func=lambda name: EXTRAS.get(name) or SOLVERS[name].title,
        help="*Lower bound*: no allocation of this fleet lies below it. *SC1 to SC3*: the paper's scenarios as "
        "printed. *Full activation*: FedZO, DeComFL and FedIT train every block on every client, drawn where "
        "this fleet can. The other methods "
        "solve the same scenario (exact takes 0.1 s a point at N=50, the paper's method 10 ms); a click on one "
        "of their points goes over to that method.",
    )
    return Axes(log and MEASURES[measure].log, tuple(shown))


def figure(view: View, point: int, recommended: int, axes: Axes) -> go.Figure:
    """Draw everything that is selected in one picture, and return it."""
    study, measure, cost = view.study, MEASURES[view.measure], COSTS[view.cost]
    others = [other for name in SOLVERS if name in axes.shown and (other := _other_method(view, name)) is not None]
    own, beside = _points(view), [_points(other) for other in others]
    drawn = tradeoff_figure(
        own,
        Axis(cost.axis, ".0%" if view.cost == "ratio" else ","),
        Axis(measure.axis, log=axes.log),
        others=beside,
        bound=bound(study, view.cost, view.measure) if "bound" in axes.shown else None,
        marks=_marks(view, point, recommended, axes),
        stepped=view.decided_by == view.measure,
        palette=components.palette(),
        height=430,
    )
    drawn.update_layout(uirevision=hash((study.scenario, view.cost, view.measure, axes.log)))
    components.figure(
        drawn,
        key=selection.plot_key(),
        select=selection.plot_clicked,
        name="zorba-trade-off",
        alt=f"Scatter plot of {measure.label} against {cost.label.lower()} for {len(study.front)} points. The front "
        f"has {len(view.order_F)} points; the selected one uses {study.front.vram_ratio_E[point]:.0%} of the VRAM at "
        f"{measure.label} {view.y_E[point]:{measure.format}}. The table below lists the front.",
    )
    st.caption(_caption(view) + coinciding([own, *beside]))
    return drawn


def coinciding(fronts: Sequence[Points]) -> str:
    """Which fronts lie on each other, so that one is hardly seen; empty where none do."""
    sentences = []
    for number, second in enumerate(fronts):
        for first in fronts[:number]:
            common, back = shared_points(first, second), shared_points(second, first)
            if min(common, back) == 1:
                sentences.append(f"**{first.name} and {second.name} coincide**: they have the same points.")
            elif max(common, back) >= _MENTIONED:
                inner, outer = (second, first) if common >= back else (first, second)
                sentences.append(f"{max(common, back):.0%} of the points of {inner.name} lie on {outer.name}.")
    return "".join(f" {sentence}" for sentence in sentences)


def _caption(view: View) -> str:
    picture = "Click a point to select it. Grey points cost more VRAM or more bias than the front."
    if view.decided_by == view.measure:
        return picture
    return (
        f"{picture} VRAM does not buy this measure ({MEASURES[view.measure].label.lower()}), so there is "
        "nothing to trade: the line follows the front of Λ, and shows what choosing by Λ does to it."
    )


def _other_method(view: View, solver: str) -> View | None:
    if solver == view.study.scenario.solver:
        return None
    try:
        return replace(view, study=state.solved(view.study.scenario.replace(solver=solver)))
    except ZorbaError as error:
        st.caption(f":material/warning: {SOLVERS[solver].title} is not shown: {components.plain(str(error))}.")
        return None


def _points(view: View) -> Points:
    return Points(
        view.study.scenario.solved_by.title,
        view.x_E,
        view.y_E,
        view.order_F,
        _customdata(view.study),
        _HOVER,
    )


def _customdata(study: Study) -> NDArray[np.float64]:
    """(E, H): index, number of the solver, VRAM ratio, Lambda, activated blocks, least popularity, V, N_eff."""
    front = study.front
    return np.column_stack(
        (
            np.arange(len(front)),
            np.full(len(front), list(SOLVERS).index(study.scenario.solver)),
            front.vram_ratio_E,
            front.bias_lambda_E,
            front.total_blocks_E,
            front.min_popularity_E,
            front.mean_inverse_popularity_E,
            front.effective_clients_E,
        )
    )


def _marks(view: View, point: int, recommended: int, axes: Axes) -> list[Mark]:
    marks = []
    if "paper" in axes.shown:
        marks += [
            Mark("paper", mark.name, mark.x, mark.y, mark.help)
            for mark in paper_scenarios(view.study, view.cost, view.measure)
        ]
    if "baselines" in axes.shown:
        for mark in baselines(view.study, view.cost, view.measure):
            value = f"{mark.x:.0%}" if view.cost == "ratio" else f"{mark.x:,.0f}"
            marks.append(Mark("baseline", mark.name, mark.x, mark.y, value))
    solver = list(SOLVERS).index(view.study.scenario.solver)

    def at(kind: str, name: str, index: int) -> Mark:
        words = f"{name}: {view.study.front.vram_ratio_E[index]:.1%} of VRAM, {view.y_E[index]:.4g}"
        return Mark(kind, name, float(view.x_E[index]), float(view.y_E[index]), words, (index, solver))

    if recommended != point:
        marks.append(at("recommended", "recommended", recommended))
    marks.append(at("selected", "selected", point))
    return marks
