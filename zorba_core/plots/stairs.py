"""Λ against the VRAM that it takes: curves of methods and of fleets, as stairs.

A stair says what is reached with at most so much VRAM, so that two curves with few points never seem to cross.

Shapes: P points of a curve, rising VRAM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.plots.axes import tick_text
from zorba_core.plots.theme import LIGHT, Palette, as_text, styled

# Place in the palette and dash of each method: a colour stays with its method whatever else is drawn.
METHOD_STYLES = {"paper": (0, "solid"), "exact": (1, "solid"), "two-level": (2, "dashdot"), "bound": (6, "dot")}
OTHER_LOOK = (2, "longdash")  # of a solver from elsewhere
FLEET_STYLES = ((3, "dash"), (4, "dash"), (5, "dash"), (7, "dash"))  # of the fleets that are compared
_FEW = 60  # points that get markers


@dataclass(frozen=True, eq=False)
class Stairs:
    """One curve."""

    name: str
    gib_P: NDArray[np.float64]
    lambda_P: NDArray[np.float64]
    least_P: NDArray[np.int64]
    """Clients of the block that the fewest train."""
    total_gib: float
    """All VRAM of the fleet, which shares refer to."""
    look: tuple[int, str]
    is_bound: bool = False
    strong: bool = False
    dots: bool = False
    """Points alone: so few that stairs between them would look worse than what lies between."""


def stairs_figure(
    curves: Sequence[Stairs],
    *,
    chosen: tuple[float, float] | None = None,
    references: Mapping[str, tuple[float, float]] | None = None,
    lambda_range: tuple[float, float],
    share: bool = False,
    palette: Palette = LIGHT,
    height: int = 360,
) -> go.Figure:
    """Λ on a logarithmic axis of fixed range against VRAM over all clients.

    Args:
        chosen: GiB and Λ of the point that the reader chose, on the strong curve.
        references: labelled points, as GiB and Λ; of the fleet of the strong curve.
        lambda_range: lowest and highest Λ of the axis.
        share: VRAM as a share of each curve's ``total_gib`` instead of GiB.
    """
    traces: list[Any] = [_curve(curve, share, palette) for curve in curves]
    scale = next(curve.total_gib for curve in curves if curve.strong) if share else 1.0
    if references:
        low, high = lambda_range
        shown = {name: point for name, point in references.items() if low <= point[1] <= high}
        traces.append(
            go.Scatter(
                x=[gib / scale for gib, _ in shown.values()],
                y=[value for _, value in shown.values()],
                mode="markers+text",
                text=list(shown),
                textposition="middle right",
                textfont={"size": 12, "color": palette.text},
                marker={"symbol": "x-thin", "size": 9, "line": {"width": 2, "color": palette.text}},
                hovertemplate="%{text} of the paper: Λ %{y:.2f}<extra></extra>",
                showlegend=False,
                **_NEVER_DIMMED,
            )
        )
    if chosen is not None:
        diamond = {
            "symbol": "diamond",
            "size": 15,
            "color": palette.paper,
            "line": {"width": 2.5, "color": palette.text},
        }
        point = {"x": [chosen[0] / scale], "y": [chosen[1]], "mode": "markers", "marker": diamond}
        traces.append(go.Scatter(**point, hoverinfo="skip", showlegend=False, cliponaxis=False, **_NEVER_DIMMED))
    low, high = np.log10(lambda_range)
    ticks = _ticks(*lambda_range)
    layout = {
        "margin": {"l": 58, "r": 10, "t": 8, "b": 44},
        "dragmode": False,
        "hovermode": "closest",
        "clickmode": "event+select",
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "top", "bgcolor": palette.paper},
        "xaxis": {
            "title": {
                "text": "VRAM used, share of all VRAM" if share else "VRAM used by all clients (GiB)",
                "standoff": 6,
            },
            "tickformat": ".2~%" if share else None,  # no tick twice where the range is narrow
            "automargin": False,
        },
        "yaxis": {
            "type": "log",
            "title": {"text": "Λ (lower is better)", "standoff": 8},
            "range": [low, high],
            "tickvals": ticks,
            "ticktext": [tick_text(tick) for tick in ticks],
            "automargin": False,
        },
    }
    return styled(traces, palette, height=height, layout=layout)


_NEVER_DIMMED = {"selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 1}}}


def _curve(curve: Stairs, share: bool, palette: Palette) -> go.Scatter:
    place, dash = curve.look
    color = palette.series[place]
    shares = curve.gib_P / curve.total_gib
    words = (
        "no allocation has a smaller Λ" if curve.is_bound else "each block trained by at least %{customdata[2]} clients"
    )
    marked = curve.dots or (len(curve.gib_P) <= _FEW and not curve.is_bound)
    size = 9 if curve.dots else 6 if marked else 5
    return go.Scatter(
        x=shares if share else curve.gib_P,
        y=curve.lambda_P,
        customdata=np.column_stack((curve.gib_P, shares, curve.least_P)),
        # A click finds markers alone; those of a curve of many points are not seen.
        mode="markers" if curve.dots else "lines+markers" if marked or curve.strong else "lines",
        name=as_text(curve.name),
        # A bound holds up to the point at which it is known; a result holds from its point on.
        line={
            "color": color,
            "width": 3 if curve.strong else 1.8,
            "shape": "vh" if curve.is_bound else "hv",
            "dash": dash,
        },
        marker={"size": size, "color": color, "opacity": 1 if marked else 0},
        hovertemplate="%{customdata[0]:.1f} GiB (%{customdata[1]:.0%}), Λ %{y:.3g}<br>"
        + words
        + "<extra>"
        + as_text(curve.name)
        + "</extra>",
        selected={"marker": {"opacity": 1 if marked else 0}},
        unselected={"marker": {"opacity": 1 if marked else 0}},
    )


def _ticks(low: float, high: float) -> list[float]:
    steps = (1, 2, 5) if np.log10(high / low) < 3.2 else (1,)
    exponents = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    values = (float(f"{step * 10.0**exponent:.6g}") for exponent in exponents for step in steps)
    return [value for value in values if low <= value <= high]
