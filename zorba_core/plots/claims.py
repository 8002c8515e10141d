"""Figures of arms and of pairs of arms, small enough for a phone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from zorba_core.plots.axes import upright
from zorba_core.plots.theme import DASHES, SYMBOLS, Palette, styled

WIDTH, HEIGHT = 460, 340


def _layout(x: str, y: str, **changes) -> dict:
    return {
        "width": WIDTH,
        "xaxis": {"title": {"text": x}, **changes.pop("xaxis", {})},
        "yaxis": {"title": {"text": y}, **changes.pop("yaxis", {})},
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
        **changes,
    }


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
