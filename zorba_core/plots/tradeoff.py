"""Cost against benefit: the swept points, several methods' fronts, a bound, and labelled points, along any two axes.

Shapes: E points of a sweep, F points of a front, T totals of a bound, H numbers shown on hover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.plots.front import dominated_look, dominated_once, front_look, log_axis, never_dimmed
from zorba_core.plots.theme import DASHES, LIGHT, SYMBOLS, Palette, styled

_MARGIN = {"l": 66, "r": 16, "t": 12, "b": 12}
_LEGEND = {"orientation": "h", "x": 0, "y": -0.17, "yanchor": "top", "itemclick": False, "itemdoubleclick": False}
# Landmarks further right than this share of the points' range are shown at the edge, with an arrow and their value.
_ROOM = 0.12
# A front of so few points is a sample: stairs between them would claim what nobody has looked at.
_SPARSE = 40
_COINCIDE = 0.5  # share of common points from which on a front hides another


@dataclass(frozen=True)
class Axis:
    """What an axis shows. ``unit_format`` is d3's."""

    title: str
    unit_format: str = ""
    log: bool = False


@dataclass(frozen=True, eq=False)
class Points:
    """One method's points. ``customdata_EH`` begins with the point's index and the method's number, so that a click can
    be traced back; ``hover`` is plotly's template for it."""

    name: str
    x_E: NDArray[np.float64]
    y_E: NDArray[np.float64]
    front_F: NDArray[np.int64]  # indices, rising x
    customdata_EH: NDArray[np.float64]
    hover: str


@dataclass(frozen=True)
class Mark:
    """A labelled point. ``kind`` decides its shape and colour: selected, recommended, paper or baseline."""

    kind: str
    name: str
    x: float
    y: float
    hover: str = ""
    customdata: tuple[float, ...] = ()


_MARKERS = {
    "selected": ("diamond", 17),
    "recommended": ("star", 17),
    "paper": ("x-thin", 10),
    "baseline": ("triangle-up", 12),
}


def tradeoff_figure(
    points: Points,
    x_axis: Axis,
    y_axis: Axis,
    *,
    others: Sequence[Points] = (),
    bound: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    marks: Sequence[Mark] = (),
    stepped: bool = True,
    palette: Palette = LIGHT,
    height: int = 480,
) -> go.Figure:
    """``points`` with its front and its dominated points, the fronts of ``others``, and what lies around.

    ``bound`` is (x_T, y_T): nothing can lie below it. ``stepped`` draws the front as stairs, which is what a front is;
    without it the points are joined as they come.
    """
    x_range, beyond = _x_range(points, others, marks)
    y_shown = np.concatenate(
        [points.y_E[points.front_F], *(other.y_E[other.front_F] for other in others), [mark.y for mark in marks]]
    )
    layout = {
        "margin": _MARGIN,
        "legend": _LEGEND,
        "clickmode": "event+select",
        "dragmode": "pan",
        "hovermode": "closest",
        "xaxis": {
            "title": {"text": x_axis.title},
            "tickformat": x_axis.unit_format,
            "automargin": False,
            "range": x_range,
        },
        "yaxis": _y_axis(y_axis, y_shown, points.y_E),
    }
    traces = [_dominated(points, palette), _front(points, palette, stepped)]
    for number, other in enumerate(others):
        hidden = any(shared_points(before, other) >= _COINCIDE for before in (points, *others[:number]))
        traces.append(_other(other, number, palette, stepped, ring=hidden))
    traces += [] if bound is None else [_bound(bound, palette)]
    traces += _marks(marks, beyond, x_range[1], palette)
    return styled(traces, palette, height=height, layout=layout)


def _x_range(points: Points, others: Sequence[Points], marks: Sequence[Mark]) -> tuple[list[float], float]:
    """The range, and from where on a landmark is beyond it."""
    shown = np.concatenate([points.x_E[~np.isnan(points.y_E)], *(other.x_E[other.front_F] for other in others)])
    near = [mark.x for mark in marks if mark.kind == "paper"]
    low, high = min([shown.min(), *near]), max([shown.max(), *near])
    width = max(high - low, 1e-9 + 0.05 * abs(high))
    beyond = high + _ROOM * width
    high = max([high, *(mark.x for mark in marks if mark.kind == "baseline" and mark.x <= beyond)])
    return [float(low - 0.04 * width), float(high + 0.06 * width)], float(beyond)


def _y_axis(axis: Axis, shown: NDArray[np.float64], swept_E: NDArray[np.float64]) -> dict[str, Any]:
    title = {"title": {"text": axis.title}, "automargin": False}
    if axis.log and shown.size and shown.min() > 0:
        return {**title, **log_axis(shown)}
    swept = swept_E[~np.isnan(swept_E)]
    high = float(np.concatenate((shown, swept)).max())
    return {**title, "range": [-0.02 * high, 1.08 * high], "tickformat": axis.unit_format}


def _bound(bound: tuple[NDArray[np.float64], NDArray[np.float64]], palette: Palette) -> go.Scatter:
    return go.Scatter(
        x=bound[0],
        y=bound[1],
        mode="lines",
        fill="tozeroy",
        fillcolor=palette.faint,
        # Between two totals the bound is at least the next one's; a straight line would claim more.
        line={"width": 1.5, "color": palette.quiet, "dash": "dot", "shape": "vh"},
        name="out of reach",
        hoverinfo="skip",
    )


def _dominated(points: Points, palette: Palette) -> go.Scatter:
    chosen = dominated_once(points.x_E, points.y_E, points.front_F)
    return go.Scatter(
        x=points.x_E[chosen],
        y=points.y_E[chosen],
        customdata=points.customdata_EH[chosen],
        name="dominated",
        hovertemplate=points.hover + "<extra>dominated</extra>",
        **dominated_look(palette),
    )


def _front(points: Points, palette: Palette, stepped: bool) -> go.Scatter:
    return go.Scatter(
        x=points.x_E[points.front_F],
        y=points.y_E[points.front_F],
        customdata=points.customdata_EH[points.front_F],
        name=points.name,
        hovertemplate=points.hover + f"<extra>{points.name}</extra>",
        **front_look(len(points.front_F), palette, "hv" if stepped else "linear"),
    )


def shared_points(first: Points, second: Points) -> float:
    """How large a share of the second's front lies on points of the first's."""
    if not len(first.front_F) or not len(second.front_F):
        return 0.0
    here, there = (
        np.column_stack((np.round(front.x_E[front.front_F], 6), np.round(np.log(np.abs(front.y_E[front.front_F])), 6)))
        for front in (first, second)
    )
    spots = set(map(tuple, here.tolist()))
    return sum(tuple(spot) in spots for spot in there.tolist()) / len(there)


def _other(points: Points, number: int, palette: Palette, stepped: bool, *, ring: bool = False) -> go.Scatter:
    """A second method's front: a colour, a dash and a marker of its own, and never more markers than one can tell;
    rings where it lies on another's points, so that both are seen."""
    color = palette.series[1 + number % (len(palette.series) - 1)]
    count = len(points.front_F)
    return go.Scatter(
        x=points.x_E[points.front_F],
        y=points.y_E[points.front_F],
        customdata=points.customdata_EH[points.front_F],
        mode="lines+markers",
        name=points.name,
        line={
            "color": color,
            "width": 2,
            "shape": "hv" if stepped and count > _SPARSE else "linear",
            "dash": DASHES[1 + number % (len(DASHES) - 1)],
        },
        marker={
            "symbol": SYMBOLS[1 + number % (len(SYMBOLS) - 1)] + ("-open" if ring else ""),
            "size": (8 if count <= _SPARSE else 5) + (4 if ring else 0),
            "color": color,
            "line": {"width": 1.5 if ring else 0.5, "color": color if ring else palette.paper},
        },
        hovertemplate=points.hover + f"<extra>{points.name}</extra>",
        **never_dimmed(1.0),
    )


def _marks(marks: Sequence[Mark], beyond: float, edge: float, palette: Palette) -> list[go.Scatter]:
    colors = {
        # Colours are for methods: what is marked has that of the text.
        "selected": palette.paper,
        "recommended": palette.text,
        "paper": palette.text,
        "baseline": palette.muted,
    }
    traces = []
    for kind in ("paper", "baseline", "recommended", "selected"):
        chosen = [mark for mark in marks if mark.kind == kind]
        far = [mark for mark in chosen if kind == "baseline" and mark.x > beyond]
        near = [mark for mark in chosen if mark not in far]
        symbol, size = _MARKERS[kind]
        text = kind in ("paper", "baseline")
        look = {
            "mode": "markers+text" if text else "markers",
            "showlegend": not text,
            "name": kind,
            "textfont": {"size": 12, "color": palette.text},
            "selected": {"marker": {"opacity": 1.0}, "textfont": {"color": palette.text}},
            "unselected": {"marker": {"opacity": 1.0}, "textfont": {"color": palette.text}},
        }
        line = {"width": 2.5, "color": palette.text if kind in ("paper", "selected") else palette.paper}
        if near:
            traces.append(
                go.Scatter(
                    x=[mark.x for mark in near],
                    y=[mark.y for mark in near],
                    customdata=[mark.customdata for mark in near] if near[0].customdata else None,
                    text=[f"<b>{mark.name}</b>" for mark in near] if text else None,
                    textposition="middle right",
                    hovertext=[mark.hover for mark in near],
                    hoverinfo="text",
                    marker={"symbol": symbol, "size": size, "color": colors[kind], "line": line},
                    **look,
                )
            )
        if far:  # too far right for the plot: an arrow at its edge, and the values in words
            traces.append(
                go.Scatter(
                    x=[edge],
                    y=[far[0].y],
                    text=["<b>" + ", ".join(f"{mark.name} need {mark.hover}" for mark in far) + "</b>"],
                    textposition="middle left",
                    hovertext=["every client activates every block: beyond the plot"],
                    hoverinfo="text",
                    cliponaxis=False,
                    marker={"symbol": "triangle-right", "size": 12, "color": colors[kind]},
                    **look,
                )
            )
    return traces
