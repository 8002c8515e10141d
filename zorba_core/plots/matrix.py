"""The canvas of every picture of an activation matrix: blocks from top to bottom, clients from left to right, room for
bars on the right, below and above. With very many clients, neighbours share a column.

Shapes: M blocks, N clients (those drawn, in the order given), G columns. ``edge`` int64 (G + 1,): the first client of
each column, and N.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from zorba_core.plots.theme import Palette, styled

MOST_COLUMNS = 120
NARROW = 60  # columns; in more, outlines and gaps hide what they are around
_BETWEEN, _ROOM = 0.015, 110  # share of the width between matrix and bars; pixels for the legend and the lowest title


def column_edges(num_clients: int) -> NDArray[np.int64]:
    """One column a client up to 120 of them, else 120 groups of equal size (within one)."""
    return np.linspace(0, num_clients, min(num_clients, MOST_COLUMNS) + 1).astype(np.int64)


def column_names(label_N: Sequence[str], edge: NDArray[np.int64]) -> list[str]:
    """The client's name, or the first and last of a group and how many it has."""
    return [
        label_N[first] if past - first == 1 else f"{label_N[first]} … {label_N[past - 1]} ({past - first} clients)"
        for first, past in itertools.pairwise(edge.tolist())
    ]


def column_counts(A_MN: NDArray[np.bool_], edge: NDArray[np.int64]) -> NDArray[np.int64]:
    """True cells of each row in each column, (M, G)."""
    return np.add.reduceat(A_MN, edge[:-1], axis=1, dtype=np.int64)


def column_shares(A_MN: NDArray[np.bool_], edge: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of each column's clients with a true cell, (M, G)."""
    return column_counts(A_MN, edge) / np.diff(edge)


def column_means(value_N: NDArray[np.float64], edge: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over each column's clients, (G,)."""
    return np.add.reduceat(value_N, edge[:-1]) / np.diff(edge)


@dataclass(frozen=True, eq=False)
class MatrixCanvas:
    """Where the cells and bars of one picture go.

    ``right`` is the share of the width for bars a block (axes ``x2``, ``y``); ``below`` and ``above`` are heights in
    pixels for bars a column (axes ``x``, ``y3`` and ``x``, ``y2``).
    """

    num_blocks: int
    order_N: NDArray[np.int64]  # which clients are drawn, from left to right
    edge: NDArray[np.int64]
    label_G: list[str]
    palette: Palette
    right: float = 0.0
    below: float = 0.0
    above: float = 0.0

    @classmethod
    def of(
        cls, num_blocks: int, names: Sequence[str], order_N: ArrayLike, palette: Palette, **room: float
    ) -> MatrixCanvas:
        """A canvas for the clients of ``order_N``, grouped when they are many."""
        order_N = np.asarray(order_N, dtype=np.int64)
        edge = column_edges(len(order_N))
        return cls(num_blocks, order_N, edge, column_names([names[n] for n in order_N], edge), palette, **room)

    @property
    def grouped(self) -> bool:
        return len(self.label_G) < len(self.order_N)

    @property
    def narrow(self) -> bool:
        """Whether columns are too narrow for outlines."""
        return len(self.label_G) > NARROW

    @property
    def column_N(self) -> NDArray[np.int64]:
        """The column of each client drawn, by its place in ``order_N``."""
        return np.repeat(np.arange(len(self.label_G)), np.diff(self.edge))

    def cells(self, share_MG: NDArray, color: str, hover: str, text: NDArray | None = None) -> go.Heatmap:
        """The cells, from empty (0) to ``color`` (1). ``hover`` may use ``%{customdata}`` for the column's name."""
        return go.Heatmap(
            z=share_MG.astype(np.uint8) if share_MG.dtype == bool else share_MG,
            zmin=0,
            zmax=1,
            colorscale=[[0, self.palette.faint], [1, color]],
            showscale=False,
            xgap=0 if self.grouped else 1 if self.narrow else 2,
            ygap=1 if self.grouped or self.narrow else 2,
            customdata=np.broadcast_to(np.array(self.label_G, dtype=object), share_MG.shape),
            text=text,
            hovertemplate=hover + "<extra></extra>",
            name="",
        )

    def block_bars(self, value_M: NDArray, text: Sequence[str], hover: str, marker: dict[str, Any]) -> go.Bar:
        """A bar for each block, on the right."""
        return go.Bar(
            y=np.arange(self.num_blocks),
            x=value_M,
            orientation="h",
            text=text,
            textposition="outside",
            cliponaxis=False,
            textfont={"size": 12, "color": self.palette.text},
            marker=marker,
            hovertemplate=hover + "<extra></extra>",
            showlegend=False,
            xaxis="x2",
        )

    def column_bars(self, value_G: NDArray, marker: dict[str, Any], hover: str, **bar: Any) -> go.Bar:
        """A bar for each column, below the matrix unless ``yaxis`` says otherwise."""
        common = {"customdata": np.array(self.label_G, dtype=object), "yaxis": "y3", "showlegend": False}
        return go.Bar(
            x=np.arange(len(value_G)),
            y=value_G,
            width=1 if self.grouped else None,
            marker=marker,
            hovertemplate=hover + "<extra></extra>",
            **{**common, **bar},
        )

    def figure(self, traces: Sequence[Any], *, clients: str, **layout: dict[str, Any]) -> go.Figure:
        """The picture. ``clients`` is the title of the columns; ``layout`` is merged into what is set here, axis by
        axis."""
        matrix = float(np.clip(20 * self.num_blocks, 240, 560))
        height = matrix + self.below + self.above
        bottom, top = self.below / height, (self.below + matrix) / height
        plain = {"automargin": False, "showgrid": False}
        axes = {
            "xaxis": {
                "domain": [0, 1 - self.right - _BETWEEN * (self.right > 0)],
                "anchor": "y3" if self.below else "y",
                "range": [-0.5, max(len(self.label_G), 1) - 0.5],
                "title": {"text": clients + (f", in {len(self.label_G)} groups" if self.grouped else "")},
                "showticklabels": False,
                **plain,
            },
            "yaxis": {
                "domain": [bottom + 0.015 * (self.below > 0), top - 0.02 * (self.above > 0)],
                "range": [self.num_blocks - 0.5, -0.5],  # block 0, next to the input, on top
                "dtick": 1 if self.num_blocks <= 40 else None,
                "title": {"text": "block"},
                **plain,
            },
        }
        if self.right:
            axes["xaxis2"] = {"domain": [1 - self.right, 1], "anchor": "y", "showticklabels": False, **plain}
        if self.below:
            axes["yaxis3"] = {"domain": [0, bottom - 0.01], "anchor": "x", "automargin": False}
        if self.above:
            axes["yaxis2"] = {"domain": [top + 0.03, 1], "anchor": "x", "rangemode": "tozero", "automargin": False}
        common = {
            "margin": {"l": 66, "r": 12, "t": 12, "b": 46},
            "barmode": "overlay",
            "bargap": 0.15,
            "dragmode": False,
            "legend": {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom", "traceorder": "normal"},
        }
        merged = {**common, **axes, **{name: value for name, value in layout.items() if name not in axes}}
        merged |= {name: axes[name] | layout[name] for name in axes if name in layout}
        return styled(traces, self.palette, height=int(height + _ROOM), layout=merged)
