"""What the curves of the Runs page show, and along which axes. Every choice is in the address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from app.shared.components import capitalised
from app.shared.links import linked, linked_many, linked_number
from zorba_core.study.comparison import BANDS, Record, metrics_of

_MEASURES = ("eval_accuracy", "eval_loss", "train_loss")
COST_LABELS = {
    "round": "rounds",
    "work": "forward passes",
    "bytes": "bytes sent",
    "seconds": "seconds of training",
}
BAND_LABELS = {"deviation": "± deviation", "interval": "95 % interval", "range": "least to most"}
_GROUPED = {"runs": "Each", "seeds": "Seeds together"}
_LOG_HELP = "Logarithmic axes. On an axis of cost they leave out what cost nothing yet."
_SEEDS_HELP = "Seeds together: runs that differ in their seed alone become a mean with a band."


@dataclass(frozen=True)
class CurvesAsked:
    """Curves along ``measures`` against ``cost``; ``band`` is None where every run is drawn."""

    measures: tuple[str, ...]
    cost: str
    smoothing: float
    band: str | None
    log_cost: bool
    log_loss: bool


def measure_labels(metric: str) -> dict[str, str]:
    """What the curves can show, of runs that count this as right."""
    return dict(zip(_MEASURES, (capitalised(metric), "Loss", "Train loss"), strict=True))


def ask(records: Sequence[Record]) -> CurvesAsked:
    """The row of controls. ``records``: the runs that pass the filters."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="controls_of_runs"):
        measures = linked_many(
            st.segmented_control,
            "Measure",
            measure_labels(metrics_of(records)),
            ["eval_accuracy"],
            selection_mode="multi",
            key="measure",
            help="Several lie over each other, with one axis of cost.",
        )
        cost = linked(
            st.selectbox,
            "Against",
            COST_LABELS,
            key="cost",
            width=155,
            help="Rounds are not equally expensive: forward passes, bytes and seconds say what they cost. A backward "
            "pass counts as two forward passes.",
        )
        grouped = linked(st.segmented_control, "Runs", _GROUPED, required=True, key="curves", help=_SEEDS_HELP)
        # What is changed less often: one row of controls leaves the picture its place.
        with st.popover("Axes", icon=":material/tune:", help="Logarithmic axes, bands and smoothing."):
            band = None
            if grouped == "seeds":
                band = linked(st.selectbox, "Band", {band: BAND_LABELS[band] for band in BANDS}, key="band")
            logs = linked_many(
                st.segmented_control,
                "Logarithmic",
                {"cost": "cost", "loss": "loss"},
                [],
                selection_mode="multi",
                key="log_curves",
                help=_LOG_HELP,
            )
            smoothing = linked_number(
                st.slider,
                "Smoothing",
                0,
                95,
                0,
                key="smoothing",
                step=5,
                format="%d%%",
                help="Weight of the past in an exponential moving average. The values as measured stay visible behind.",
            )
    return CurvesAsked(
        tuple(measures) or ("eval_accuracy",), cost, smoothing / 100, band, "cost" in logs, "loss" in logs
    )
