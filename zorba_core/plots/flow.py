"""The cut that proves gamma*: the flow network from clients' budgets to blocks, and where it is too narrow.

Shapes: M blocks, N clients. ``budget_N`` int64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.allocation import GammaCertificate
from zorba_core.plots.theme import LIGHT, Palette, styled

_SOURCE, _CLIENTS, _BLOCKS, _SINK = 0.0, 1.0, 2.1, 3.0


@dataclass(frozen=True)
class ClientGroup:
    """Clients that the cut treats alike: equal budgets, on one side."""

    budget: int
    open: bool  # on the source's side: not its budget is the limit, but its single arcs into the blocks
    clients: tuple[int, ...]

    @property
    def supply(self) -> int:
        return self.budget * len(self.clients)


def client_groups(budget_N: NDArray[np.int64], certificate: GammaCertificate) -> list[ClientGroup]:
    """Largest budgets first."""
    groups: dict[tuple[int, bool], list[int]] = {}
    inside = set(certificate.open_clients)
    for client, budget in enumerate(budget_N.tolist()):
        groups.setdefault((budget, client in inside), []).append(client)
    return [ClientGroup(*key, tuple(clients)) for key, clients in sorted(groups.items(), reverse=True)]


def cut_figure(
    budget_N: NDArray[np.int64], num_blocks: int, certificate: GammaCertificate, *, palette: Palette = LIGHT
) -> go.Figure:
    """Source, clients (grouped by budget), blocks, sink. Arcs of the cut are dashed and say what they can carry; the
    blocks it starves are filled."""
    groups = client_groups(budget_N, certificate)
    starved = set(certificate.blocks)
    group_y = _spread(len(groups))
    block_y = _spread(num_blocks)
    widest = max(group.supply for group in groups)
    traces: list[go.Scatter] = []
    through: dict[bool, tuple[list, list]] = {True: ([], []), False: ([], [])}
    for group, y in zip(groups, group_y, strict=True):
        for block, to in enumerate(block_y):
            xs, ys = through[group.open and block in starved]
            xs += [_CLIENTS, _BLOCKS, None]
            ys += [y, to, None]
    for is_cut, (xs, ys) in through.items():
        if xs:
            traces.append(_arcs(xs, ys, is_cut, 1.6 if is_cut else 0.8, palette, quiet=not is_cut))
    for group, y in zip(groups, group_y, strict=True):
        width = 1.5 + 9 * group.supply / widest
        traces.append(_arcs([_SOURCE, _CLIENTS], [0.5, y], not group.open, width, palette))
    for block, y in enumerate(block_y):
        traces.append(_arcs([_BLOCKS, _SINK], [y, 0.5], block not in starved, 2.0, palette))
    traces += [
        _nodes([_SOURCE], [0.5], ["<b>source</b>"], ["source"], "diamond", 18, palette.muted, "top center", palette),
        _nodes(
            [_CLIENTS] * len(groups),
            group_y,
            [_group_label(group) for group in groups],
            [f"{len(group.clients)} clients with budget {group.budget}: {group.supply} blocks" for group in groups],
            "circle",
            15,
            palette.quiet,
            "middle right",
            palette,
        ),
        _nodes(
            [_BLOCKS] * num_blocks,
            block_y,
            [str(block) for block in range(num_blocks)],
            [f"block {block}: asks for {certificate.gamma_star + 1} clients" for block in range(num_blocks)],
            "square",
            19 if num_blocks <= 24 else 13 if num_blocks <= 40 else 9,
            [palette.selected if block in starved else palette.quiet for block in range(num_blocks)],
            "middle center",
            palette,
        ),
        _nodes([_SINK], [0.5], ["<b>sink</b>"], ["sink"], "diamond", 18, palette.muted, "top center", palette),
    ]
    # In short lines: a phone has no room for others.
    headings = (
        (_SOURCE, "what budgets<br>supply"),
        (_CLIENTS, f"{len(budget_N)} clients<br>by budget"),
        (_BLOCKS, f"{num_blocks} blocks"),
        (_SINK, f"each asks for<br>{certificate.gamma_star + 1} clients"),
    )
    layout = {
        "margin": {"l": 8, "r": 8, "t": 48, "b": 8},
        "showlegend": True,
        "dragmode": False,
        "legend": {"orientation": "h", "x": 0, "y": -0.01, "yanchor": "top"},
        "xaxis": {"visible": False, "range": [-0.42, 3.42]},
        "yaxis": {"visible": False, "range": [-0.06, 1.1]},
        "annotations": [
            {"x": x, "y": 1.1, "text": text, "showarrow": False, "yanchor": "bottom", "font": {"color": palette.muted}}
            for x, text in headings
        ],
    }
    height = int(np.clip(34 * max(len(groups), 0.62 * num_blocks), 320, 700)) + 60
    return styled(traces, palette, height=height, layout=layout)


def _spread(count: int) -> list[float]:
    return [0.5] if count == 1 else np.linspace(1, 0, count).tolist()


def _group_label(group: ClientGroup) -> str:
    return f"  {len(group.clients)} × {group.budget} = <b>{group.supply}</b>"


def _arcs(xs: list, ys: list, is_cut: bool, width: float, palette: Palette, *, quiet: bool = False) -> go.Scatter:
    return go.Scatter(
        x=xs,
        y=ys,
        mode="lines",
        line={
            "color": palette.selected if is_cut else palette.faint if quiet else palette.quiet,
            "width": width,
            "dash": "7px,3px" if is_cut else "solid",
        },
        hoverinfo="skip",
        name="arcs of the cut: full" if is_cut else "arcs with room",
        legendgroup="cut" if is_cut else "room",
        showlegend=False,
    )


def _nodes(
    x: list, y: list, text: list, hover: list, symbol: str, size: int, color, place: str, palette: Palette
) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=y,
        mode="markers+text",
        text=text,
        hovertext=hover,
        hoverinfo="text",
        textposition=place,
        textfont={"size": 12 if size >= 15 else 9, "color": palette.paper if symbol == "square" else palette.text},
        marker={"symbol": symbol, "size": size, "color": color, "line": {"color": palette.text, "width": 1}},
        showlegend=False,
    )
