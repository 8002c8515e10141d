"""Algorithm 1 as pictures: the matrix after some steps with the candidate sets in its margins, and how they shrink.

Shapes: M blocks, N clients, G columns drawn (clients, or groups of neighbours), S steps. ``A_MN`` bool; ``order_N``
int64, the clients from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from zorba_core.plots.axes import upright
from zorba_core.plots.matrix import MatrixCanvas, column_shares
from zorba_core.plots.theme import LIGHT, Palette, styled
from zorba_core.study.greedy_steps import GreedyReplay, GreedyState

_FOOT = 46.0
_NARROW, _BAR, _LETTER = 282, 26, 5.5  # pixels on a phone: of the picture, the longest bar, a letter behind it


def greedy_figure(
    replay: GreedyReplay,
    after: int,
    *,
    names: Sequence[str],
    order_N: ArrayLike,
    palette: Palette = LIGHT,
) -> go.Figure:
    """The matrix after ``after`` steps. Filled cells are Dinic's, crosses the blocks that Algorithm 1 added, a diamond
    the last of them. Right: each block's popularity, hatched while it is in L, with the gain of each candidate. Below:
    which clients are in F."""
    state = replay.state(after)
    num_blocks, num_clients = state.A_MN.shape
    # Gains only fall: the picture keeps its measures from step to step.
    words = _LETTER * len(_words(replay.gamma_star, max(replay.state(0).gains.values(), default=0), chosen=True))
    canvas = MatrixCanvas.of(num_blocks, names, order_N, palette, right=(_BAR + words) / _NARROW, below=_FOOT)
    in_F = np.isin(canvas.order_N, state.low_clients)
    outline = {"color": palette.text, "width": 0 if canvas.grouped else 1}
    traces = [
        canvas.cells(
            column_shares(replay.initial_MN[:, canvas.order_N], canvas.edge),
            palette.quiet,
            "%{customdata}, block %{y}",
        ),
        *_added(replay, after, canvas),
        _popularity(state, after, replay, canvas),
        canvas.column_bars(
            column_shares(in_F[None], canvas.edge)[0],
            {"color": palette.selected, "line": outline},
            "%{customdata}" + (": %{y:.0%} in F" if canvas.grouped else " in F"),
        ),
    ]
    return canvas.figure(
        traces,
        clients=f"{num_clients} clients",
        showlegend=True,
        xaxis2={"range": [0, (1 + words / _BAR) * (replay.gamma_star + 1)], "title": {"text": "popularity"}},
        yaxis3={"range": [0, 1.05], "title": {"text": "in F"}, "showgrid": False, "showticklabels": False},
    )


def candidate_sets_figure(replay: GreedyReplay, after: int, *, palette: Palette = LIGHT) -> go.Figure:
    """The sizes of L and F after every step; the step in view is marked."""
    states = [replay.state(number) for number in range(len(replay.steps) + 1)]
    x = np.arange(len(states))
    size_of_L = [len(state.low_blocks) for state in states]
    size_of_F = [len(state.low_clients) for state in states]
    traces = [
        _sizes(x, size_of_F, "F: clients at γ*", palette.selected, "solid", "circle", "y"),
        _sizes(x, size_of_L, "L: blocks at γ*", palette.front, "dash", "square", "y2"),
    ]
    return styled(
        traces,
        palette,
        height=230,
        layout={
            "margin": {"l": 46, "r": 40, "t": 8, "b": 40},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "shapes": [upright(after, color=palette.text, width=2, dash="dot")],
            "xaxis": {"title": {"text": "steps done"}, "dtick": 1 if len(states) <= 16 else None, "showgrid": False},
            "yaxis": {"rangemode": "tozero", "title": {"text": "clients"}},
            "yaxis2": {
                "overlaying": "y",
                "side": "right",
                "rangemode": "tozero",
                "title": {"text": "blocks"},
                "showgrid": False,
                "dtick": max(1, round(max(size_of_L) / 3)),
                "tickmode": "linear",
            },
            "hovermode": "x unified",
        },
    )


def _sizes(x: NDArray, sizes: Sequence[int], name: str, color: str, dash: str, symbol: str, axis: str) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=sizes,
        name=name,
        mode="lines+markers",
        line={"color": color, "dash": dash, "width": 2, "shape": "hv"},
        marker={"symbol": symbol, "size": 7},
        yaxis=axis,
    )


def _added(replay: GreedyReplay, after: int, canvas: MatrixCanvas) -> list[go.Scatter]:
    column_of = np.empty(len(canvas.order_N), np.int64)
    column_of[canvas.order_N] = canvas.column_N
    column = np.array([column_of[step.client] for step in replay.steps[:after]], np.int64)
    blocks = [step.block for step in replay.steps[:after]]
    palette = canvas.palette
    marks = (
        ("added by Algorithm 1", "x", 9, slice(None, max(after - 1, 0))),
        ("added in this step", "diamond", 13, slice(max(after - 1, 0), None)),
    )
    return [
        go.Scatter(
            x=column[part],
            y=blocks[part],
            mode="markers",
            name=name,
            marker={
                "symbol": symbol,
                "size": size,
                "color": palette.selected,
                "line": {"color": palette.paper, "width": 1},
            },
            customdata=np.array([canvas.label_G[g] for g in column[part]], object),
            hovertemplate="%{customdata} takes block %{y}<extra></extra>",
            visible=True if len(blocks[part]) else "legendonly",
        )
        for name, symbol, size, part in marks
    ]


def _popularity(state: GreedyState, after: int, replay: GreedyReplay, canvas: MatrixCanvas) -> go.Bar:
    popularity_M = state.allocation.popularity_M
    in_L = np.isin(np.arange(len(popularity_M)), state.low_blocks)
    chosen = replay.steps[after].block if after < len(replay.steps) else None
    text = [_words(count, state.gains.get(m), chosen=m == chosen) for m, count in enumerate(popularity_M)]
    marker = {
        "color": np.where(in_L, canvas.palette.front, canvas.palette.quiet),
        "pattern": {"shape": np.where(in_L, "/", ""), "fgcolor": canvas.palette.paper, "size": 6},
    }
    return canvas.block_bars(popularity_M, text, "block %{y}: popularity %{x}", marker)


def _words(popularity: int, gain: int | None, *, chosen: bool) -> str:
    """What stands behind a block's bar; ``gain`` is None where the block is no candidate."""
    return f"{popularity}" if gain is None else f"{popularity}  gain {gain}{' ◂' if chosen else ''}"
