"""An activation matrix as one picture: who trains which block, how often each block is trained, and what it costs.

Shapes: M blocks, N clients, G columns drawn (clients, or groups of neighbours when there are many). ``A_MN`` bool;
``order_N`` int64, the clients from left to right; ``used_N_gib`` and ``capacity_N_gib`` float64; ``edge`` the first
client of each column, and one past the last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from zorba_core.allocation.measures import least_popularity
from zorba_core.plots.columns import column_counts, column_edges, column_means, column_names
from zorba_core.plots.theme import LIGHT, Palette, styled

_VRAM_HEIGHT, _LEAST_HEIGHT = 190.0, 74.0
_ROOM = 110
_NARROW = 60  # columns; in more, outlines and gaps hide what they are around


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
    right, each client's least popularity below and, when ``used_N_gib`` and ``capacity_N_gib`` are given, its VRAM
    against its capacity on top.

    Beyond 120 clients a column stands for a group of neighbours in the order asked for: cells show the share of the
    group that trains the block, bars the group's mean VRAM and lowest least popularity.

    ``parameters_gib`` is the part of the use that every client pays whatever it activates (psi_md).
    """
    A_MN = np.asarray(A_MN, dtype=bool)
    num_blocks, num_clients = A_MN.shape
    order_N = np.arange(num_clients) if order_N is None else np.asarray(order_N)
    label_N = [f"client-{n}" for n in range(num_clients)] if names is None else list(names)
    edge = column_edges(num_clients)
    label_G = column_names([label_N[n] for n in order_N], edge)
    popularity_M = A_MN.sum(axis=1)
    with_vram = used_N_gib is not None and capacity_N_gib is not None
    matrix_height = float(np.clip(20 * num_blocks, 240, 560))
    vram_height = _VRAM_HEIGHT if with_vram else 0.0
    height = matrix_height + _LEAST_HEIGHT + vram_height
    bottom, top = _LEAST_HEIGHT / height, (_LEAST_HEIGHT + matrix_height) / height
    least_G = np.minimum.reduceat(least_popularity(A_MN)[order_N], edge[:-1])
    grouped = len(label_G) < num_clients
    traces = [
        _cells(A_MN[:, order_N], edge, label_G, palette),
        _popularity_bars(popularity_M, num_clients, palette),
        _least_bars(least_G, label_G, popularity_M, grouped, palette),
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
            "anchor": "y3",
            "range": [-0.5, len(label_G) - 0.5],
            "title": {"text": f"{num_clients} clients" + (f", in {len(label_G)} groups" if grouped else "")},
            "automargin": False,
            "showgrid": False,
            "showticklabels": False,
        },
        "xaxis2": {
            "domain": [0.845, 1],
            "anchor": "y",
            "range": [0, 1.35 * max(1, int(popularity_M.max()))],
            "title": {"text": "popul."},
            "automargin": False,
            "showgrid": False,
            "showticklabels": False,
        },
        "yaxis": {
            "domain": [bottom + 0.012, top - 0.02 * with_vram],
            "range": [num_blocks - 0.5, -0.5],  # block 0, next to the input, on top
            "dtick": 1 if num_blocks <= 40 else None,
            "title": {"text": "block"},
            "automargin": False,
            "showgrid": False,
        },
        "yaxis3": {
            "domain": [0, bottom - 0.01],
            "anchor": "x",
            "range": [1.12 * max(1, int(least_G.max())), 0],  # hanging from the matrix
            "nticks": 3,
            "title": {"text": "least<br>popul.", "font": {"size": 12}},
            "automargin": False,
        },
    }
    if with_vram:
        used_G, capacity_G = (
            column_means(np.asarray(each, float)[order_N], edge) for each in (used_N_gib, capacity_N_gib)
        )
        traces += _vram_bars(used_G, capacity_G, parameters_gib, label_G, grouped, palette)
        layout["yaxis2"] = {
            "domain": [top + 0.03, 1],
            "anchor": "x",
            "rangemode": "tozero",
            "title": {"text": "VRAM (GiB)"},
            "automargin": False,
        }
    return styled(traces, palette, height=int(height + _ROOM), layout=layout)


def client_order(
    A_MN: NDArray[np.bool_], capacity_N: ArrayLike, by: str, *, budget_N: ArrayLike | None = None
) -> NDArray[np.int64]:
    """Clients from left to right: ``"given"``, ``"vram"`` (largest first), ``"budget"`` (largest first, needs
    ``budget_N``), ``"blocks"`` (most blocks first, then by the first block held, so that like columns stand together)
    or ``"least"`` (smallest least popularity first: those that Lambda charges most)."""
    num_clients = A_MN.shape[1]
    if by == "vram":
        return np.argsort(-np.asarray(capacity_N, float), kind="stable")
    if by == "budget" and budget_N is not None:
        return np.argsort(-np.asarray(budget_N), kind="stable")
    if by == "blocks":
        return np.lexsort((A_MN.argmax(axis=0), -A_MN.sum(axis=0)))
    if by == "least":
        return np.lexsort((A_MN.argmax(axis=0), least_popularity(A_MN)))
    return np.arange(num_clients)


def _cells(A_MN: NDArray[np.bool_], edge: NDArray[np.int64], label_G: Sequence[str], palette: Palette) -> go.Heatmap:
    num_blocks, num_columns = A_MN.shape[0], len(label_G)
    grouped = num_columns < A_MN.shape[1]
    gap = 0 if grouped else 2 if num_columns <= _NARROW else 1
    trains_MG = column_counts(A_MN, edge) if grouped else A_MN
    size_G = np.diff(edge)
    if grouped:
        text = np.char.add(np.char.add(trains_MG.astype(str), " of "), size_G.astype(str))
        text = np.char.add(text, " train")
    else:
        text = np.where(A_MN, "trains", "does not train")
    return go.Heatmap(
        z=trains_MG / size_G if grouped else A_MN.astype(np.uint8),
        zmin=0,
        zmax=1,
        colorscale=[[0, palette.faint], [1, palette.front]],
        showscale=False,
        xgap=gap,
        ygap=gap if not grouped else 1,
        customdata=np.broadcast_to(np.array(label_G, dtype=object), (num_blocks, num_columns)),
        text=text,
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


def _least_bars(
    least_G: NDArray[np.int64],
    label_G: Sequence[str],
    popularity_M: NDArray[np.int64],
    grouped: bool,
    palette: Palette,
) -> go.Bar:
    """The clients whose scarcest block is the scarcest of all stand out by colour and outline, if they are few."""
    scarce_G = least_G == popularity_M.min()
    scarce_G &= scarce_G.mean() <= 0.5
    return go.Bar(
        x=np.arange(len(least_G)),
        y=least_G,
        width=1 if grouped else None,
        customdata=np.array(label_G, dtype=object),
        marker={
            "color": np.where(scarce_G, palette.selected, palette.quiet),
            "line": {"color": palette.text, "width": np.where(scarce_G, 1 if len(least_G) <= _NARROW else 0, 0)},
        },
        hovertemplate="%{customdata}: least popularity %{y}<extra></extra>",
        showlegend=False,
        yaxis="y3",
    )


def _vram_bars(
    used_G: NDArray[np.float64],
    capacity_G: NDArray[np.float64],
    parameters_gib: float,
    label_G: Sequence[str],
    grouped: bool,
    palette: Palette,
) -> list[go.Bar]:
    hover = "%{customdata[0]}: %{customdata[1]:.2f} of %{customdata[2]:.2f} GiB used" + (
        " on average" if grouped else ""
    )
    customdata = np.empty((len(used_G), 3), dtype=object)
    customdata[:, 0], customdata[:, 1], customdata[:, 2] = label_G, used_G, capacity_G
    common = {
        "x": np.arange(len(used_G)),
        "width": 1 if grouped else None,
        "customdata": customdata,
        "hovertemplate": hover + "<extra></extra>",
        "yaxis": "y2",
    }
    return [
        go.Bar(
            **common,
            y=capacity_G,
            name="capacity",
            marker={"color": palette.faint, "line": {"color": palette.muted, "width": 0 if grouped else 1}},
        ),
        go.Bar(**common, y=used_G, name="used by activated blocks", marker={"color": palette.front}),
        go.Bar(
            **common,
            y=np.minimum(parameters_gib, used_G),
            name="used by the model's parameters",
            marker={"color": palette.muted},
        ),
    ]
