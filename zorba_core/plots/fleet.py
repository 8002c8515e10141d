"""A fleet as two pictures: how much VRAM clients have, and how many blocks that affords.

Shapes: N clients. ``capacity_N_gib`` float64; ``blocks_N`` int64, 0 where not even one block fits.
"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.plots.theme import LIGHT, Palette, styled

_MARGIN = {"l": 54, "r": 14, "t": 46, "b": 46}
# Up to this many different sizes, each is a bar of its own: real cards come in few sizes, and bins would blur them.
_FEW_SIZES = 16
_TOO_SMALL = {"shape": "/", "size": 6, "solidity": 0.35}


def vram_figure(
    capacity_N_gib: NDArray[np.float64],
    *,
    one_block_gib: float,
    all_blocks_gib: float,
    palette: Palette = LIGHT,
    height: int = 300,
) -> go.Figure:
    """Clients by VRAM, with the two sizes that matter: what one block needs and what all blocks need. Clients below the
    first are hatched."""
    sizes, count = np.unique(np.round(capacity_N_gib, 6), return_counts=True)
    traces = []
    if len(sizes) <= _FEW_SIZES:
        width = 0.7 * (np.diff(sizes).min() if len(sizes) > 1 else max(0.2 * sizes[0], 0.05))
        left, centre, widths = sizes, sizes, np.full(len(sizes), width)
    else:
        edges = np.histogram_bin_edges(capacity_N_gib, bins=min(30, max(8, len(capacity_N_gib) // 4)))
        count = np.histogram(capacity_N_gib, edges)[0]
        left, centre, widths = edges[:-1], (edges[:-1] + edges[1:]) / 2, 0.94 * np.diff(edges)
    small = left < one_block_gib * (1 - 1e-9)
    for name, chosen in (("hold at least one block", ~small), ("too small", small)):
        if chosen.any():
            traces.append(_bars(name, centre[chosen], count[chosen], widths[chosen], palette))
    marks = [(one_block_gib, "one block")]
    if all_blocks_gib <= 3 * max(capacity_N_gib.max(), one_block_gib):
        marks.append((all_blocks_gib, "all blocks"))
    layout = {
        "margin": _MARGIN,
        "showlegend": False,
        "dragmode": False,
        "xaxis": {"title": {"text": "VRAM of a client (GiB)"}, "rangemode": "tozero", "automargin": False},
        "yaxis": {"title": {"text": "clients"}, "automargin": False, "rangemode": "tozero", "nticks": 5},
        "shapes": [
            {
                "type": "line",
                "x0": x,
                "x1": x,
                "y0": 0,
                "y1": 1.02,
                "yref": "paper",
                "line": {"color": palette.selected, "width": 2, "dash": dash},
            }
            for (x, _), dash in zip(marks, ("dash", "dot"), strict=False)
        ],
        "annotations": [
            {
                "x": x,
                "y": 1.03,
                "yref": "paper",
                "yanchor": "bottom",
                "showarrow": False,
                "text": f"{name}<br><b>{x:.3g} GiB</b>",
                "font": {"size": 12, "color": palette.text},
            }
            for x, name in marks
        ],
    }
    return styled(traces, palette, height=height, layout=layout)


def affordable_figure(
    blocks_N: NDArray[np.int64], num_blocks: int, *, palette: Palette = LIGHT, height: int = 300
) -> go.Figure:
    """Clients by the number of blocks they can hold, 0 to M; those that hold none are hatched."""
    count = np.bincount(np.minimum(blocks_N, num_blocks), minlength=num_blocks + 1)
    blocks = np.arange(num_blocks + 1)
    width = np.full(num_blocks + 1, 0.8)
    traces = [_bars("clients", blocks[1:], count[1:], width[1:], palette)]
    if count[0]:
        traces.append(_bars("too small", blocks[:1], count[:1], width[:1], palette))
    layout = {
        "margin": _MARGIN,
        "showlegend": False,
        "dragmode": False,
        "xaxis": {
            "title": {"text": f"blocks a client can hold, of {num_blocks}"},
            "range": [-0.6 if count[0] else 0.4, num_blocks + 0.6],
            "dtick": 1 if num_blocks <= 16 else 2 if num_blocks <= 36 else 4,
            "automargin": False,
        },
        "yaxis": {"title": {"text": "clients"}, "automargin": False, "rangemode": "tozero", "nticks": 5},
    }
    return styled(traces, palette, height=height, layout=layout)


def _bars(
    name: str,
    x: NDArray[np.float64],
    count: NDArray[np.int64],
    width: NDArray[np.float64],
    palette: Palette,
) -> go.Bar:
    small = name == "too small"
    marker = {"color": palette.selected, "pattern": _TOO_SMALL} if small else {"color": palette.front}
    return go.Bar(
        x=x,
        y=count,
        width=width,
        name=name,
        text=[str(number) if number else "" for number in count],
        textposition="outside" if len(count) <= 25 else "none",
        cliponaxis=False,
        textfont={"size": 11, "color": palette.muted},
        marker=marker,
        hovertemplate="%{y} clients · %{x:.4g}<extra>" + name + "</extra>",
    )
