"""The figure of an activation matrix: who trains which block, the popularity of each block, and each client's VRAM.

Shapes: M blocks, N clients. ``A_MN`` bool; ``order_N`` int64, the clients from left to right; ``used_N_gib`` and
``capacity_N_gib`` float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from zorba_core.plots.theme import LIGHT, Palette, axis, styled, trace

_MOST_WITH_GAPS = 120  # clients; with more, the gaps would cover the cells
_BARS = 0.12  # share of the width for the bars of popularity
# Invisible clients left and right of the others, so that the stairs of the first and the last have their full width.
_BEFORE, _AFTER = " ", "  "


def allocation_figure(
    A_MN: NDArray[np.bool_],
    *,
    names: Sequence[str] | None = None,
    used_N_gib: ArrayLike | None = None,
    capacity_N_gib: ArrayLike | None = None,
    parameters_gib: float = 0.0,
    order_N: ArrayLike | None = None,
    palette: Palette = LIGHT,
    height: int | None = None,
) -> go.Figure:
    """Blocks (rows) by clients (columns), a filled cell for an activated block, and each block's popularity on the
    right; with ``used_N_gib`` and ``capacity_N_gib``, each client's VRAM above its column.

    Args:
        parameters_gib: VRAM of the parameters, which every client needs (psi_md).
    """
    A_MN = np.asarray(A_MN, dtype=bool)
    M, N = A_MN.shape
    order_N = np.arange(N) if order_N is None else np.asarray(order_N)
    name_N = [f"client {n}" if names is None else names[int(n)] for n in order_N]
    with_vram = used_N_gib is not None and capacity_N_gib is not None
    height = height or int(np.clip(18 * M, 220, 480)) + (130 if with_vram else 0)
    top = 1 - (min(0.42, 110 / height) if with_vram else 0)  # share of the height below the VRAM
    labelled = top * (height - 40) / M >= 13  # pixels of a row
    popularity_M = A_MN.sum(axis=1)
    traces: list[Any] = [
        _cells(A_MN[:, order_N], name_N, palette),
        _popularity_bars(popularity_M, N, labelled, palette),
    ]
    if with_vram:
        used_N, capacity_N = (np.asarray(gib, float)[order_N] for gib in (used_N_gib, capacity_N_gib))
        traces += _vram_areas(used_N, capacity_N, parameters_gib, name_N, palette)
    layout = {
        "margin": {"l": 52, "r": 8, "t": 20 if with_vram else 6, "b": 30},
        "bargap": 0.12,
        "hoverdistance": -1,  # the nearest client of the stairs, however far its points are from the pointer
        "dragmode": False,
        "showlegend": with_vram,
        "legend": {  # on the left: plotly's buttons are on the right
            "orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "traceorder": "normal",
            "bgcolor": palette.paper, "font": {"size": 12},
        },
        **_axes(M, name_N, popularity_M, top, with_vram),
    }  # fmt: skip
    return styled(traces, palette, height=height, layout=layout)


def _cells(A_MN: NDArray[np.bool_], name_N: Sequence[str], palette: Palette) -> dict[str, Any]:
    gap = 1 if len(name_N) <= _MOST_WITH_GAPS else 0
    return trace(
        "heatmap",
        x=name_N,
        z=A_MN.astype(int).tolist(),
        zmin=0,
        zmax=1,
        colorscale=[[0, palette.faint], [1, palette.front]],
        showscale=False,
        xgap=gap,
        ygap=gap,
        hovertemplate="%{x}, block %{y}<extra></extra>",
    )


def _axes(
    M: int, name_N: Sequence[str], popularity_M: NDArray[np.int64], top: float, with_vram: bool
) -> dict[str, Any]:
    """The matrix below ``top``, the popularity right of it, the VRAM above it."""
    N = len(name_N)
    bare = {"showticklabels": False, "showgrid": False}
    names = {"type": "category", "categoryarray": [_BEFORE, *name_N, _AFTER]}
    across = {"domain": [0, 1 - _BARS - 0.01], "range": [0.5, N + 0.5]}
    down = {"domain": [0, top - (0.03 if with_vram else 0)], "range": [M - 0.5, -0.5]}  # block 0, the input's, on top
    beyond = {"domain": [1 - _BARS, 1], "range": [0, 1.5 * max(1, int(popularity_M.max()))]}
    axes = {
        "xaxis": axis(f"{N:,} clients", 4, **names, **across, **bare),
        "yaxis": axis("block", 6, nticks=7, showgrid=False, **down),
        "xaxis2": axis("clients", 4, **beyond, **bare),
    }
    if with_vram:
        apart = {"ticklabelshift": -5}  # pixels upwards: the label 0 would touch that of the first block
        axes["yaxis2"] = axis("GiB", 6, domain=[top, 1], rangemode="tozero", nticks=4, **apart)
    return axes


def client_order(A_MN: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Clients with most blocks first, then by their first block, which groups equal columns."""
    return np.lexsort((A_MN.argmax(axis=0), -A_MN.sum(axis=0)))


def _popularity_bars(
    popularity_M: NDArray[np.int64], num_clients: int, labelled: bool, palette: Palette
) -> dict[str, Any]:
    """``labelled``: each row has room for its number; otherwise only the most and the least popular block show it."""
    scarce_M = (popularity_M == popularity_M.min()) & (popularity_M.min() < 0.8 * popularity_M.max())
    ends_M = np.isin(np.arange(len(popularity_M)), (popularity_M.argmax(), popularity_M.argmin()))
    return trace(
        "bar",
        x=popularity_M.tolist(),
        y=list(range(len(popularity_M))),
        orientation="h",
        text=np.where(ends_M | labelled, popularity_M.astype(str), "").tolist(),
        textposition="outside",
        textfont={"size": 11, "color": palette.text},
        constraintext="none",
        cliponaxis=False,
        marker={"color": np.where(scarce_M, palette.selected, palette.quiet).tolist()},
        hovertext=np.where(scarce_M, ", far fewer than others have", "").tolist(),
        hovertemplate="block %{y} is trained by %{x} of " + f"{num_clients} clients%{{hovertext}}<extra></extra>",
        showlegend=False,
        xaxis="x2",
    )


def _vram_areas(
    used_N: NDArray[np.float64],
    capacity_N: NDArray[np.float64],
    parameters_gib: float,
    name_N: Sequence[str],
    palette: Palette,
) -> list[Any]:
    """Stairs with a step for each client: a browser draws three areas in a third of the time of 150 bars. The first has
    the hover text for all, which halves what a page with 1,000 clients gets."""

    def at_ends(gib_N: NDArray[np.float64]) -> list[float]:
        return np.pad(gib_N.round(6), 1, mode="edge").tolist()  # to a KiB: a block of a small model is under a MiB

    hover = {
        "customdata": at_ends(used_N),
        "hovertemplate": "%{x} uses %{customdata:.2f} of %{y:.2f} GiB<extra></extra>",
    }
    shared = {
        "x": [_BEFORE, *name_N, _AFTER],
        "yaxis": "y2",
        "mode": "lines",
        "line": {"width": 0, "shape": "hvh"},
        "fill": "tozeroy",
    }
    areas = (
        (capacity_N, "free", palette.faint, hover),
        (used_N, "blocks", palette.front, {"hoverinfo": "skip"}),
        (np.minimum(parameters_gib, used_N), "model", palette.muted, {"hoverinfo": "skip"}),
    )
    return [
        trace("scatter", y=at_ends(gib_N), name=name, fillcolor=color, **shared, **more)
        for gib_N, name, color, more in areas
    ]
