"""Methods over rounds or forward passes: every seed as it ran, and no mean over only the seeds that continue."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from zorba_core.plots.axes import level, log_axis_of
from zorba_core.plots.claims import HEIGHT, WIDTH
from zorba_core.plots.theme import DASHES, SYMBOLS, Palette, styled


def seeds_by_method(
    curves: pd.DataFrame,
    palette: Palette,
    *,
    titles: Mapping[str, str],
    x: str,
    y: str,
    targets: Mapping[str, float],
    log_x: bool = False,
) -> go.Figure:
    """Thin: each seed. Thick: the mean of an arm, only as far as all of its seeds ran. A star: a run that stopped
    because it had reached the higher target, so that no mean continues with the slower seeds alone.

    ``curves`` has the columns arm, seed, cost, value, stopped (see ``seed_curves``).
    """
    traces = []
    for i, (arm, title) in enumerate(titles.items()):
        mine = curves[curves["arm"] == arm].sort_values("cost")
        if mine.empty:
            continue
        colour, dash = palette.series[i % len(palette.series)], DASHES[i % len(DASHES)]
        thin = []
        for _, seed in mine.groupby("seed"):
            thin += [*zip(seed["cost"], seed["value"], strict=True), (None, None)]  # None ends a seed's line
        traces.append(
            go.Scatter(
                x=[point[0] for point in thin],
                y=[point[1] for point in thin],
                mode="lines",
                opacity=0.3,
                line={"color": colour, "width": 1},
                showlegend=False,
                hoverinfo="skip",
                legendgroup=arm,
            )
        )
        seeds = mine["seed"].nunique()
        together = mine.groupby("cost")["value"].agg(["mean", "count"])
        together = together[together["count"] == seeds]
        traces.append(
            go.Scatter(
                x=together.index,
                y=together["mean"],
                name=title,
                mode="lines+markers",
                legendgroup=arm,
                line={"color": colour, "dash": dash, "width": 2.5},
                marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 6},
            )
        )
        ends = mine[mine["stopped"]].groupby("seed").tail(1)
        if len(ends):
            traces.append(
                go.Scatter(
                    x=ends["cost"],
                    y=ends["value"],
                    mode="markers",
                    showlegend=False,
                    legendgroup=arm,
                    marker={"symbol": "star", "size": 10, "color": colour},
                    hovertemplate=f"{title}: stopped at the target<extra></extra>",
                )
            )
    shapes = [level(value, color=palette.muted, dash="dot", width=1) for value in targets.values()]
    notes = [
        {
            "xref": "paper",
            "x": 1,
            "y": value,
            "text": name,
            "showarrow": False,
            "xanchor": "right",
            "yanchor": "bottom",
            "font": {"size": 11, "color": palette.muted},
        }
        for name, value in targets.items()
    ]
    layout = {
        "width": WIDTH,
        "xaxis": {
            "title": {"text": x},
            **(log_axis_of(trace.x for trace in traces) if log_x else {"rangemode": "tozero"}),
        },
        "yaxis": {"title": {"text": y}},
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
        "shapes": shapes,
        "annotations": notes,
    }
    return styled(traces, palette, height=HEIGHT, layout=layout)
