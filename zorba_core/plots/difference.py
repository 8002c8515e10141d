"""Two activation matrices in one picture: their common cells, and the cells of only one.

Shapes: M blocks, N clients. ``A_MN``, ``B_MN`` bool; ``order_N`` int64, the clients from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from zorba_core.plots.matrix import MatrixCanvas
from zorba_core.plots.theme import LIGHT, Palette

_SIDE = 0.8  # of a mark, as a share of its cell's


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
    """Cells of both are pale, cells of A alone filled, cells of B alone outlined. ``order_N`` may leave clients out."""
    order_N = np.asarray(order_N)
    a, b = np.asarray(A_MN, bool)[:, order_N], np.asarray(B_MN, bool)[:, order_N]
    shown = a.shape[1]
    label_N = np.array([names[n] for n in order_N], dtype=object)
    canvas = MatrixCanvas(a.shape[0], order_N, np.arange(shown + 1), list(label_N), palette)
    text = np.where(a & b, "both train it", np.where(a | b, "one trains it", "neither trains it"))
    traces = [
        canvas.cells(a & b, palette.quiet, "%{customdata}, block %{y}: %{text}", text),
        _only(a & ~b, f"only {labels[0]}", True, palette.front, canvas),
        _only(b & ~a, f"only {labels[1]}", False, palette.selected, canvas),
    ]
    return canvas.figure(traces, clients=f"{shown} of {A_MN.shape[1]} clients", showlegend=True)


def _only(cells: NDArray[np.bool_], name: str, filled: bool, color: str, canvas: MatrixCanvas) -> go.Bar:
    """Bars, since these are as wide as a cell on every screen; markers would cover the neighbours' on a phone."""
    blocks, clients = np.nonzero(cells)
    label_N = np.array(canvas.label_G, dtype=object)
    return go.Bar(
        x=clients,
        base=blocks - _SIDE / 2,
        y=np.full(len(blocks), _SIDE),
        width=_SIDE,
        name=f"{name} ({len(blocks)})",
        marker={
            "color": color if filled else "rgba(0,0,0,0)",
            "line": {"width": 1 if canvas.narrow else 2, "color": color},
        },
        customdata=np.column_stack((label_N[clients], blocks)),
        hovertemplate="%{customdata[0]}, block %{customdata[1]}: " + name + "<extra></extra>",
    )
