"""An activation matrix as one picture: who trains which block, how often each block is trained, and what it costs.

Shapes: M blocks, N clients, G columns drawn (clients, or groups of neighbours when there are many). ``A_MN`` bool;
``order_N`` int64, the clients from left to right; ``used_N_gib`` and ``capacity_N_gib`` float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from zorba_core.allocation.measures import least_popularity
from zorba_core.plots.matrix import MatrixCanvas, column_counts, column_means
from zorba_core.plots.theme import LIGHT, Palette

_VRAM_HEIGHT, _LEAST_HEIGHT = 190.0, 74.0


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
    with_vram = used_N_gib is not None and capacity_N_gib is not None
    names = [f"client-{n}" for n in range(num_clients)] if names is None else names
    canvas = MatrixCanvas.of(
        num_blocks, names, order_N, palette, right=0.155, below=_LEAST_HEIGHT, above=_VRAM_HEIGHT if with_vram else 0.0
    )
    popularity_M = A_MN.sum(axis=1)
    least_G = np.minimum.reduceat(least_popularity(A_MN)[order_N], canvas.edge[:-1])
    traces = [
        _cells(A_MN[:, order_N], canvas),
        _popularity_bars(popularity_M, num_clients, canvas),
        _least_bars(least_G, popularity_M, canvas),
    ]
    if with_vram:
        traces += _vram_bars(
            *(column_means(np.asarray(each, float)[order_N], canvas.edge) for each in (used_N_gib, capacity_N_gib)),
            parameters_gib,
            canvas,
        )
    return canvas.figure(
        traces,
        clients=f"{num_clients} clients",
        showlegend=with_vram,
        xaxis2={"range": [0, 1.35 * max(1, int(popularity_M.max()))], "title": {"text": "popul."}},
        yaxis2={"title": {"text": "VRAM (GiB)"}},
        yaxis3={
            "range": [1.12 * max(1, int(least_G.max())), 0],  # hanging from the matrix
            "nticks": 3,
            "title": {"text": "least<br>popul.", "font": {"size": 12}},
        },
    )


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


def _cells(A_MN: NDArray[np.bool_], canvas: MatrixCanvas) -> go.Heatmap:
    hover = "%{customdata} %{text} block %{y}"
    if not canvas.grouped:
        return canvas.cells(A_MN, canvas.palette.front, hover, np.where(A_MN, "trains", "does not train"))
    trains_MG, size_G = column_counts(A_MN, canvas.edge), np.diff(canvas.edge)
    text = np.char.add(np.char.add(trains_MG.astype(str), " of "), size_G.astype(str))
    return canvas.cells(trains_MG / size_G, canvas.palette.front, hover, np.char.add(text, " train"))


def _popularity_bars(popularity_M: NDArray[np.int64], num_clients: int, canvas: MatrixCanvas) -> go.Bar:
    scarce_M = popularity_M == popularity_M.min()
    marked_M = scarce_M & (not scarce_M.all() and scarce_M.sum() <= 3)
    text = [f"{count}{' ◂ least' if marked else ''}" for count, marked in zip(popularity_M, marked_M, strict=True)]
    return canvas.block_bars(
        popularity_M, text, "block %{y}: %{x} of " + f"{num_clients} clients", {"color": canvas.palette.quiet}
    )


def _least_bars(least_G: NDArray[np.int64], popularity_M: NDArray[np.int64], canvas: MatrixCanvas) -> go.Bar:
    """The clients whose scarcest block is the scarcest of all stand out by colour and outline, if they are few."""
    scarce_G = least_G == popularity_M.min()
    scarce_G &= scarce_G.mean() <= 0.5
    palette = canvas.palette
    marker = {
        "color": np.where(scarce_G, palette.selected, palette.quiet),
        "line": {"color": palette.text, "width": np.where(scarce_G, 0 if canvas.narrow else 1, 0)},
    }
    return canvas.column_bars(least_G, marker, "%{customdata}: least popularity %{y}")


def _vram_bars(
    used_G: NDArray[np.float64], capacity_G: NDArray[np.float64], parameters_gib: float, canvas: MatrixCanvas
) -> list[go.Bar]:
    hover = "%{customdata[0]}: %{customdata[1]:.2f} of %{customdata[2]:.2f} GiB used"
    hover += " on average" if canvas.grouped else ""
    customdata = np.empty((len(used_G), 3), dtype=object)
    customdata[:, 0], customdata[:, 1], customdata[:, 2] = canvas.label_G, used_G, capacity_G
    palette = canvas.palette
    outline = {"color": palette.muted, "width": 0 if canvas.grouped else 1}
    bars = (
        (capacity_G, "capacity", {"color": palette.faint, "line": outline}),
        (used_G, "used by activated blocks", {"color": palette.front}),
        (np.minimum(parameters_gib, used_G), "used by the model's parameters", {"color": palette.muted}),
    )
    return [
        canvas.column_bars(value_G, marker, hover, customdata=customdata, yaxis="y2", name=name, showlegend=True)
        for value_G, name, marker in bars
    ]
