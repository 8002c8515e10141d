"""Figures of the experiments: matrices side by side, seeds beside their mean, and what predicts a loss.

Shapes: M blocks, N clients, K allocations. Tables are those of ``zorba_core.study.experiments.analysis``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from zorba_core.allocation import Allocation
from zorba_core.plots.theme import LIGHT, SYMBOLS, Palette, apply

WIDTH = 900
_COLUMNS = 3  # of panels side by side
MEASURE_NAMES: Mapping[str, str] = {
    "lambda": "Λ",
    "V": "V",
    "E": "E, coupled noise",  # up to the comma: above a panel
    "D": "D, direction coupling",
    "inverse_N_eff": "1 / N_eff",
    "inverse_T": "1 / T",
    "inverse_min_c": "1 / scarcest popularity",
}


def matrices_figure(allocations: Mapping[str, Allocation], *, palette: Palette = LIGHT) -> go.Figure:
    """Activation matrices side by side, scarcest block on top, clients with most blocks left; each row ends with its
    popularity."""
    figure = make_subplots(1, len(allocations), subplot_titles=list(allocations), horizontal_spacing=0.06)
    for column, allocation in enumerate(allocations.values(), start=1):
        order_M = np.argsort(allocation.popularity_M, kind="stable")
        order_N = np.lexsort((allocation.A_MN.argmax(axis=0), -allocation.blocks_held_N))
        cells = allocation.A_MN[order_M][:, order_N]
        figure.add_heatmap(
            z=cells.astype(np.uint8),
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


def seeds_figure(
    table: pd.DataFrame,
    intervals: Mapping[str, tuple[float, float, float]],
    *,
    y: str,
    palette: Palette = LIGHT,
) -> go.Figure:
    """One column of ``table`` (index seed) an arm: every seed as a line through the arms, and beside them the arm's
    mean with its interval from ``intervals`` (mean, low, high; an interval that is not finite is not drawn)."""
    arms = list(table.columns)
    figure = go.Figure()
    for index, (seed, row) in enumerate(table.iterrows()):
        figure.add_scatter(
            x=list(range(len(arms))),
            y=row.tolist(),
            mode="lines+markers",
            name=f"seed {seed}",
            line={"color": palette.quiet, "width": 1.2},
            marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 8, "color": palette.muted},
        )
    intervals_by_arm = [(at, intervals[arm]) for at, arm in enumerate(arms) if arm in intervals]
    arms_up = [high - mean if np.isfinite(high) else 0.0 for _, (mean, low, high) in intervals_by_arm]
    arms_down = [mean - low if np.isfinite(low) else 0.0 for _, (mean, low, high) in intervals_by_arm]
    figure.add_scatter(
        x=[at + 0.12 for at, _ in intervals_by_arm],
        y=[mean for _, (mean, low, high) in intervals_by_arm],
        error_y={"type": "data", "array": arms_up, "arrayminus": arms_down, "thickness": 2.5, "width": 8},
        mode="markers",
        name="mean, 95 % interval",
        marker={"symbol": "diamond", "size": 13, "color": palette.selected},
    )
    apply(figure, palette, height=380)
    figure.update_xaxes(tickvals=list(range(len(arms))), ticktext=arms, range=[-0.5, len(arms) - 0.5])
    figure.update_yaxes(title=y)
    return figure.update_layout(width=WIDTH)


def predictors_figure(
    table: pd.DataFrame,
    measures: Sequence[str],
    *,
    y: str,
    notes: Mapping[str, str] | None = None,
    standard_error: float | None = None,
    palette: Palette = LIGHT,
) -> go.Figure:
    """Loss of each allocation against each measure, a panel each, log scale, coloured by who made it
    (column ``made_by``), with the standard error of a point where it is known; allocations that diverged are left out.
    ``notes`` are written above the panels."""
    ended = table[np.isfinite(table["loss"])]
    rows = -(-len(measures) // _COLUMNS)
    titles = [
        f"{MEASURE_NAMES[measure].split(',')[0]}   {(notes or {}).get(measure, '')}".strip() for measure in measures
    ]
    figure = make_subplots(
        rows,
        _COLUMNS,
        subplot_titles=titles,
        shared_yaxes=True,
        horizontal_spacing=0.03,
        vertical_spacing=0.16 if rows > 1 else 0,
    )
    for index, (family, inside) in enumerate(ended.groupby("made_by", sort=False)):
        for place, measure in enumerate(measures):
            figure.add_scatter(
                x=inside[measure],
                y=inside["loss"],
                error_y=_noise_bars(standard_error),
                text=list(inside.index),
                mode="markers",
                name=family,
                legendgroup=family,
                showlegend=place == 0,
                marker={"color": palette.series[index], "symbol": SYMBOLS[index], "size": 9, "opacity": 0.85},
                hovertemplate="%{text}: %{y:.4f}<extra></extra>",
                row=place // _COLUMNS + 1,
                col=place % _COLUMNS + 1,
            )
    apply(figure, palette, height=90 + 270 * rows)
    # Left to itself a log axis that spans less than a decade labels every minor step.
    figure.update_xaxes(type="log", tickvals=[step * 10.0**decade for decade in range(-4, 4) for step in (1, 2, 5)])
    figure.update_yaxes(title=y, col=1)
    return figure.update_layout(
        width=WIDTH,
        margin={"t": 70, "l": 8, "r": 8, "b": 8},
        legend={"orientation": "h", "x": 0, "y": 1.0 + 0.17 / rows},
    )


def _noise_bars(standard_error: float | None) -> dict:
    return {} if standard_error is None else {"type": "constant", "value": standard_error, "thickness": 1, "width": 0}
