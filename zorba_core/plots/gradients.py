"""The clients' gradients as they were measured beside a run: who has how much in which block, and what it comes to.

Shapes: M blocks, N clients. ``order_N`` int64, the clients from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from zorba_core.plots.axes import level
from zorba_core.plots.matrix import MatrixCanvas, column_means
from zorba_core.plots.theme import LIGHT, Palette, styled
from zorba_core.runs.diagnostics import Measured


def gradients_figure(
    measured: Measured,
    *,
    order_N: ArrayLike | None = None,
    palette: Palette = LIGHT,
) -> go.Figure:
    """Blocks (rows) by clients (columns), darker for a longer gradient; on the right each block's share of the energy,
    sum_m G_m, beside its share of the noise, sum_m s_m^2."""
    num_blocks, num_clients = measured.norm_MN.shape
    order_N = np.arange(num_clients) if order_N is None else np.asarray(order_N)
    names = [f"client-{n}" for n in range(num_clients)]
    canvas = MatrixCanvas.of(num_blocks, names, order_N, palette, right=0.22)
    norm_MG = np.stack([column_means(norm_N[order_N].astype(float), canvas.edge) for norm_N in measured.norm_MN])
    longest = float(np.nanmax(norm_MG, initial=0.0)) or 1.0
    text = np.array([[f"{norm:.3g}" for norm in norm_G] for norm_G in norm_MG])
    what = "mean gradient norm" if canvas.grouped else "gradient norm"
    energy_M, noise_M = share(measured.energy_M), share(measured.noise_M)
    traces = [
        canvas.cells(
            np.nan_to_num(norm_MG / longest), palette.front, "%{customdata}, block %{y}: " + what + " %{text}", text
        ),
        canvas.block_bars(
            energy_M,
            [f"{value:.0%}" for value in energy_M],
            "block %{y}: %{x:.1%} of the energy ΣG",
            {"color": palette.front},
        ),
        go.Scatter(
            x=noise_M,
            y=np.arange(num_blocks),
            mode="markers",
            marker={"symbol": "diamond", "size": 8, "color": palette.selected},
            name="share of the noise Σs²",
            xaxis="x2",
            hovertemplate="block %{y}: %{x:.1%} of the noise Σs²<extra></extra>",
        ),
    ]
    return canvas.figure(
        traces,
        clients=f"{num_clients} clients; the darkest gradient has norm {longest:.3g}",
        showlegend=True,
        xaxis2={
            "range": [0, 1.3 * max(energy_M.max(initial=0.0), noise_M.max(initial=0.0), 0.01)],
            "title": {"text": "share of energy (bars)"},
        },
    )


def share(value_M: np.ndarray) -> np.ndarray:
    """Of their sum; what noise has made negative, or nobody could measure, counts as nothing."""
    value_M = np.maximum(np.nan_to_num(value_M), 0.0)
    return value_M / (value_M.sum() or 1.0)


def measures_figure(
    measured: Sequence[Measured],
    *,
    v: float | None = None,
    e: float | None = None,
    palette: Palette = LIGHT,
    height: int = 260,
) -> go.Figure:
    """V and E as the gradients have them, over rounds; ``v`` and ``e`` are what they would be of independent and equal
    noise, as dashed lines."""
    rounds = [row.round for row in measured]
    traces, shapes = [], []
    for name, values, expected, color, symbol in (
        ("V as measured", [row.v for row in measured], v, palette.front, "circle"),
        ("E as measured", [row.e for row in measured], e, palette.selected, "square"),
    ):
        traces.append(
            go.Scatter(
                x=rounds,
                y=values,
                mode="lines+markers",
                name=name,
                line={"color": color, "width": 2},
                marker={"symbol": symbol, "size": 7, "color": color},
                hovertemplate="%{y:.3g} after %{x} rounds<extra>" + name + "</extra>",
            )
        )
        if expected is not None and np.isfinite(expected):
            shapes.append(level(expected, color=color, width=1, dash="dash"))
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "Rounds"}},
        "yaxis": {"rangemode": "tozero", "title": {"text": "V and E"}},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
        "shapes": shapes,
        "showlegend": True,
    }
    return styled(traces, palette, height=height, layout=layout)
