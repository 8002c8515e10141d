"""Runs: learning curves over their rounds, the confusion of labels, and the accuracy of each client.

Shapes: P points of a curve, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from zorba_core.errors import InvalidInputError
from zorba_core.plots.theme import DASHES, LIGHT, SYMBOLS, Palette, as_text, axis, level, styled, trace

if TYPE_CHECKING:
    from zorba_core.runs import Run

MEASURES = {
    "eval_accuracy": "Accuracy on held-out rows",
    "eval_loss": "Loss on held-out rows",
    "train_loss": "Loss on the clients' batches",
}
_MARKED_UP_TO = 60  # points; more markers would hide the line
MOST_CLIENTS = 60
_MOST_CELLS_WITH_TEXT = 20  # labels
_LONGEST = 28  # characters of a label at an axis


def curves_figure(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    title: str,
    rounds: int | None = None,
    share: bool = False,
    targets: Sequence[float] = (),
    palette: Palette = LIGHT,
    height: int = 300,
) -> go.Figure:
    """Values against rounds, each curve with a colour, a dash and a marker.

    Args:
        curves: rounds and values by name, in the order of their colours. NaN is skipped.
        rounds: the end of the axis; by default the last round drawn.
        share: values are shares, shown in percent.
        targets: level lines.
    """
    traces = []
    hover = ("%{y:.1%}" if share else "%{y:.4f}") + " after %{x} rounds"
    for index, (name, (round_P, value_P)) in enumerate(curves.items()):
        round_P, value_P = np.asarray(round_P), np.asarray(value_P, float)
        known_P = ~np.isnan(value_P)
        color = palette.series[index % len(palette.series)]
        traces.append(
            trace(
                "scatter",
                x=round_P[known_P].tolist(),
                y=value_P[known_P].tolist(),
                mode="lines+markers" if known_P.sum() <= _MARKED_UP_TO else "lines",
                name=as_text(name),
                cliponaxis=False,
                line={"color": color, "width": 2.2, "dash": DASHES[index % len(DASHES)]},
                marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 6, "color": color},
                hovertemplate=hover + "<extra>" + as_text(name) + "</extra>",
            )
        )
    layout: dict[str, Any] = {
        "showlegend": len(traces) > 1,
        "hovermode": "closest",
        "dragmode": False,
        "margin": {"l": 58, "r": 14, "t": 12 + (22 if len(traces) > 1 else 0), "b": 44},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "maxheight": 88},
        "xaxis": axis("rounds", rangemode="tozero"),
        "yaxis": axis(title, tickformat=".0%" if share else None),
        "shapes": [level(target, color=palette.muted, width=1.2, dash="dot") for target in targets],
        "annotations": [_target_label(target, share, palette) for target in targets],
    }
    if rounds:
        layout["xaxis"]["range"] = [0, rounds]
    return styled(traces, palette, height=height, layout=layout)


def _target_label(target: float, share: bool, palette: Palette) -> dict[str, Any]:
    place = {"x": 1, "xref": "paper", "xanchor": "right", "y": target, "yanchor": "bottom", "showarrow": False}
    text = f"target {target:.0%}" if share else f"target {target:g}"
    return {"text": text, "font": {"size": 12, "color": palette.muted}, **place}


def learning_curves_figure(
    runs: Sequence[Run], *, measure: str = "eval_accuracy", palette: Palette = LIGHT, height: int = 440
) -> go.Figure:
    """One curve per run; accuracy also gets each target as a level line.

    Raises:
        InvalidInputError: an unknown measure.
    """
    if measure not in MEASURES:
        raise InvalidInputError(f"unknown measure {measure!r}; choose one of {', '.join(MEASURES)}")
    is_share = measure == "eval_accuracy"
    targets = sorted({float(run.config["target"]) for run in runs if run.config.get("target")}) if is_share else ()
    return curves_figure(
        {run.path.name: (run.metrics["round"], run.metrics[measure]) for run in runs},
        title=MEASURES[measure],
        share=is_share,
        targets=targets,
        palette=palette,
        height=height,
    )


def confusion_figure(confusion_CC: ArrayLike, labels: Sequence[str], *, palette: Palette = LIGHT) -> go.Figure:
    """Rows of each label by what was predicted. A cell's shade is its share of the row's label."""
    confusion_CC = np.asarray(confusion_CC)
    rows_C = confusion_CC.sum(axis=1, keepdims=True)
    share_CC = np.divide(confusion_CC, rows_C, out=np.zeros(confusion_CC.shape), where=rows_C > 0)
    names = [_short(name) for name in labels]
    few = len(labels) <= _MOST_CELLS_WITH_TEXT
    heatmap = trace(
        "heatmap",
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
    model's share as a second marker.

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
        trace(
            "scatter",
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
            trace(
                "scatter",
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
