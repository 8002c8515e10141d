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
METHOD_STYLES = {"paper": (0, "solid"), "exact": (1, "solid"), "two-level": (2, "dashdot"), "bound": (6, "dot")}
OTHER_LOOK = (2, "longdash")  # of a solver from a plugin
FLEET_STYLES = ((3, "dash"), (4, "dash"), (5, "dash"), (7, "dash"))  # of the fleets in a comparison
_FEW = 60  # a curve of at most so many points has markers
# Plotly fades all points but the selected one; here the selection has its own marker.
_NEVER_DIMMED = {"selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 1}}}


@dataclass(frozen=True, eq=False)
class Stairs:
    """One curve of :func:`stairs_figure`."""

    name: str
    gib_P: NDArray[np.float64]
    lambda_P: NDArray[np.float64]
    least_P: NDArray[np.int64]
    """Smallest popularity of a block."""
    total_gib: float
    """VRAM of the whole fleet."""
    look: tuple[int, str]
    """Index in the palette's series, and dash."""
    is_bound: bool = False
    strong: bool = False
    """The curve that the page follows: a wider line, and a click on any point."""
    bound_P: NDArray[np.float64] | None = None
    """Of an exact method: no allocation has a lower Λ. Such a curve has no steps, since between its few points the true
    values lie far below them. A point above its bound is hollow."""


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
    """Λ on a logarithmic axis of fixed range against the VRAM of all clients. One curve is the strong one.

    Args:
        chosen: GiB and Λ of the selected point on the strong curve.
        references: GiB and Λ of labelled points, for the strong curve's fleet.
        lambda_range: lowest and highest Λ of the axis.
        share: show VRAM as a share of each curve's ``total_gib`` instead of GiB.
    """
    traces: list[Any] = [_curve(curve, share, palette) for curve in curves]
    scale = next(curve.total_gib for curve in curves if curve.strong) if share else 1.0
    if references:
        low, high = lambda_range
        shown = {name: (gib / scale, value) for name, (gib, value) in references.items() if low <= value <= high}
        hover = "%{text} of the paper: Λ %{y:.2f}<extra></extra>"
        look = {"hovertemplate": hover, "showlegend": False, **_NEVER_DIMMED}
        traces.append(marked_points(list(shown.values()), list(shown), palette, **look))
    if chosen is not None:
        look = {"hoverinfo": "skip", "showlegend": False, "cliponaxis": False, **_NEVER_DIMMED}
        traces.append(chosen_point(chosen[0] / scale, chosen[1], palette, **look))
    low, high = np.log10(lambda_range)
    vram = "VRAM used, share of all VRAM" if share else "VRAM used by all clients (GiB)"
    layout = {
        "margin": {"l": 58, "r": 10, "t": 8, "b": 44},
        "dragmode": False,
        "hovermode": "closest",
        "clickmode": "event+select",
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "top", "bgcolor": palette.paper},
        "xaxis": axis(vram, 6, tickformat=".2~%" if share else ","),  # no tick twice where the range is narrow
        "yaxis": log_axis_between("Λ (lower is better)", low, high, standoff=8),
    }
    return styled(traces, palette, height=height, layout=layout)


def _curve(curve: Stairs, share: bool, palette: Palette) -> dict[str, Any]:
    place, dash = curve.look
    color = palette.series[place]
    shares = curve.gib_P / curve.total_gib
    words = "no allocation has a smaller Λ" if curve.is_bound else "at least %{customdata[2]} clients train each block"
    data = [curve.gib_P, shares, curve.least_P]
    dots, symbol = curve.bound_P is not None, "circle"
    if curve.bound_P is not None:
        open_P = curve.bound_P < curve.lambda_P * (1 - 1e-9)
        symbol = np.where(open_P, "circle-open", "circle").tolist()
        data.append(curve.bound_P)
        words += "<br>no allocation has a Λ below %{customdata[3]:.3g}"
    marked = dots or (len(curve.gib_P) <= _FEW and not curve.is_bound)
    # Clicks need markers, but not drawn ones: a curve of many points draws one of them, and that is invisible.
    opacity = {"opacity": 1 if marked else 0}
    # The bound of a point holds for less VRAM too, an allocation for more.
    shape = "vh" if curve.is_bound else "hv"
    return trace(
        "scatter",
        x=(shares if share else curve.gib_P).tolist(),
        y=curve.lambda_P.tolist(),
        customdata=np.column_stack(data).tolist(),
        mode="markers" if dots else "lines+markers" if marked or curve.strong else "lines",
        name=as_text(curve.name),
        legendrank=place,
        line={"color": color, "width": 3 if curve.strong else 1.8, "shape": shape, "dash": dash},
        marker={
            "size": 9 if dots else 6 if marked else 5,
            "symbol": symbol,
            "color": color,
            "maxdisplayed": 0 if marked else 1,  # 0: all
            **opacity,
        },
        hovertemplate="%{customdata[0]:.1f} GiB (%{customdata[1]:.0%}), Λ %{y:.3g}<br>"
        + words
        + "<extra>"
        + as_text(curve.name)
        + "</extra>",
        selected={"marker": opacity},
        unselected={"marker": opacity},
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
