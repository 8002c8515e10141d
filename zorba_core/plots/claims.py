"""Figures of the report: small enough for a phone, drawn from tables that ``zorba_core.study.experiments`` makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from zorba_core.plots.axes import log_axis_of, upright
from zorba_core.plots.theme import DASHES, SYMBOLS, Palette, styled

WIDTH, HEIGHT = 460, 340
MEASURE_TITLES = {
    "lambda": "Λ",
    "V": "V, mean inverse popularity",
    "E": "E, coupled noise",
    "inverse_T": "1 / activated blocks",
}


def _layout(x: str, y: str, **changes) -> dict:
    return {
        "width": WIDTH,
        "xaxis": {"title": {"text": x}, **changes.pop("xaxis", {})},
        "yaxis": {"title": {"text": y}, **changes.pop("yaxis", {})},
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
        **changes,
    }


def predictor_figure(
    table: pd.DataFrame, measure: str, palette: Palette, standard_error: float | None = None
) -> go.Figure:
    """Late loss of each allocation against one of its measures, by who made it (column ``made_by``), with the standard
    error of a point where it is known."""
    ended = table[np.isfinite(table["loss"])]
    bars = {} if standard_error is None else {"type": "constant", "value": standard_error, "thickness": 1, "width": 0}
    traces = [
        go.Scatter(
            x=group[measure],
            y=group["loss"],
            mode="markers",
            name=name,
            text=group.index,
            error_y=bars,
            marker={"color": palette.series[i], "symbol": SYMBOLS[i], "size": 9},
            hovertemplate="%{text}<extra></extra>",
        )
        for i, (name, group) in enumerate(ended.groupby("made_by", sort=False))
    ]
    return styled(
        traces,
        palette,
        height=HEIGHT,
        layout=_layout(
            f"{MEASURE_TITLES[measure]} (log scale)", "Loss late in the run", xaxis=log_axis_of([ended[measure]])
        ),
    )


def pairs_figure(pairs: pd.DataFrame, palette: Palette) -> go.Figure:
    """Matched pairs: how much higher the loss is where Lambda is lower, with 95 % intervals where seeds allow one."""
    bounded = np.isfinite(pairs["high"])
    trace = go.Scatter(
        x=pairs["value"],
        y=pairs["pile"],
        mode="markers",
        marker={"color": palette.selected, "size": 11, "symbol": "diamond"},
        error_x={"array": np.where(bounded, pairs["high"] - pairs["value"], 0.0), "color": palette.muted},
    )
    return styled(
        [trace],
        palette,
        height=HEIGHT,
        layout=_layout(
            "Loss with piled minus spread scarce blocks",
            "",
            shapes=[upright(0, color=palette.muted, dash="dot")],
        ),
    )


def arms_figure(curves: pd.DataFrame, palette: Palette, *, titles: Mapping[str, str], x: str, y: str) -> go.Figure:
    """Mean curves of arms (columns of ``mean_curves``), each with a colour, a dash and a marker, and their bands."""
    traces = []
    for i, (arm, title) in enumerate(titles.items()):
        curve = curves[curves["arm"] == arm].sort_values("round")
        if curve.empty:
            continue
        colour = palette.series[i % len(palette.series)]
        if np.isfinite(curve["high"]).all():
            traces.append(
                go.Scatter(
                    x=[*curve["round"], *curve["round"][::-1]],
                    y=[*curve["high"], *curve["low"][::-1]],
                    fill="toself",
                    mode="lines",
                    fillcolor=colour,
                    opacity=0.15,
                    line={"width": 0},
                    showlegend=False,
                    hoverinfo="skip",
                )
            )
        traces.append(
            go.Scatter(
                x=curve["round"],
                y=curve["mean"],
                name=title,
                mode="lines+markers",
                line={"color": colour, "dash": DASHES[i % len(DASHES)], "width": 2},
                marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 6},
            )
        )
    return styled(
        traces,
        palette,
        height=HEIGHT,
        layout=_layout(x, y, xaxis={"rangemode": "tozero"}),
    )


def lines_figure(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    palette: Palette,
    *,
    x: str,
    y: str,
    points: Mapping[str, tuple[float, float]] | None = None,
    log_y: bool = False,
) -> go.Figure:
    """Named lines, and named points with their names beside them."""
    traces = [
        go.Scatter(
            x=list(xs),
            y=list(ys),
            name=name,
            mode="lines+markers",
            line={"color": palette.series[i], "dash": DASHES[i], "width": 2},
            marker={"symbol": SYMBOLS[i], "size": 6},
        )
        for i, (name, (xs, ys)) in enumerate(lines.items())
    ]
    if points:
        traces.append(
            go.Scatter(
                x=[point[0] for point in points.values()],
                y=[point[1] for point in points.values()],
                text=list(points),
                mode="markers+text",
                textposition="middle left",
                name="printed",
                marker={"symbol": "star", "size": 13, "color": palette.selected},
            )
        )
    axis = log_axis_of(trace.y for trace in traces) if log_y else {}
    return styled(traces, palette, height=HEIGHT, layout=_layout(x, y, yaxis=axis))
