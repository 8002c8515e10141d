"""The look of every figure, light and dark, in Okabe and Ito's colours, which any colour vision can distinguish.

A marker shape, a dash or a label always repeats the meaning of a colour.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

FONT = '"Source Sans", "Source Sans 3", "Source Sans Pro", "DejaVu Sans", sans-serif'


@dataclass(frozen=True)
class Palette:
    """Colours by role. ``series`` is for curves of equal rank, in a fixed order."""

    name: str
    paper: str
    text: str
    muted: str  # secondary text, outlines
    faint: str  # grid, empty cells
    quiet: str  # points in the background
    front: str  # the main line, filled cells
    selected: str  # the selection
    warning: str
    series: tuple[str, ...]


LIGHT = Palette(
    name="light",
    paper="#ffffff",
    text="#1b2430",
    muted="#5b6776",
    faint="#e6eaef",
    quiet="#a9b3c0",
    front="#0072B2",
    selected="#D55E00",
    warning="#B34700",
    series=("#0072B2", "#D55E00", "#009E73", "#AA4A86", "#B07800", "#3A93C9", "#5b6776", "#7A5C3E"),
)
DARK = Palette(
    name="dark",
    paper="#10151c",
    text="#e6ebf1",
    muted="#9aa7b6",
    faint="#28313c",
    quiet="#5d6978",
    front="#56B4E9",
    selected="#FF9A3D",
    warning="#FFB066",
    series=("#56B4E9", "#E69F00", "#2BC49A", "#E09AC4", "#F0E442", "#8FA9FF", "#9aa7b6", "#C9A27E"),
)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "triangle-up", "cross", "x", "star")


def palette_named(name: str | None) -> Palette:
    """The palette for ``"light"`` or ``"dark"``; light for an unknown theme."""
    return DARK if name == "dark" else LIGHT


def trace(kind: str, **properties: Any) -> dict[str, Any]:
    """A trace for :func:`styled`. ``kind`` is plotly's name, such as ``"scatter"``."""
    return {"type": kind, **properties}


def styled(traces: Sequence[Any], palette: Palette, *, height: int, layout: dict[str, Any]) -> go.Figure:
    """A figure of ``traces`` with the paper, fonts, grid and margins of ``palette``, then ``layout``.

    Plotly's check of every property took most of a page's time; tests/plots makes this check instead. A page sends each
    figure to plotly twice. Plotly skips the second drawing if arrays are lists and ``datarevision`` is the same.
    """
    usual = _look(palette)
    axes = {name: usual["axis"] for name in {"xaxis", "yaxis", *layout} if name[1:5] == "axis"}
    look = {"height": height, "datarevision": 1, **_merged(usual["layout"] | axes, layout)}
    figure = go.Figure(data=traces, layout=look, _validate=False)
    figure.layout.template = {}  # in place of plotly's own
    return figure


def _merged(usual: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """``usual``, with entries of ``own`` in their place at any depth."""
    parts = {
        name: _merged(usual[name], value) if isinstance(value, dict) and isinstance(usual.get(name), dict) else value
        for name, value in own.items()
    }
    return usual | parts


def apply(figure: go.Figure, palette: Palette, *, height: int) -> go.Figure:
    """Give ``figure`` the paper, fonts, grid and margins of ``palette``, and return it."""
    usual = _look(palette)
    template = go.layout.Template(layout=usual["layout"] | {"xaxis": usual["axis"], "yaxis": usual["axis"]})
    return figure.update_layout(template=template, height=height)


def as_text(name: str) -> str:
    """Escape a name from outside: plotly reads some HTML in names and hover texts, and %{...} in hover texts."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace("%{", "%\u2060{")  # a character without width


def axis(title: str, standoff: int | None = None, **more: Any) -> dict[str, Any]:
    """An axis with a title and a fixed margin, since plotly's automatic margin draws the axes several times."""
    text = {"text": title} if standoff is None else {"text": title, "standoff": standoff}
    return {"title": text, "automargin": False, **more}


def log_axis(title: str, values: ArrayLike, **more: Any) -> dict[str, Any]:
    """A logarithmic axis around positive values, with ticks such as 0.5, 1, 2, 5, 10 instead of "2 5 10⁰"."""
    low, high = (float(np.log10(end)) for end in (np.min(values), np.max(values)))
    space = 0.06 * max(high - low, 0.3)
    return log_axis_between(title, low - space, high + space, **more)


def log_axis_between(title: str, low: float, high: float, **more: Any) -> dict[str, Any]:
    """A logarithmic axis from 10**low to 10**high."""
    ticks = log_ticks(low, high)
    text = [f"{tick:g}" for tick in ticks]
    return axis(title, type="log", range=[low, high], tickvals=ticks, ticktext=text, **more)


def log_ticks(low: float, high: float, room: int = 10) -> list[float]:
    """Ticks from a decade below ``low`` to a decade above ``high`` (exponents of ten), so that an axis still has ticks
    after a move. About ``room`` of them or fewer lie within the range."""
    decades = max(high - low, 0.1)
    steps: Sequence[float] = (1,)
    for closer in ((1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        if decades * len(closer) <= room:
            steps = closer
    apart = max(1, math.ceil(decades / room))
    exponents = range(math.floor(low) - 1, math.ceil(high) + 2)
    return [float(f"{step * 10.0**e:.6g}") for e in exponents if e % apart == 0 for step in steps]


def level(y: float, **line: Any) -> dict[str, Any]:
    """A straight line at ``y`` over the figure's width."""
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def marked_points(
    points: Sequence[tuple[float, float]], names: Sequence[str], palette: Palette, **more: Any
) -> dict[str, Any]:
    """Crosses with names, for points of the paper."""
    return trace(
        "scatter",
        x=[x for x, _ in points],
        y=[y for _, y in points],
        mode="markers+text",
        text=list(names),
        textposition="middle right",
        textfont={"size": 12, "color": palette.text},
        marker={"symbol": "x-thin", "size": 9, "line": {"width": 2, "color": palette.text}},
        **more,
    )


def chosen_point(x: float, y: float, palette: Palette, **more: Any) -> dict[str, Any]:
    """A diamond for the selected point."""
    marker = {
        "symbol": "diamond",
        "size": 15,
        "color": palette.paper,
        "line": {"width": 2.5, "color": palette.text},
    }
    return trace("scatter", x=[x], y=[y], mode="markers", marker=marker, **more)


@functools.cache
def _look(palette: Palette) -> dict[str, Any]:
    """The layout of every figure, and that of every axis."""
    axis = {
        "gridcolor": palette.faint,
        "linecolor": palette.quiet,
        "ticks": "",
        "zeroline": False,
        "automargin": True,
        "title": {"font": {"size": 14, "color": palette.text}, "standoff": 12},
        "tickfont": {"size": 12, "color": palette.muted},
    }
    layout = {
        "paper_bgcolor": palette.paper,
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 13, "color": palette.text},
        "colorway": palette.series,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hoverlabel": {
            "bgcolor": palette.paper,
            "bordercolor": palette.quiet,
            "font": {"family": FONT, "size": 13, "color": palette.text},
            "align": "left",
        },
        "legend": {"font": {"size": 13, "color": palette.text}, "bgcolor": "rgba(0,0,0,0)"},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": palette.muted, "activecolor": palette.front},
    }
    return {"layout": layout, "axis": axis}
