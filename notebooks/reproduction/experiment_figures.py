"""Figures of the experiments: matrices side by side, learning curves, differences between arms, and loss against
measures. Tables have the columns of :mod:`notebooks.reproduction.sweep`.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from notebooks.reproduction.frames import groups, where
from zorba_core.allocation import Allocation
from zorba_core.plots.allocation import client_order
from zorba_core.plots.theme import DASHES, LIGHT, SYMBOLS, Palette, apply

WIDTH = 900
MEASURE_NAMES: Mapping[str, str] = {
    "lambda": "Λ",
    "V": "V",
    "E": "E, coupled noise",
    "D": "D, direction coupling",
    "N_eff": "N_eff",
    "T": "activated blocks T",
    "min_c": "scarcest popularity",
}


def matrices_figure(allocations: Mapping[str, Allocation], *, palette: Palette = LIGHT) -> go.Figure:
    """Activation matrices side by side, scarcest block on top, clients with most blocks left; each row ends with its
    popularity."""
    figure = make_subplots(1, len(allocations), subplot_titles=list(allocations), horizontal_spacing=0.06)
    for column, allocation in enumerate(allocations.values(), start=1):
        order_M = np.argsort(allocation.popularity_M, kind="stable")
        order_N = client_order(allocation.A_MN)
        figure.add_heatmap(
            z=allocation.A_MN[order_M][:, order_N].astype(np.uint8),
            colorscale=[[0, palette.faint], [1, palette.front]],
            zmin=0,
            zmax=1,
            showscale=False,
            xgap=0.5,
            ygap=1.5,
            hovertemplate="client %{x}, block rank %{y}: %{z}<extra></extra>",
            row=1,
            col=column,
        )
        figure.update_yaxes(
            tickvals=list(range(allocation.num_blocks)),
            ticktext=[str(count) for count in allocation.popularity_M[order_M]],
            autorange="reversed",
            showgrid=False,
            row=1,
            col=column,
        )
        figure.update_xaxes(title=f"{allocation.num_clients} clients", showticklabels=False, row=1, col=column)
    figure.update_yaxes(title="clients on the block", row=1, col=1)
    apply(figure, palette, height=330)
    return figure.update_layout(width=WIDTH, margin={"t": 34, "l": 8, "r": 8, "b": 8})


def arm_curves_figure(table: pd.DataFrame, *, palette: Palette = LIGHT) -> go.Figure:
    """Mean loss over seeds against rounds, a line for each arm of one cell, with the range over seeds. A line ends
    where the first of its runs ends."""
    figure = go.Figure()
    runs = where(table, table["role"] == "measure")
    for index, (arm, rows) in enumerate(groups(runs, "arm", sort=False)):
        at = cast(pd.DataFrame, rows.groupby("round")["loss"].agg(["mean", "min", "max", "count"]))
        at = where(at, at["count"] == at["count"].max())
        color = palette.series[index % len(palette.series)]
        figure.add_scatter(
            x=[*at.index, *at.index[::-1]],
            y=[*at["max"], *at["min"][::-1]],
            fill="toself",
            fillcolor=color,
            opacity=0.12,
            line={"width": 0},
            hoverinfo="skip",
            showlegend=False,
        )
        figure.add_scatter(
            x=at.index,
            y=at["mean"],
            name=f"{arm} ({at['count'].max()})",
            mode="lines+markers",
            line={"color": color, "dash": DASHES[index % len(DASHES)], "width": 2.2},
            marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 7},
        )
    apply(figure, palette, height=380)
    figure.update_xaxes(title="rounds").update_yaxes(title="loss, nats")
    return figure.update_layout(width=WIDTH, margin={"t": 20, "l": 8, "r": 8, "b": 8})


def differences_figure(
    differences: Mapping[str, pd.DataFrame], *, x: str, margin: float = 0.0, palette: Palette = LIGHT
) -> go.Figure:
    """A row for each comparison and cell: the mean with a 95 % interval, and a dot for each seed.

    Args:
        differences: rows of :func:`notebooks.reproduction.statistics.paired`, by the name of the comparison.
        margin: half the width of a band around zero.
    """
    from notebooks.reproduction.statistics import CELL, mean_interval

    figure, ticks = go.Figure(), []
    for name, rows in differences.items():
        for (base, task, *_), cell in groups(rows, CELL, sort=False):
            seeds, mean = cell["difference"], mean_interval(cell["difference"])
            y, finite = len(ticks), np.isfinite(mean.high)
            ticks.append(f"{name}<br><span style='color:{palette.muted}'>{base}, {task}</span>")
            figure.add_scatter(
                x=seeds, y=[y] * len(seeds), mode="markers", marker={"color": palette.quiet, "size": 6}, name="a seed"
            )
            figure.add_scatter(
                x=[mean.value],
                y=[y],
                error_x={"array": [mean.high - mean.value if finite else 0], "thickness": 2.2, "width": 6},
                mode="markers",
                marker={"symbol": "diamond", "size": 11, "color": palette.selected},
                name="mean, 95 % interval",
            )
    figure.add_vline(x=0, line={"color": palette.muted, "width": 1.5})
    if margin:
        figure.add_vrect(x0=-margin, x1=margin, fillcolor=palette.faint, layer="below", line_width=0)
    apply(figure, palette, height=90 + 46 * max(len(ticks), 1))
    figure.update_traces(showlegend=False)
    figure.update_yaxes(tickvals=list(range(len(ticks))), ticktext=ticks, autorange="reversed").update_xaxes(title=x)
    return figure.update_layout(width=WIDTH, margin={"t": 12, "l": 8, "r": 8, "b": 8})


def predictors_figure(table: pd.DataFrame, measures: Sequence[str], *, palette: Palette = LIGHT) -> go.Figure:
    """Mean late loss of each arm against each measure, a panel with a log axis for each measure. ``table`` has a row
    for each arm: the measures, ``loss`` and its standard error ``error``; the index is the arm's name."""
    titles = [MEASURE_NAMES[measure] for measure in measures]
    figure = make_subplots(1, len(measures), subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.03)
    for column, measure in enumerate(measures, start=1):
        figure.add_scatter(
            x=table[measure],
            y=table["loss"],
            error_y={"array": table["error"], "thickness": 1, "width": 0},
            text=table.index,
            mode="markers",
            marker={"color": palette.front, "size": 9, "opacity": 0.85},
            hovertemplate="%{text}: %{y:.4f}<extra></extra>",
            row=1,
            col=column,
        )
    apply(figure, palette, height=360)
    # By default plotly labels every minor step of a log axis shorter than a decade.
    figure.update_xaxes(type="log", tickvals=[step * 10.0**decade for decade in range(-4, 4) for step in (1, 2, 5)])
    figure.update_traces(showlegend=False).update_yaxes(title="late loss, nats", col=1)
    return figure.update_layout(width=WIDTH, margin={"t": 34, "l": 8, "r": 8, "b": 8})
