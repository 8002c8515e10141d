"""A run in progress: its round, its measures and its target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from zorba_core.plots.axes import upright
from zorba_core.plots.targets import target_line
from zorba_core.plots.theme import LIGHT, Palette, styled

Series = tuple[Sequence[float], Sequence[float]]  # rounds, values


def progress_figure(
    evaluated: Series,
    *,
    title: str,
    rounds_asked: int,
    each_round: Series | None = None,
    target: float | None = None,
    share: bool = False,
    resumed_after: int = 0,
    palette: Palette = LIGHT,
    height: int = 280,
) -> go.Figure:
    """Values of the evaluations as a line with markers, those of every round as a thin line behind, over all the rounds
    that are asked for.

    Args:
        share: the values are shares, shown in percent; ``target`` is one too.
        resumed_after: a thin upright line where the run was last resumed; 0 for none.
    """
    traces: list[go.Scatter] = []
    if each_round is not None:
        traces.append(
            go.Scatter(
                x=each_round[0],
                y=each_round[1],
                mode="lines",
                name="clients' batches",
                line={"color": palette.quiet, "width": 1.4},
                hovertemplate="%{y:.4f} in round %{x}<extra>clients' batches</extra>",
            )
        )
    traces.append(
        go.Scatter(
            x=evaluated[0],
            y=evaluated[1],
            mode="lines+markers",
            name="held-out rows",
            cliponaxis=False,
            line={"color": palette.front, "width": 2.4},
            marker={"symbol": "circle", "size": 7, "color": palette.front},
            hovertemplate=("%{y:.1%}" if share else "%{y:.4f}") + " after %{x} rounds<extra>held-out rows</extra>",
        )
    )
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    if target is not None:
        line, label = target_line(target, palette, at=1.0)
        shapes.append(line)
        notes.append(label)
    if resumed_after:
        shapes.append(upright(resumed_after, color=palette.muted, width=1, dash="dash"))
        notes.append(
            {
                "text": "resumed",
                "x": resumed_after,
                "y": 0.02,
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "xshift": 4,
                "showarrow": False,
                "font": {"color": palette.muted, "size": 11},
            }
        )
    layout = {
        "showlegend": each_round is not None,
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"},
        "margin": {"l": 56, "r": 14, "t": 28, "b": 44},
        "dragmode": False,
        "uirevision": title,
        "xaxis": {"title": {"text": "Rounds"}, "range": [0, rounds_asked], "automargin": False},
        "yaxis": {"title": {"text": title}, "tickformat": ".0%" if share else None, "automargin": False},
        "shapes": shapes,
        "annotations": notes,
    }
    return styled(traces, palette, height=height, layout=layout)
