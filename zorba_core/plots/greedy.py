"""Algorithm 1 as pictures: the matrix after some steps with the candidate sets in its margins, and how they shrink.

Shapes: M blocks, N clients, G columns drawn (clients, or groups of neighbours), S steps. ``A_MN`` bool; ``order_N``
int64, the clients from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from zorba_core.allocation import GreedyReplay, GreedyState
from zorba_core.plots.columns import column_edges, column_names, column_shares
from zorba_core.plots.theme import LIGHT, Palette, styled

_FOOT, _ROOM = 46.0, 96


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
    order_N = np.asarray(order_N)
    num_blocks, num_clients = state.A_MN.shape
    edge = column_edges(num_clients)
    label_G = column_names([names[n] for n in order_N], edge)
    matrix_height = float(np.clip(20 * num_blocks, 240, 560))
    bottom = _FOOT / (matrix_height + _FOOT)
    in_F = np.isin(order_N, state.low_clients)
    share_G = column_shares(in_F[None], edge)[0]
    grouped = len(label_G) < num_clients
    traces = [
        go.Heatmap(
            z=column_shares(replay.initial_MN[:, order_N], edge),
            zmin=0,
            zmax=1,
            colorscale=[[0, palette.faint], [1, palette.quiet]],
            showscale=False,
            xgap=0 if grouped else 2 if len(label_G) <= 60 else 1,
            ygap=2,
            customdata=np.broadcast_to(np.array(label_G, object), (num_blocks, len(label_G))),
            hovertemplate="%{customdata}, block %{y}<extra></extra>",
        ),
        *_added(replay, after, order_N, edge, label_G, palette),
        _popularity(state, after, replay, palette),
        go.Bar(
            x=np.arange(len(label_G)),
            y=share_G,
            width=1 if grouped else None,
            customdata=np.array(label_G, object),
            marker={"color": palette.selected, "line": {"color": palette.text, "width": 0 if grouped else 1}},
            hovertemplate="%{customdata}" + (": %{y:.0%} in F" if grouped else " in F") + "<extra></extra>",
            showlegend=False,
            yaxis="y3",
        ),
    ]
    layout = {
        "margin": {"l": 66, "r": 12, "t": 12, "b": 46},
        "bargap": 0.15,
        "dragmode": False,
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"},
        "xaxis": {
            "domain": [0, 0.79],
            "anchor": "y3",
            "range": [-0.5, len(label_G) - 0.5],
            "title": {"text": f"{num_clients} clients" + (f", in {len(label_G)} groups" if grouped else "")},
            "automargin": False,
            "showgrid": False,
            "showticklabels": False,
        },
        "xaxis2": {
            "domain": [0.805, 1],
            "anchor": "y",
            "range": [0, 1.75 * (replay.gamma_star + 1)],
            "title": {"text": "popularity"},
            "automargin": False,
            "showgrid": False,
            "showticklabels": False,
        },
        "yaxis": {
            "domain": [bottom + 0.02, 1],
            "range": [num_blocks - 0.5, -0.5],
            "dtick": 1 if num_blocks <= 40 else None,
            "title": {"text": "block"},
            "automargin": False,
            "showgrid": False,
        },
        "yaxis3": {
            "domain": [0, bottom - 0.01],
            "anchor": "x",
            "range": [0, 1.05],
            "title": {"text": "in F"},
            "automargin": False,
            "showgrid": False,
            "showticklabels": False,
        },
    }
    return styled(traces, palette, height=int(matrix_height + _FOOT + _ROOM), layout=layout)


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
            "shapes": [
                {
                    "type": "line", "x0": after, "x1": after, "y0": 0, "y1": 1, "yref": "paper",
                    "line": {"color": palette.text, "width": 2, "dash": "dot"},
                }
            ],
            "xaxis": {"title": {"text": "steps done"}, "dtick": 1 if len(states) <= 16 else None, "showgrid": False},
            "yaxis": {"rangemode": "tozero", "title": {"text": "clients"}},
            "yaxis2": {
                "overlaying": "y", "side": "right", "rangemode": "tozero", "title": {"text": "blocks"},
                "showgrid": False, "dtick": max(1, round(max(size_of_L) / 3)), "tickmode": "linear",
            },
            "hovermode": "x unified",
        },
    )  # fmt: skip


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


def _added(
    replay: GreedyReplay,
    after: int,
    order_N: NDArray[np.int64],
    edge: NDArray[np.int64],
    label_G: Sequence[str],
    palette: Palette,
) -> list[go.Scatter]:
    position_N = np.empty(len(order_N), np.int64)
    position_N[order_N] = np.arange(len(order_N))
    column = np.searchsorted(edge, [position_N[step.client] for step in replay.steps[:after]], side="right") - 1
    blocks = [step.block for step in replay.steps[:after]]
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
            customdata=np.array([label_G[g] for g in column[part]], object),
            hovertemplate="%{customdata} takes block %{y}<extra></extra>",
            visible=True if len(blocks[part]) else "legendonly",
        )
        for name, symbol, size, part in marks
    ]


def _popularity(state: GreedyState, after: int, replay: GreedyReplay, palette: Palette) -> go.Bar:
    popularity_M = state.allocation.popularity_M
    in_L = np.isin(np.arange(len(popularity_M)), state.low_blocks)
    chosen = replay.steps[after].block if after < len(replay.steps) else None
    text = [
        f"{count}" + (f"  gain {state.gains[m]}{' ◂' if m == chosen else ''}" if m in state.gains else "")
        for m, count in enumerate(popularity_M)
    ]
    return go.Bar(
        y=np.arange(len(popularity_M)),
        x=popularity_M,
        orientation="h",
        text=text,
        textposition="outside",
        cliponaxis=False,
        textfont={"size": 12, "color": palette.text},
        marker={
            "color": np.where(in_L, palette.front, palette.quiet),
            "pattern": {"shape": np.where(in_L, "/", ""), "fgcolor": palette.paper, "size": 6},
        },
        hovertemplate="block %{y}: popularity %{x}<extra></extra>",
        showlegend=False,
        xaxis="x2",
    )
