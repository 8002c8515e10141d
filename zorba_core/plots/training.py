"""Runs: learning curves over their rounds, the confusion of labels, and the accuracy of each client.

Shapes: P points of a curve, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from zorba_core.errors import InvalidInputError
from zorba_core.plots.theme import DASHES, LIGHT, SYMBOLS, Palette, as_text, axis, level, log_axis, styled, trace

if TYPE_CHECKING:
    from zorba_core.runs import Run

AXES = {"round": "rounds", "forward_passes": "forward passes of a client", "seconds": "seconds in rounds"}
MEASURES = {
    "eval_accuracy": "Accuracy on held-out rows",
    "eval_loss": "Loss on held-out rows",
    "train_loss": "Loss on the clients' batches",
}
_MARKED_UP_TO = 60  # points; more markers would hide the line
MOST_CLIENTS = 60
_MOST_LABELS = 20  # a matrix of more labels has no numbers in its cells
_LONGEST = 28  # characters of a label at an axis


def curves_figure(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    title: str,
    bands: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]] | None = None,
    x_title: str = "rounds",
    log: bool = False,
    log_x: bool = False,
    rounds: int | None = None,
    share: bool = False,
    targets: Sequence[float] = (),
    palette: Palette = LIGHT,
    height: int = 300,
) -> go.Figure:
    """Values against rounds, each curve with a colour, a dash and a marker.

    Args:
        curves: rounds and values of each curve by its name. NaN is skipped.
        bands: rounds, lowest and highest values around some of the curves, by the same names.
        log: a logarithmic axis of the values.
        log_x: a logarithmic axis of the rounds; a value before the first round is not on it.
        rounds: the end of the axis; by default the last round of the curves.
        share: show the values in percent.
        targets: values to mark by level lines.
    """
    hover = ("%{y:.1%}" if share else "%{y:.4f}") + f" after %{{x}} {x_title}"
    traces = []
    for index, (name, (round_P, value_P)) in enumerate(curves.items()):
        if bands and name in bands:
            traces.append(_band(*bands[name], palette.series[index % len(palette.series)]))
        traces.append(_line(as_text(name), index, np.asarray(round_P), np.asarray(value_P, float), hover, palette))
    at, values = ([np.asarray(each[part], float) for each in curves.values()] for part in (0, 1))
    layout: dict[str, Any] = {
        "showlegend": len(curves) > 1,
        "hovermode": "closest",
        "dragmode": False,
        "margin": {"l": 58, "r": 14, "t": 12 + (22 if len(curves) > 1 else 0), "b": 44},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "maxheight": 88},
        "xaxis": _log_axis(x_title, at) if log_x else axis(x_title, rangemode="tozero"),
        "yaxis": axis(title, tickformat=".0%" if share else None),
        "shapes": [level(target, color=palette.muted, width=1.2, dash="dot") for target in targets],
        "annotations": [_target_label(target, share, palette) for target in targets],
    }
    if log:
        layout["yaxis"] = _log_axis(title, [*values, targets], share)
        for label in layout["annotations"]:
            label["y"] = np.log10(label["y"])  # of labels, unlike of lines, plotly wants the logarithm
    if rounds:
        layout["xaxis"]["range"] = [0, rounds]
    return styled(traces, palette, height=height, layout=layout)


def _line(
    name: str, index: int, round_P: np.ndarray, value_P: np.ndarray, hover: str, palette: Palette
) -> dict[str, Any]:
    """A curve with the colour, the dash and the marker of its place among the others."""
    known_P, color = ~np.isnan(value_P), palette.series[index % len(palette.series)]
    return trace(
        "scatter",
        x=round_P[known_P].tolist(),
        y=value_P[known_P].tolist(),
        mode="lines+markers" if known_P.sum() <= _MARKED_UP_TO else "lines",
        name=name,
        cliponaxis=False,
        line={"color": color, "width": 2.2, "dash": DASHES[index % len(DASHES)]},
        marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 6, "color": color},
        hovertemplate=f"{hover}<extra>{name}</extra>",
    )


def _log_axis(title: str, values: Sequence[ArrayLike], share: bool = False) -> dict[str, Any]:
    """A logarithmic axis around the values above 0, in percent for a ``share``."""
    value_P = np.concatenate([np.ravel(each) for each in values])
    value_P = value_P[value_P > 0]
    drawn = log_axis(title, value_P if value_P.size else [1.0])
    return {**drawn, "ticktext": [f"{tick:.3g}%" for tick in 100 * np.array(drawn["tickvals"])]} if share else drawn


def _band(x_P: ArrayLike, low_P: ArrayLike, high_P: ArrayLike, color: str) -> dict[str, Any]:
    x, low, high = (np.asarray(values, float).tolist() for values in (x_P, low_P, high_P))
    shape = {"x": [*x, *x[::-1]], "y": [*low, *high[::-1]], "fill": "toself", "fillcolor": color, "opacity": 0.18}
    return trace("scatter", **shape, mode="lines", line={"width": 0}, hoverinfo="skip", showlegend=False)


def _target_label(target: float, share: bool, palette: Palette) -> dict[str, Any]:
    place = {"x": 1, "xref": "paper", "xanchor": "right", "y": target, "yanchor": "bottom", "showarrow": False}
    text = f"target {target:.0%}" if share else f"target {target:g}"
    return {"text": text, "font": {"size": 12, "color": palette.muted}, **place}


def learning_curves_figure(
    runs: Sequence[Run],
    *,
    measure: str = "eval_accuracy",
    x: str = "round",
    log: bool = False,
    log_x: bool = False,
    smooth: int = 1,
    groups: Mapping[str, Sequence[Run]] | None = None,
    palette: Palette = LIGHT,
    height: int = 440,
) -> go.Figure:
    """One curve for each run, and for accuracy a level line for each target.

    Args:
        x: one of :data:`AXES`.
        log: a logarithmic axis of the values.
        log_x: a logarithmic axis of ``x``; the value before the first round is not on it.
        smooth: number of evaluations in a moving mean.
        groups: runs that are drawn together, as their mean with a band from the least to the most.

    Raises:
        InvalidInputError: an unknown measure or axis.
    """
    for what, value, known in (("measure", measure, MEASURES), ("axis", x, AXES)):
        if value not in known:
            raise InvalidInputError(f"unknown {what} {value!r}; choose one of {', '.join(known)}")
    is_share = measure == "eval_accuracy"
    targets = sorted({run.request.settings.target for run in runs if run.request.settings.target}) if is_share else ()
    curves, bands = {}, {}
    for name, members in (groups or {run.path.name: [run] for run in runs}).items():
        table = pd.concat([_evaluated(run, measure, x, smooth) for run in members]).groupby("round")
        at, value = table["x"].mean(), table["value"].agg(["mean", "min", "max"])
        curves[name] = at, value["mean"]
        if len(members) > 1:
            bands[name] = at, value["min"], value["max"]
    return curves_figure(
        curves,
        title=MEASURES[measure],
        bands=bands,
        x_title=AXES[x],
        log=log,
        log_x=log_x,
        share=is_share,
        targets=targets,
        palette=palette,
        height=height,
    )


def _evaluated(run: Run, measure: str, x: str, smooth: int) -> pd.DataFrame:
    """The rounds with a value: ``round``, ``x`` and the moving mean of the measure."""
    known = run.metrics.dropna(subset=[measure])
    value = known[measure].rolling(max(1, smooth), min_periods=1).mean()
    return pd.DataFrame({"round": known["round"], "x": known[x], "value": value})


def confusion_figure(confusion_CC: ArrayLike, labels: Sequence[str], *, palette: Palette = LIGHT) -> go.Figure:
    """Number of rows by label and predicted label. A cell's shade is its share of the label's rows."""
    confusion_CC = np.asarray(confusion_CC)
    rows_C = confusion_CC.sum(axis=1, keepdims=True)
    share_CC = np.divide(confusion_CC, rows_C, out=np.zeros(confusion_CC.shape), where=rows_C > 0)
    names = [as_text(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…") for name in labels]
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
    if len(labels) <= _MOST_LABELS:
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
        layout["xaxis"]["showticklabels"] = layout["yaxis"]["showticklabels"] = len(labels) <= 2 * _MOST_LABELS
    return styled([heatmap], palette, height=min(720, 150 + max(42 * len(labels), 120)), layout=layout)


def clients_figure(
    per_client: Sequence[Mapping[str, Any]], overall: float | None = None, *, palette: Palette = LIGHT
) -> go.Figure:
    """Accuracy of each client with its 95 % interval, the lowest on the left, and the base model's accuracy.

    Args:
        per_client: entries of an evaluation's ``per_client``; at most the lowest 60 are drawn.
        overall: accuracy over all rows, drawn as a line.
    """
    table = pd.DataFrame(list(per_client[:MOST_CLIENTS]))
    low, high = np.array(table["accuracy_interval"].tolist()).T
    shared = {"x": table["client"].astype(str).tolist(), "mode": "markers"}
    error = {"type": "data", "symmetric": False, "color": palette.front, "thickness": 1.2, "width": 0}
    traces = [
        trace(
            "scatter",
            **shared,
            y=table["accuracy"].tolist(),
            name="after fine-tuning",
            marker={"color": palette.front, "size": 9},
            error_y={
                **error,
                "array": (high - table["accuracy"]).tolist(),
                "arrayminus": (table["accuracy"] - low).tolist(),
            },
            customdata=table["rows"].tolist(),
            hovertemplate="client %{x}: %{y:.1%} of %{customdata} rows<extra>after</extra>",
        )
    ]
    if "base_accuracy" in table:
        traces.append(
            trace(
                "scatter",
                **shared,
                y=table["base_accuracy"].tolist(),
                name="before",
                marker={"color": palette.muted, "size": 8, "symbol": "diamond-open"},
                hovertemplate="client %{x}: %{y:.1%}<extra>before</extra>",
            )
        )
    layout: dict[str, Any] = {
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "xaxis": {"title": {"text": "client, lowest accuracy first"}, "type": "category", "showgrid": False},
        "yaxis": {"title": {"text": "accuracy"}, "tickformat": ".0%", "range": [-0.03, 1.03]},
        "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
    }
    if overall is not None:
        layout["shapes"] = [level(overall, color=palette.selected, width=1.5, dash="dash")]
    return styled(traces, palette, height=340, layout=layout)
