"""How a fine-tuned model answers: the confusion of labels, and the accuracy of each client.

Shapes: C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from zorba_core.plots.axes import level
from zorba_core.plots.theme import LIGHT, Palette, as_text, styled

MOST_CLIENTS = 60
_MOST_CELLS_WITH_TEXT = 20  # labels
_LONGEST = 28  # characters of a label beside an axis


def confusion_figure(confusion_CC: ArrayLike, labels: Sequence[str], *, palette: Palette = LIGHT) -> go.Figure:
    """Rows of each label by what was predicted. A cell's shade is its share of the row's label."""
    confusion_CC = np.asarray(confusion_CC)
    rows_C = confusion_CC.sum(axis=1, keepdims=True)
    share_CC = np.divide(confusion_CC, rows_C, out=np.zeros(confusion_CC.shape), where=rows_C > 0)
    names = [_short(name) for name in labels]
    few = len(labels) <= _MOST_CELLS_WITH_TEXT
    heatmap = go.Heatmap(
        z=share_CC,
        x=names,
        y=names,
        zmin=0,
        zmax=1,
        colorscale=[[0, palette.faint], [1, palette.front]],
        showscale=False,
        xgap=1,
        ygap=1,
        customdata=np.dstack([confusion_CC, np.broadcast_to(rows_C, confusion_CC.shape)]),
        hovertemplate="%{y}, predicted as %{x}<br>%{customdata[0]} of %{customdata[1]} rows (%{z:.0%})<extra></extra>",
    )
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "predicted label"}, "showgrid": False, "type": "category"},
        "yaxis": {
            "title": {"text": "label of the row"},
            "showgrid": False,
            "autorange": "reversed",
            "type": "category",
        },
    }
    if few:
        layout["annotations"] = [
            {
                "x": column,
                "y": row,
                "text": str(confusion_CC[row, column]),
                "showarrow": False,
                "font": {"color": palette.paper if share_CC[row, column] > 0.5 else palette.text},
            }
            for row in range(len(labels))
            for column in range(len(labels))
        ]
    else:
        layout["xaxis"]["showticklabels"] = layout["yaxis"]["showticklabels"] = len(labels) <= 2 * _MOST_CELLS_WITH_TEXT
    return styled([heatmap], palette, height=min(720, 150 + max(42 * len(labels), 120)), layout=layout)


def clients_figure(
    per_client: Sequence[Mapping[str, Any]],
    overall: float | None = None,
    *,
    metric: str = "accuracy",
    palette: Palette = LIGHT,
) -> go.Figure:
    """The share of each client's rows that are right with its 95 % interval, the worst served on the left; the base
    model's beside it.

    Args:
        per_client: entries of an evaluation's ``per_client``; at most the worst 60 are drawn.
        overall: the share of all rows, as a line.
        metric: what is counted as right.
    """
    shown = per_client[:MOST_CLIENTS]
    names = [str(entry["client"]) for entry in shown]
    accuracy = [entry["accuracy"] for entry in shown]
    low, high = np.array([entry["accuracy_interval"] for entry in shown]).T
    traces = [
        go.Scatter(
            x=names,
            y=accuracy,
            mode="markers",
            name="after fine-tuning",
            marker={"color": palette.front, "size": 9},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": high - accuracy,
                "arrayminus": accuracy - low,
                "color": palette.front,
                "thickness": 1.2,
                "width": 0,
            },
            customdata=[entry["rows"] for entry in shown],
            hovertemplate="client %{x}: %{y:.1%} of %{customdata} rows<extra>after</extra>",
        )
    ]
    if all("base_accuracy" in entry for entry in shown):
        traces.append(
            go.Scatter(
                x=names,
                y=[entry["base_accuracy"] for entry in shown],
                mode="markers",
                name="before",
                marker={"color": palette.muted, "size": 8, "symbol": "diamond-open"},
                hovertemplate="client %{x}: %{y:.1%}<extra>before</extra>",
            )
        )
    layout: dict[str, Any] = {
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "xaxis": {"title": {"text": "client, the worst served first"}, "type": "category", "showgrid": False},
        "yaxis": {"title": {"text": metric}, "tickformat": ".0%", "range": [-0.03, 1.03]},
        "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
    }
    if overall is not None:
        layout["shapes"] = [level(overall, color=palette.selected, width=1.5, dash="dash")]
    return styled(traces, palette, height=340, layout=layout)


def _short(name: str) -> str:
    return as_text(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…")
