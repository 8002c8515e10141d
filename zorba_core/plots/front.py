"""Lambda against VRAM: the dashboard's curves as stairs, and the fronts of :func:`~zorba_core.allocation.sweep`.

A step shows the lowest Lambda within an amount of VRAM, so two curves with few points never seem to cross.

Shapes: E points of a sweep, F points of its front, P points of a curve; rising VRAM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.allocation import Front
from zorba_core.plots.theme import (
    DASHES,
    LIGHT,
    SYMBOLS,
    Palette,
    as_text,
    axis,
    chosen_point,
    log_axis,
    log_axis_between,
    marked_points,
    styled,
    trace,
)

# (index in the palette's series, dash) of each method, so that a method always has the same colour.
METHOD_STYLES = {
    "balanced": (0, "solid"),
    "exact": (1, "solid"),
    "two-level": (2, "dashdot"),
    "paper": (4, "dash"),
    "bound": (6, "dot"),
}
OTHER_LOOK = (2, "longdash")  # of a solver from a plugin
FLEET_STYLES = ((3, "dash"), (4, "dash"), (5, "dash"), (7, "dash"))  # of the fleets in a comparison


@dataclass(frozen=True, eq=False)
class Stairs:
    """One curve of :func:`stairs_figure`."""

    name: str
    gib_P: NDArray[np.floating[Any]]
    lambda_P: NDArray[np.float64]
    look: tuple[int, str]
    """Index in the palette's series, and dash."""
    is_bound: bool = False
    strong: bool = False
    """A wider line."""


def stairs_figure(
    curves: Sequence[Stairs],
    *,
    chosen: tuple[float, float, str] | None = None,
    lambda_range: tuple[float, float],
    palette: Palette = LIGHT,
    height: int = 360,
) -> go.Figure:
    """Λ on a logarithmic axis of fixed range against the VRAM of all clients.

    Args:
        chosen: GiB, Λ and name of the selected point.
        lambda_range: lowest and highest Λ of the axis.
    """
    traces: list[Any] = [_curve(curve, palette) for curve in curves]
    if chosen is not None:
        gib, value, name = chosen
        traces.append(chosen_point(gib, value, palette, name=name, cliponaxis=False))
    low, high = np.log10(lambda_range)
    layout = {
        "margin": {"l": 58, "r": 10, "t": 8, "b": 44},
        "hovermode": "closest",
        "legend": {"x": 1, "xanchor": "right", "y": 1, "yanchor": "top", "bgcolor": palette.paper},
        "xaxis": axis("VRAM used by all clients (GiB)", 6, tickformat=","),
        "yaxis": log_axis_between("Λ (a smaller one is a better guarantee)", low, high, standoff=8),
    }
    return styled(traces, palette, height=height, layout=layout)


def _curve(curve: Stairs, palette: Palette) -> dict[str, Any]:
    place, dash = curve.look
    # The bound of a point holds for less VRAM too, an allocation for more.
    shape = "vh" if curve.is_bound else "hv"
    return trace(
        "scatter",
        x=curve.gib_P.tolist(),
        y=curve.lambda_P.tolist(),
        mode="lines",
        name=as_text(curve.name),
        line={"color": palette.series[place], "width": 3 if curve.strong else 1.8, "shape": shape, "dash": dash},
        hovertemplate="%{x:.1f} GiB, Λ %{y:.3g}<extra>" + as_text(curve.name) + "</extra>",
    )


def front_figure(
    fronts: Mapping[str, Front],
    *,
    knee: bool = False,
    references: Mapping[str, tuple[float, float]] | None = None,
    palette: Palette = LIGHT,
) -> go.Figure:
    """Lambda (log axis) against the VRAM ratio: the front of each sweep with a colour, a dash and a marker.

    Args:
        knee: mark each front's knee.
        references: VRAM ratio and Lambda of labelled points.
    """
    traces = []
    for index, (name, front) in enumerate(fronts.items()):
        order_F = front.order_F
        color = palette.series[index % len(palette.series)]
        traces.append(
            trace(
                "scatter",
                x=front.vram_ratio_E[order_F],
                y=front.bias_lambda_E[order_F],
                customdata=np.column_stack((front.total_blocks_E, front.min_popularity_E))[order_F],
                mode="lines+markers",
                name=name,
                line={"color": color, "width": 2, "shape": "hv", "dash": DASHES[index % len(DASHES)]},
                marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 5, "color": color},
                hovertemplate="%{x:.1%} of VRAM, Λ = %{y:.4g}<br>%{customdata[0]} blocks, at least %{customdata[1]} "
                f"clients on each<extra>{name}</extra>",
            )
        )
    if references:
        traces.append(marked_points(list(references.values()), list(references), palette, name="the paper's scenarios"))
    if knee:
        for front in fronts.values():
            if front.knee is None:
                continue
            at = front.vram_ratio_E[front.knee], front.bias_lambda_E[front.knee]
            traces.append(chosen_point(*at, palette, name="knee"))
    drawn = [value for drawn_trace in traces for value in drawn_trace["y"]]
    layout = {
        "margin": {"l": 66, "r": 12, "t": 12, "b": 12},
        "legend": {"orientation": "h", "x": 0, "y": -0.17, "yanchor": "top"},
        "hovermode": "closest",
        "xaxis": axis("VRAM used / VRAM available, all clients together", tickformat=".0%"),
        "yaxis": log_axis("Λ, convergence bias (lower is better)", drawn),
    }
    return styled(traces, palette, height=460, layout=layout)
