"""One look for every figure: Okabe and Ito's colours, distinguishable with any colour vision, on light and dark paper.

A colour always has a companion (marker shape, line dash, a label), so that no meaning rests on colour alone.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

FONT = '"Source Sans", "Source Sans 3", "Source Sans Pro", "DejaVu Sans", sans-serif'


@dataclass(frozen=True)
class Palette:
    """Colours by role. ``series`` are for things of equal standing, in a fixed order."""

    name: str
    paper: str
    text: str
    muted: str  # secondary text, outlines
    faint: str  # grid, empty cells
    quiet: str  # points in the background
    front: str  # the main line, filled cells
    selected: str  # what the reader chose
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
    """The palette for ``"light"`` or ``"dark"``; light when the theme is unknown."""
    return DARK if name == "dark" else LIGHT


def styled(traces: Sequence[Any], palette: Palette, *, height: int, layout: dict[str, Any]) -> go.Figure:
    """A figure of ``traces`` with the paper, fonts, grid and margins of ``palette``, then ``layout``.

    Plotly's check of every property took most of the time of a page; tests/plots checks the figures instead.
    """
    look = {"template": _template(palette), "height": height, **layout}
    return go.Figure(data=traces, layout=look, _validate=False)


def apply(figure: go.Figure, palette: Palette, *, height: int) -> go.Figure:
    """Paper, fonts, grid and margins of ``palette`` on ``figure``, which is returned."""
    return figure.update_layout(template=_template(palette), height=height)


def as_text(name: str) -> str:
    """A name from outside as it is: plotly reads some HTML in names and hover texts, and %{...} in the latter."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace("%{", "%\u2060{")  # of no width


@functools.cache
def _template(palette: Palette) -> go.layout.Template:
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
        "xaxis": axis,
        "yaxis": axis,
        "hoverlabel": {
            "bgcolor": palette.paper,
            "bordercolor": palette.quiet,
            "font": {"family": FONT, "size": 13, "color": palette.text},
            "align": "left",
        },
        "legend": {"font": {"size": 13, "color": palette.text}, "bgcolor": "rgba(0,0,0,0)"},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": palette.muted, "activecolor": palette.front},
    }
    return go.layout.Template(layout=layout)
