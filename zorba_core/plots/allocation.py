"""An activation matrix as one picture: who trains which block, how often each block is trained, and what it costs.

Shapes: M blocks, N clients. ``A_MN`` bool; ``order_N`` int64, the clients from left to right; ``used_N_gib`` and
``capacity_N_gib`` float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from zorba_core.plots.theme import LIGHT, Palette, styled

# Above this many clients a gap between cells would leave nothing of the cells.
_GAP_UP_TO = 120
_VRAM_HEIGHT = 190.0


def allocation_figure(
    A_MN: NDArray[np.bool_],
    *,
    names: Sequence[str] | None = None,
    used_N_gib: ArrayLike | None = None,
    capacity_N_gib: ArrayLike | None = None,
    parameters_gib: float = 0.0,
    order_N: ArrayLike | None = None,
    palette: Palette = LIGHT,
) -> go.Figure:
    """Blocks (rows) by clients (columns), a filled cell for an activated block; each block's popularity c_m on the
    right and, when ``used_N_gib`` and ``capacity_N_gib`` are given, each client's VRAM against its capacity on top.

    ``parameters_gib`` is the part of the use that every client pays whatever it activates (psi_md).
    """
    A_MN = np.asarray(A_MN, dtype=bool)
    num_blocks, num_clients = A_MN.shape
    order_N = np.arange(num_clients) if order_N is None else np.asarray(order_N)
    label_N = [f"client-{n}" for n in range(num_clients)] if names is None else list(names)
    label_N = [label_N[n] for n in order_N]
    popularity_M = A_MN.sum(axis=1)
    with_vram = used_N_gib is not None and capacity_N_gib is not None
    matrix_height = float(np.clip(20 * num_blocks, 240, 560))
    vram_height = _VRAM_HEIGHT if with_vram else 0.0
    matrix_top = matrix_height / (matrix_height + vram_height) - (0.02 if with_vram else 0.0)
    traces = [
        _cells(A_MN[:, order_N], label_N, palette),
        _popularity_bars(popularity_M, num_clients, palette),
    ]
    layout = {
        "margin": {"l": 66, "r": 12, "t": 12, "b": 46},
        "barmode": "overlay",
        "bargap": 0.15,
        "dragmode": False,
        "showlegend": with_vram,
        "legend": {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom", "traceorder": "normal"},
        "xaxis": {
            "domain": [0, 0.83],
            "range": [-0.5, num_clients - 0.5],
            "title": {"text": f"{num_clients} clients"},
            "automargin": False,
            "showgrid": False,
            "showticklabels": False,
        },
        "xaxis2": {
            "domain": [0.845, 1],
            "anchor": "y",
            "range": [0, 1.35 * max(1, int(popularity_M.max()))],
            "title": {"text": "popularity"},
            "automargin": False,
            "showgrid": False,
            "showticklabels": False,
        },
        "yaxis": {
            "domain": [0, matrix_top],
            "range": [num_blocks - 0.5, -0.5],  # block 0, next to the input, on top
            "dtick": 1 if num_blocks <= 40 else None,
            "title": {"text": "block"},
            "automargin": False,
            "showgrid": False,
        },
    }
    if with_vram:
        used, capacity = np.asarray(used_N_gib, float)[order_N], np.asarray(capacity_N_gib, float)[order_N]
        traces += _vram_bars(used, capacity, parameters_gib, label_N, palette)
        layout["yaxis2"] = {
            "domain": [matrix_top + 0.04, 1],
            "anchor": "x",
            "rangemode": "tozero",
            "title": {"text": "VRAM (GiB)"},
            "automargin": False,
        }
    return styled(traces, palette, height=int(matrix_height + vram_height + 110), layout=layout)


def client_order(A_MN: NDArray[np.bool_], capacity_N: ArrayLike, by: str) -> NDArray[np.int64]:
    """Clients from left to right: ``"given"``, ``"vram"`` (largest first) or ``"blocks"`` (most blocks first, then by
    the first block held, so that like columns stand together)."""
    num_clients = A_MN.shape[1]
    if by == "vram":
        return np.argsort(-np.asarray(capacity_N, float), kind="stable")
    if by == "blocks":
        return np.lexsort((A_MN.argmax(axis=0), -A_MN.sum(axis=0)))
    return np.arange(num_clients)


def _cells(A_MN: NDArray[np.bool_], label_N: Sequence[str], palette: Palette) -> go.Heatmap:
    num_blocks, num_clients = A_MN.shape
    gap = (2 if num_clients <= 60 else 1) if num_clients <= _GAP_UP_TO else 0
    return go.Heatmap(
        z=A_MN.astype(np.uint8),
        zmin=0,
        zmax=1,
        colorscale=[[0, palette.faint], [1, palette.front]],
        showscale=False,
        xgap=gap,
        ygap=gap,
        customdata=np.broadcast_to(np.array(label_N, dtype=object), (num_blocks, num_clients)),
        text=np.where(A_MN, "trains", "does not train"),
        hovertemplate="%{customdata} %{text} block %{y}<extra></extra>",
        name="",
    )


def _popularity_bars(popularity_M: NDArray[np.int64], num_clients: int, palette: Palette) -> go.Bar:
    scarce_M = popularity_M == popularity_M.min()
    uneven = not scarce_M.all()
    return go.Bar(
        y=np.arange(len(popularity_M)),
        x=popularity_M,
        orientation="h",
        text=[
            f"{count}{' ◂ least' if uneven and scarce_M.sum() <= 3 and scarce else ''}"
            for count, scarce in zip(popularity_M, scarce_M, strict=True)
        ],
        textposition="outside",
        cliponaxis=False,
        textfont={"size": 12, "color": palette.text},
        marker={"color": palette.quiet},
        hovertemplate="block %{y}: %{x} of " + str(num_clients) + " clients<extra></extra>",
        showlegend=False,
        xaxis="x2",
    )


def _vram_bars(
    used: NDArray[np.float64],
    capacity: NDArray[np.float64],
    parameters_gib: float,
    label_N: Sequence[str],
    palette: Palette,
) -> list[go.Bar]:
    x = np.arange(len(used))
    parameters = np.full(len(used), parameters_gib)
    hover = "%{customdata[0]}: %{customdata[1]:.2f} of %{customdata[2]:.2f} GiB used<extra></extra>"
    customdata = np.empty((len(used), 3), dtype=object)
    customdata[:, 0], customdata[:, 1], customdata[:, 2] = label_N, used, capacity
    many = len(used) > _GAP_UP_TO
    common = {"x": x, "customdata": customdata, "hovertemplate": hover, "yaxis": "y2"}
    if many:
        common["width"] = 1
    return [
        go.Bar(
            **common,
            y=capacity,
            name="capacity",
            marker={"color": palette.faint, "line": {"color": palette.muted, "width": 0 if many else 1}},
        ),
        go.Bar(**common, y=used, name="used by activated blocks", marker={"color": palette.front}),
        go.Bar(
            **common,
            y=np.minimum(parameters, used),
            name="used by the model's parameters",
            marker={"color": palette.muted},
        ),
    ]
