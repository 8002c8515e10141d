"""Outcomes of all runs that pass the filters against what went into them; a click picks a dot's runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from app.screens.runs import choose
from app.screens.runs.toolbar import BAND_LABELS, OutcomesAsked
from app.shared import components, lambda_verdict
from zorba_core.plots import outcomes_figure
from zorba_core.study.comparison import Cloud, Record, cloud_of

_PLOT = "outcomes_plot"


@dataclass(frozen=True, eq=False)
class DrawnOutcomes:
    """What is on the screen, for files beside it."""

    cloud: Cloud
    asked: OutcomesAsked
    picked: tuple[str, ...]
    figure: go.Figure


def draw(
    asked: OutcomesAsked, records: Sequence[Record], chosen: Sequence[Record], source: str
) -> DrawnOutcomes | None:
    """The figure of the runs of ``source``; None when there is nothing to draw, after saying why."""
    cloud = cloud_of(records, x=asked.x, y=asked.y, kind=asked.kind, band=asked.band)
    if not cloud.dots:
        st.info("None of these runs has both values. Choose another outcome or axis.", icon=":material/search_off:")
        return None
    picked = tuple(record.name for record in chosen)
    figure = outcomes_figure(cloud, picked=picked, log_x=asked.log_x, log_y=asked.log_y, palette=components.palette())
    names = [record.name for record in records]
    components.figure(
        figure,
        key=_PLOT,
        name="zorba-outcomes",
        alt=f"{cloud.y_label} against {cloud.x_label}: {len(cloud.dots)} dots, {cloud.y_label.lower()} from "
        f"{min(dot.y for dot in cloud.dots):.4g} to {max(dot.y for dot in cloud.dots):.4g}.",
        select=lambda: _take_over(source, names),
    )
    components.let_it_be_drawn("outcomes", (asked, picked, len(cloud.dots)))
    st.caption(_in_words(cloud, asked))
    lambda_verdict.say()
    return DrawnOutcomes(cloud, asked, picked, figure)


def _in_words(cloud: Cloud, asked: OutcomesAsked) -> str:
    words = "Each dot is a group of seeds" if asked.band else "Each dot is a run"
    if any(dot.y_bounds for dot in cloud.dots):
        words += f", at its mean with bars for {BAND_LABELS[asked.band]}"
    words += "; all that pass the filters are drawn. Click one to pick it in the table."
    if asked.band and asked.y == "to_target":
        words += " A group's mean is over those of its seeds that reached the target."
    if cloud.without_numbers:
        count = len(cloud.without_numbers)
        what = "never reached their target" if asked.y == "to_target" else "lack one of the two values"
        words += f" {count} of {count + len(cloud.dots)} {what}: not drawn."
    return words


def _take_over(source: str, names: Sequence[str]) -> None:
    """A click: pick the runs behind the dot (the figure's callback)."""
    points = st.session_state[_PLOT].selection.points
    clicked = {name for point in points for name in _names(point.get("customdata"))}
    if clicked & set(names):
        choose.pick_by_name(source, names, clicked)


def _names(data: object) -> list[str]:
    """Plotly gives a list back as a list or, at times, as an object with its places for names."""
    values = data.values() if isinstance(data, dict) else data if isinstance(data, list | tuple) else [data]
    return [value for value in values if isinstance(value, str)]
