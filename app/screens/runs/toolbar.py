"""What the picture of the Runs page is of: curves or outcomes, and along which axes. Every choice is in the address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.shared.components import capitalised
from app.shared.links import linked, linked_many, linked_number
from zorba_core.study.comparison import BANDS, OUTCOMES, Record, axes_of, kinds_of, metrics_of

_MEASURES = ("eval_accuracy", "eval_loss", "train_loss")
COST_LABELS = {
    "round": "rounds",
    "work": "forward passes",
    "bytes": "bytes sent",
    "seconds": "seconds of training",
}
_VIEWS = {"curves": "Curves", "target": "Cost to target", "outcomes": "Outcomes"}
BAND_LABELS = {"deviation": "± deviation", "interval": "95 % interval", "range": "least to most"}
_GROUPED = {"runs": "Each", "seeds": "Seeds together"}
_NO_KIND = "one"
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


@dataclass(frozen=True)
class OutcomesAsked:
    """Outcome ``y`` against ``x``, coloured by ``kind``."""

    x: str
    y: str
    kind: str | None
    band: str | None
    log_x: bool
    log_y: bool


@dataclass(frozen=True)
class TargetAsked:
    """What reaching the target cost, by groups of seeds or single runs."""

    cost: str
    grouped: bool
    log_cost: bool


def measure_labels(metric: str) -> dict[str, str]:
    """What the curves can show, of runs that count this as right."""
    return dict(zip(_MEASURES, (capitalised(metric), "Loss", "Train loss"), strict=True))


def ask(records: Sequence[Record]) -> CurvesAsked | OutcomesAsked | TargetAsked:
    """The row of controls. ``records``: the runs that pass the filters; their values decide which axes are offered."""
    axes = axes_of(records)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="controls_of_runs"):
        view = "curves"
        if axes:
            view = linked(
                st.segmented_control,
                "Picture",
                _VIEWS,
                required=True,
                key="picture",
                help="Curves: how the picked runs learned. Outcomes: what came out of all of them against what went "
                "in, such as accuracy against Λ. Cost to target: what reaching the target took, with the runs that "
                "never did.",
            )
        if view == "target":
            return _target()
        return _outcomes(records, axes) if view == "outcomes" else _curves(metrics_of(records))


def _curves(metric: str) -> CurvesAsked:
    labels = measure_labels(metric)
    measures = linked_many(
        st.segmented_control,
        "Measure",
        labels,
        ["eval_accuracy"],
        selection_mode="multi",
        key="measure",
        help="Several lie over each other, with one axis of cost.",
    )
    cost = _cost()
    grouped = _grouped()
    with _more():
        band = _band(grouped)
        logs = _logarithmic({"cost": "cost", "loss": "loss"}, "log_curves")
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


def _target() -> TargetAsked:
    cost = _cost()
    grouped = _grouped()
    with _more():
        logs = _logarithmic({"cost": "cost"}, "log_target")
    return TargetAsked(cost, grouped, "cost" in logs)


def _outcomes(records: Sequence[Record], axes: dict[str, str]) -> OutcomesAsked:
    outcomes = {name: label.replace("accuracy", metrics_of(records)) for name, label in OUTCOMES.items()}
    y = linked(st.selectbox, "What came out", outcomes, key="outcome", width=200)
    x = linked(st.selectbox, "Against", axes, key="along", width=200)
    grouped = _grouped()
    kinds = kinds_of(records)
    kind = _NO_KIND
    with _more():
        if kinds:
            labels = {key: key.rpartition(".")[2] for key in kinds} | {_NO_KIND: "nothing"}
            kind = linked(st.selectbox, "Coloured by", labels, key="kind")
        band = _band(grouped)
        logs = _logarithmic({"x": "x", "y": "y"}, "log_outcomes")
    return OutcomesAsked(x, y, None if kind == _NO_KIND else kind, band, "x" in logs, "y" in logs)


def _cost() -> str:
    return linked(
        st.selectbox,
        "Against",
        COST_LABELS,
        key="cost",
        width=155,
        help="Rounds are not equally expensive: forward passes, bytes and seconds say what they cost. A backward pass "
        "counts as two forward passes.",
    )


def _grouped() -> bool:
    chosen = linked(
        st.segmented_control,
        "Runs",
        _GROUPED,
        required=True,
        key="curves",
        help=_SEEDS_HELP,
    )
    return chosen == "seeds"


def _band(grouped: bool) -> str | None:
    if not grouped:
        return None
    return linked(st.selectbox, "Band", {band: BAND_LABELS[band] for band in BANDS}, key="band")


def _more() -> DeltaGenerator:
    """What is changed less often: one row of controls leaves the picture its place."""
    return st.popover("Axes", icon=":material/tune:", help="Logarithmic axes, bands and smoothing.")


def _logarithmic(options: dict[str, str], key: str) -> list[str]:
    return linked_many(
        st.segmented_control,
        "Logarithmic",
        options,
        [],
        selection_mode="multi",
        key=key,
        help=_LOG_HELP,
    )
