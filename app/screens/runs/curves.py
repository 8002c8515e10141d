"""Learning curves of the picked runs laid over each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from app.screens.runs.toolbar import COST_LABELS, CurvesAsked, measure_labels
from app.shared import components
from zorba_core.plots import COSTS, curves_figure, measure_title
from zorba_core.plots.runs import curve_looks
from zorba_core.study.comparison import BANDS, CurvePanel, Record, panel_of, target_reached


@dataclass(frozen=True, eq=False)
class DrawnCurves:
    """What is on the screen, for tables and files beside it."""

    panels: tuple[CurvePanel, ...]
    asked: CurvesAsked
    baseline: str | None  # name of its curve

    def figure(self) -> go.Figure:
        """On light paper."""
        return curves_figure(
            self.panels,
            baseline=self.baseline,
            log_cost=self.asked.log_cost,
            log_loss=self.asked.log_loss,
        )


def draw(asked: CurvesAsked, chosen: Sequence[Record], baseline: Record | None) -> DrawnCurves | None:
    """The figure; None when there is nothing to draw, after saying why."""
    records = with_baseline(chosen, baseline)
    panels = panels_of(asked, records)
    for panel in panels:
        _name_missing_curves(panel)
    shown = tuple(panel for panel in panels if panel.curves)
    if not shown:
        st.info("None of the chosen runs has this value. Choose another measure or cost.", icon=":material/search_off:")
        return None
    pinned = None
    if baseline is not None:
        pinned = next(name for name, runs in shown[0].behind.items() if baseline in runs)
    figure = curves_figure(
        shown, baseline=pinned, log_cost=asked.log_cost, log_loss=asked.log_loss, palette=components.palette()
    )
    measures = " and ".join(measure_title(panel.measure, panel.metric) for panel in shown)
    components.figure(
        figure,
        key="curves_plot",
        name="zorba-runs",
        alt=f"{measures} against {COSTS[asked.cost].lower()}: "
        + "; ".join(_in_words(name, runs) for name, runs in list(shown[0].behind.items())[:6]),
    )
    _notes(asked, records, shown)
    return DrawnCurves(shown, asked, pinned)


def swatches(drawn: DrawnCurves) -> dict[str, str]:
    """The colour of the curve that each run is drawn with, by the run's name."""
    looks = curve_looks(drawn.panels, drawn.baseline, components.palette())
    return {
        run.name: looks[name].color
        for panel in drawn.panels
        for name, runs in panel.behind.items()
        if name in looks
        for run in runs
    }


def with_baseline(chosen: Sequence[Record], baseline: Record | None) -> list[Record]:
    """The picked runs, and the pinned one though it is not picked."""
    if baseline is None or any(record.name == baseline.name for record in chosen):
        return list(chosen)
    return [*chosen, baseline]


def panels_of(asked: CurvesAsked, records: Sequence[Record]) -> list[CurvePanel]:
    return [
        panel_of(records, measure=measure, cost=asked.cost, smoothing=asked.smoothing, band=asked.band)
        for measure in asked.measures
    ]


def _name_missing_curves(panel: CurvePanel) -> None:
    if panel.without_curve:
        names = ", ".join(components.plain(name) for name in panel.without_curve[:4])
        more = f" and {len(panel.without_curve) - 4} more" if len(panel.without_curve) > 4 else ""
        st.caption(
            f":material/info: No {measure_labels(panel.metric)[panel.measure].lower()} against "
            f"{COST_LABELS[panel.cost]}: "
            f"missing for {names}{more}."
        )


def _notes(asked: CurvesAsked, records: Sequence[Record], shown: Sequence[CurvePanel]) -> None:
    dirty = sum(record.environment.get("git_dirty") is True for record in records)
    if dirty:
        st.caption(
            f":material/edit_note: {dirty} of {len(records)} from a checkout with uncommitted changes; see Provenance."
        )
    drawn = [curve for panel in shown for curve in panel.curves]
    if any(curve.runs > 1 for curve in drawn):
        held = any(curve.held_from is not None for curve in drawn)
        st.caption(
            f"A line is the {BANDS[asked.band]}, the thin ones its runs, which differ in their seed alone."
            + (" Where it goes on dotted, some runs have ended and count with their last value." if held else "")
        )


def _in_words(name: str, runs: Sequence[Record]) -> str:
    if len(runs) > 1:
        return f"{name}, {len(runs)} runs"
    accuracy, reached = runs[0].evaluations["eval_accuracy"], target_reached(runs[0])
    if reached is not None:
        return f"{name} reached its target in round {int(reached['round'])}"
    return f"{name} at best {accuracy.max():.1%}" if len(accuracy) else f"{name} not evaluated yet"
