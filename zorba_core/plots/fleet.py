"""A fleet as two pictures: how much VRAM clients have, and how many blocks that affords.

Shapes: N clients. ``capacity_N_gib`` float64; ``blocks_N`` int64, 0 where not even one block fits.
"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.plots.axes import upright
from zorba_core.plots.theme import LIGHT, Palette, styled

_MARGIN = {"l": 54, "r": 14, "t": 46, "b": 46}
_NARROW, _TALL = 290, 190  # pixels of the axis of clients' sizes, and of the highest bar, on a phone
_DIGIT, _LINE = 6, 13  # pixels that a digit above a bar takes, and their height
# Share of the axis below which two labels would touch on a phone.
_NEAR = 0.25
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
    enough = one_block_gib * (1 - 1e-9)
    _, first, count = np.unique(np.round(capacity_N_gib, 6), return_index=True, return_counts=True)
    sizes = capacity_N_gib[first]
    if len(sizes) <= _FEW_SIZES:
        width = 0.7 * (np.diff(sizes).min() if len(sizes) > 1 else max(0.2 * sizes[0], 0.05))
        left, centre, widths = sizes, sizes, np.full(len(sizes), width)
    else:
        edges = _edges(capacity_N_gib, enough)
        count = np.histogram(capacity_N_gib, edges)[0]
        left, centre, widths = edges[:-1], (edges[:-1] + edges[1:]) / 2, 0.94 * np.diff(edges)
    small = left < enough
    marks = [(one_block_gib, "one block")]
    if all_blocks_gib <= 3 * max(capacity_N_gib.max(), one_block_gib):
        marks.append((all_blocks_gib, "all blocks"))
    across = max(capacity_N_gib.max(), marks[-1][0])
    numbered = _with_room(centre, count, widths, _NARROW / across)
    traces = [
        _bars(name, centre[chosen], count[chosen], widths[chosen], numbered[chosen], palette)
        for name, chosen in (("hold at least one block", ~small), ("too small", small))
        if chosen.any()
    ]
    layout = {
        "margin": _MARGIN,
        "showlegend": False,
        "dragmode": False,
        "xaxis": {"title": {"text": "VRAM of a client (GiB)"}, "rangemode": "tozero", "automargin": False},
        "yaxis": {"title": {"text": "clients"}, "automargin": False, "rangemode": "tozero", "nticks": 5},
        "shapes": [
            upright(x, height=1.02, color=palette.selected, width=2, dash=dash)
            for (x, _), dash in zip(marks, ("dash", "dot"), strict=False)
        ],
        "annotations": [
            {
                "y": 1.03,
                "yref": "paper",
                "yanchor": "bottom",
                "align": "left",
                "showarrow": False,
                "font": {"size": 12, "color": palette.text},
                **label,
            }
            for label in _labels(marks, across)
        ],
    }
    return styled(traces, palette, height=height, layout=layout)


def _edges(capacity_N_gib: NDArray[np.float64], enough: float) -> NDArray[np.float64]:
    """Edges of equal bins. One of them is at ``enough`` where clients lie on both sides of it, so that no bin holds
    clients of both kinds."""
    edges = np.histogram_bin_edges(capacity_N_gib, bins=min(30, max(8, len(capacity_N_gib) // 4)))
    low, high, width = edges[0], edges[-1], edges[1] - edges[0]
    if not low < enough <= high:
        return edges
    return enough + width * np.arange(-np.floor((enough - low) / width) - 1, np.floor((high - enough) / width) + 2)


def _labels(marks: list[tuple[float, str]], across: float) -> list[dict]:
    """What stands above the marks; those near each other share one label, which begins or ends at a mark that is near
    the side of the picture."""
    (first, _), (last, _) = marks[0], marks[-1]
    if len(marks) == 1 or last - first > _NEAR * across:
        return [{"x": x, "align": "center", "text": f"{name}<br><b>{x:.3g} GiB</b>"} for x, name in marks]
    text = "<br>".join(f"{name} <b>{x:.3g} GiB</b>" for x, name in marks)
    middle = (first + last) / 2
    if middle < across / 3:
        return [{"x": first, "xanchor": "left", "text": text}]
    if middle > across * 2 / 3:
        return [{"x": last, "xanchor": "right", "text": text}]
    return [{"x": middle, "xanchor": "center", "text": text}]


def affordable_figure(
    blocks_N: NDArray[np.int64], num_blocks: int, *, palette: Palette = LIGHT, height: int = 300
) -> go.Figure:
    """Clients by the number of blocks they can hold, 0 to M; those that hold none are hatched."""
    count = np.bincount(np.minimum(blocks_N, num_blocks), minlength=num_blocks + 1)
    blocks = np.arange(num_blocks + 1)
    width = np.full(num_blocks + 1, 0.8)
    numbered = _with_room(blocks, count, width, _NARROW / (num_blocks + 1))
    traces = [_bars("clients", blocks[1:], count[1:], width[1:], numbered[1:], palette)]
    if count[0]:
        traces.append(_bars("too small", blocks[:1], count[:1], width[:1], numbered[:1], palette))
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


def _with_room(
    x: NDArray[np.float64], count: NDArray[np.int64], width: NDArray[np.float64], pixels: float
) -> NDArray[np.bool_]:
    """Which bars have room for their number above them, the highest bars first, where a unit of ``x`` takes so many
    ``pixels``: a number covers neither another bar nor another number."""
    top = count * (_TALL / max(count.max(), 1))
    half = np.array([_DIGIT * len(str(number)) / 2 for number in count])
    numbered = np.zeros(len(x), bool)
    for bar in np.lexsort((x, -count)):
        if not count[bar]:
            break
        apart = np.abs(x - x[bar]) * pixels
        on_a_bar = (apart < half[bar] + width * pixels / 2) & (top > top[bar])
        on_a_number = numbered & (apart < half[bar] + half) & (top < top[bar] + _LINE)
        numbered[bar] = not (on_a_bar | on_a_number).any()
    return numbered


def _bars(
    name: str,
    x: NDArray[np.float64],
    count: NDArray[np.int64],
    width: NDArray[np.float64],
    numbered: NDArray[np.bool_],
    palette: Palette,
) -> go.Bar:
    small = name == "too small"
    marker = {"color": palette.selected, "pattern": _TOO_SMALL} if small else {"color": palette.front}
    return go.Bar(
        x=x,
        y=count,
        width=width,
        name=name,
        text=[str(number) if shown else "" for number, shown in zip(count, numbered, strict=True)],
        textposition="outside",
        # Else plotly makes a number as narrow as its bar, or turns it.
        constraintext="none",
        textangle=0,
        cliponaxis=False,
        textfont={"size": 11, "color": palette.muted},
        marker=marker,
        hovertemplate="%{y} clients · %{x:.4g}<extra>" + name + "</extra>",
    )
