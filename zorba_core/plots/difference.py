"""Two activation matrices in one picture: what both have, and what only one has.

Shapes: M blocks, N clients. ``A_MN``, ``B_MN`` bool; ``order_N`` int64, the clients from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from zorba_core.plots.theme import LIGHT, Palette, styled


def matched_blocks(A_MN: NDArray[np.bool_], B_MN: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The order of B's rows in which as few cells as possible differ from A. Lambda, V and N_eff do not know the order
    of blocks, so two solvers may name the same allocation differently."""
    shared_MM = A_MN.astype(np.float32) @ B_MN.astype(np.float32).T
    return linear_sum_assignment(shared_MM, maximize=True)[1]


def difference_figure(
    A_MN: NDArray[np.bool_],
    B_MN: NDArray[np.bool_],
    *,
    labels: tuple[str, str],
    names: Sequence[str],
    order_N: ArrayLike,
    palette: Palette = LIGHT,
) -> go.Figure:
    """Cells of both are pale, cells of A alone squares, cells of B alone rings. ``order_N`` may leave clients out."""
    order_N = np.asarray(order_N)
    a, b = np.asarray(A_MN, bool)[:, order_N], np.asarray(B_MN, bool)[:, order_N]
    num_blocks, shown = a.shape
    label_N = np.array([names[n] for n in order_N], dtype=object)
    size = float(np.clip(760 / max(shown, 1) - 3, 4, 14))
    traces = [
        go.Heatmap(
            z=(a & b).astype(np.uint8),
            zmin=0,
            zmax=1,
            colorscale=[[0, palette.faint], [1, palette.quiet]],
            showscale=False,
            xgap=2 if shown <= 60 else 1,
            ygap=2,
            customdata=np.broadcast_to(label_N, a.shape),
            text=np.where(a & b, "both train it", np.where(a | b, "one trains it", "neither trains it")),
            hovertemplate="%{customdata}, block %{y}: %{text}<extra></extra>",
        ),
        _only(a & ~b, f"only {labels[0]}", "square", palette.front, size, label_N),
        _only(b & ~a, f"only {labels[1]}", "circle-open", palette.selected, size, label_N),
    ]
    layout = {
        "margin": {"l": 66, "r": 12, "t": 12, "b": 46},
        "dragmode": False,
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": {
            "range": [-0.5, max(shown, 1) - 0.5],
            "title": {"text": f"{shown} of {A_MN.shape[1]} clients"},
            "showgrid": False,
            "showticklabels": False,
        },
        "yaxis": {
            "range": [num_blocks - 0.5, -0.5],
            "dtick": 1 if num_blocks <= 40 else None,
            "title": {"text": "block"},
            "showgrid": False,
        },
    }
    return styled(traces, palette, height=int(np.clip(20 * num_blocks, 240, 560)) + 100, layout=layout)


def _only(
    cells: NDArray[np.bool_], name: str, symbol: str, color: str, size: float, label_N: NDArray[np.object_]
) -> go.Scatter:
    blocks, clients = np.nonzero(cells)
    return go.Scatter(
        x=clients,
        y=blocks,
        mode="markers",
        name=f"{name} ({len(blocks)})",
        marker={"symbol": symbol, "size": size, "color": color, "line": {"width": 2, "color": color}},
        customdata=label_N[clients],
        hovertemplate="%{customdata}, block %{y}: " + name + "<extra></extra>",
    )
