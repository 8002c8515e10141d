"""Curves laid over each other: what is measured, against what, how smooth, and seeds as a mean with a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import plotly.graph_objects as go
import streamlit as st

from app import components
from app.links import linked, linked_number
from app.runs.names import groups, labels
from app.runs.records import Record
from zorba_core.errors import InvalidInputError
from zorba_core.plots import BANDS, COSTS, MEASURES, Curve, curve_of, curves_figure, group_of, smoothed, target_reached

MEASURE_LABELS = {"eval_accuracy": "Accuracy", "eval_loss": "Loss", "train_loss": "Training loss"}
COST_LABELS = {
    "round": "rounds",
    "work": "forward passes",
    "bytes": "bytes sent",
    "seconds": "seconds of training",
}
_BAND_LABELS = {"deviation": "± deviation", "interval": "95 % interval", "range": "least to most"}
_GROUPED = {"runs": "Every run", "seeds": "Seeds together"}


@dataclass(frozen=True, eq=False)
class Shown:
    """What is on the screen: curves, and the runs behind each."""

    curves: list[Curve]
    measure: str
    cost: str
    behind: dict[str, list[Record]]
    grouped: bool


def draw(chosen: Sequence[Record], baseline: Record | None) -> tuple[Shown, go.Figure] | None:
    """The toolbar and the figure; None when there is nothing to draw."""
    measure, cost, smoothing, grouped, band = _toolbar(chosen)
    drawn = list(chosen)
    if baseline is not None and baseline.name not in {record.name for record in drawn}:
        drawn.append(baseline)
    shown, untold = curves_to_show(drawn, measure, cost, smoothing, band if grouped else None)
    if untold:
        names = ", ".join(components.plain(name) for name in untold[:4])
        st.caption(f":material/info: No {MEASURE_LABELS[measure].lower()} against {COST_LABELS[cost]} told by {names}.")
    if not shown.curves:
        st.info("None of the chosen runs tells this. Choose another measure or cost.", icon=":material/search_off:")
        return None
    pinned = None
    if baseline is not None:
        pinned = next(name for name, runs in shown.behind.items() if baseline in runs)
    figure = curves_figure(
        shown.curves,
        measure=measure,
        cost=cost,
        targets=[target for record in drawn if isinstance(target := record.config.get("target"), float)],
        baseline=pinned,
        palette=components.palette(),
    )
    components.figure(
        figure,
        key="curves_plot",
        name="zorba-runs",
        alt=f"{MEASURES[measure]} against {COSTS[cost].lower()}: "
        + "; ".join(_in_words(name, runs) for name, runs in list(shown.behind.items())[:6]),
    )
    components.let_it_be_drawn(
        "curves", [(curve.name, curve.x_P.size, measure, cost, smoothing) for curve in shown.curves]
    )
    dirty = sum(record.environment.get("git_dirty") is True for record in drawn)
    if dirty:
        st.caption(
            f":material/edit_note: {dirty} of {len(drawn)} from a checkout with uncommitted changes; see Provenance."
        )
    if any(curve.runs > 1 for curve in shown.curves):
        st.caption(f"A line is the {BANDS[band]}; runs of a group differ in their seed alone.")
    return shown, figure


def curves_to_show(
    records: Sequence[Record], measure: str, cost: str, smoothing: float, band: str | None
) -> tuple[Shown, list[str]]:
    """Curves of single runs, or with ``band`` of groups of seeds; and who tells nothing to draw."""
    behind = groups(records) if band else {name: [record] for name, record in labels(records).items()}
    curves, untold = [], []
    for name, runs in behind.items():
        try:
            single = [curve_of(run, measure=measure, cost=cost) for run in runs]
            if not any(curve.x_P.size for curve in single):
                raise InvalidInputError("nothing to draw")
            one = group_of(name, single, band) if band else replace(single[0], name=name)
            curves.append(smoothed(one, smoothing))
        except InvalidInputError:
            untold.append(name)
    return Shown(curves, measure, cost, behind, band is not None), untold


def _toolbar(chosen: Sequence[Record]) -> tuple[str, str, float, bool, str]:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        measure = linked(
            st.segmented_control,
            "Measure",
            list(MEASURE_LABELS),
            required=True,
            format_func=MEASURE_LABELS.get,
            key="measure",
            label_visibility="collapsed",
        )
        cost = linked(
            st.selectbox,
            "Against",
            list(COST_LABELS),
            format_func=COST_LABELS.get,
            key="cost",
            width=165,
            help="Rounds are not equally dear: forward passes, bytes and seconds say what they cost. A backward pass "
            "counts as two forward passes.",
        )
        grouped = linked(
            st.segmented_control,
            "Curves",
            list(_GROUPED),
            required=True,
            format_func=_GROUPED.get,
            key="curves",
            help="Seeds together: runs that differ in their seed alone become a mean with a band.",
        )
        band = "deviation"
        if grouped == "seeds":
            band = linked(st.selectbox, "Band", list(BANDS), format_func=_BAND_LABELS.get, key="band", width=160)
        smoothing = linked_number(
            st.slider,
            "Smoothing",
            0,
            95,
            0,
            key="smoothing",
            step=5,
            format="%d%%",
            width=130,
            help="Weight of the past in an exponential moving average. The values as measured stay visible behind.",
        )
    return measure, cost, smoothing / 100, grouped == "seeds", band


def _in_words(name: str, runs: Sequence[Record]) -> str:
    if len(runs) > 1:
        return f"{name}, {len(runs)} runs"
    accuracy, reached = runs[0].evaluations["eval_accuracy"], target_reached(runs[0])
    if reached is not None:
        return f"{name} reached its target in round {int(reached['round'])}"
    return f"{name} at best {accuracy.max():.1%}" if len(accuracy) else f"{name} not evaluated yet"
