"""Memory: how many blocks fit on each client, VRAM by the paper's model, and the memory that a forward pass needs.

Shapes: N clients; S steps (operations) of a forward pass. ``gib_N`` float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.plots.theme import LIGHT, Palette, axis, styled, trace, upright
from zorba_core.vram import ModelSpec, Workload

_MIB = 2**20
_WIDTH = 900
_MOST_BARS = 60


def histogram_figure(
    gib_N: NDArray[np.float64],
    *,
    one_gib: float,
    block_gib: float,
    num_blocks: int,
    palette: Palette = LIGHT,
    height: int = 170,
) -> go.Figure:
    """Histogram of the clients' VRAM. A bar is one block wide, or several if the range is wide. Upright lines show
    where one block fits and where all ``num_blocks`` fit. Clients to the left of the first line are too small.

    Args:
        one_gib: VRAM of the model and one block.
        block_gib: VRAM of each further block.
    """
    all_gib = one_gib + (num_blocks - 1) * block_gib
    most = max(all_gib, float(gib_N.max(initial=0.0)))
    step = block_gib * max(1, int(np.ceil((most - one_gib) / block_gib / _MOST_BARS)))
    bin_N = np.floor((gib_N - one_gib) / step + 1e-9).astype(int)
    bins, count = np.unique(bin_N, return_counts=True)
    left = one_gib + bins * step
    fits = np.clip(np.floor((left - one_gib) / block_gib + 1e-9) + 1, 0, num_blocks).astype(int)
    reason = [f"{number} of {num_blocks} blocks fit" if number else "too small for one block" for number in fits]
    bars = trace(
        "bar",
        x=(left + step / 2).tolist(),
        y=count.tolist(),
        width=step * 0.92,
        customdata=list(zip(left.tolist(), (left + step).tolist(), reason, strict=True)),
        marker={"color": np.where(bins < 0, palette.warning, palette.front).tolist()},
        hovertemplate="%{y} clients have %{customdata[0]:.2f} to %{customdata[1]:.2f} GiB: %{customdata[2]}"
        "<extra></extra>",
    )
    first, last = min(one_gib, float(left.min(initial=one_gib))), max(all_gib, float((left + step).max(initial=0)))
    pad = 0.06 * (last - first)
    marks = ((one_gib, "1 block", "left"), (all_gib, f"all {num_blocks}", "right"))
    if all_gib - one_gib < 0.2 * (last - first):  # no room for two labels between the lines
        marks = ((one_gib, "", "left"), (all_gib, f"1 block, all {num_blocks}", "left"))
    label = {"y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False}
    label["font"] = {"size": 12, "color": palette.muted}
    layout = {
        "margin": {"l": 40, "r": 4, "t": 18, "b": 36},
        "bargap": 0,
        "dragmode": False,
        "showlegend": False,
        "xaxis": axis("VRAM of a client (GiB)", 4, range=[first - pad, last + pad], nticks=8),
        "yaxis": axis("clients", 6, tickformat="d", **({"nticks": 4} if count.max(initial=0) > 4 else {"dtick": 1})),
        "shapes": [upright(at, color=palette.muted, width=1.5, dash="dot") for at, _, _ in marks],
        "annotations": [{"x": at, "xanchor": anchor, "text": text, **label} for at, text, anchor in marks],
    }
    return styled([bars], palette, height=height, layout=layout)


def vram_by_blocks_figure(
    model: ModelSpec,
    workload: Workload,
    *,
    palette: Palette = LIGHT,
) -> go.Figure:
    """The paper's Fig. 1: psi_md and the three terms of psi_block, stacked, for 1 to M activated blocks."""
    blocks = list(range(1, model.num_blocks + 1))
    number = workload.batch_size * workload.seq_len * model.hidden_size * workload.bytes_per_number / _MIB  # BLH
    parameters = model.num_parameters * workload.bytes_per_number / _MIB
    terms = (
        ("parameters, ψ<sub>md</sub>", palette.quiet, [parameters] * len(blocks)),
        ("Q, K and V, 3K·BLH a block", palette.front, [3 * model.num_heads * number * k for k in blocks]),
        ("feed-forward, α·BLH a block", palette.series[2], [model.ffn_ratio * number * k for k in blocks]),
        ("hidden state, BLH a block", palette.series[4], [number * k for k in blocks]),
    )
    traces = [
        trace(
            "bar",
            x=blocks,
            y=heights,
            name=name,
            marker={"color": color, "line": {"color": palette.paper, "width": 1}},
            hovertemplate="%{x} activated: %{y:.0f} MiB<extra>" + name + "</extra>",
        )
        for name, color, heights in terms
    ]
    layout = {
        "width": _WIDTH,
        "barmode": "stack",
        "bargap": 0.25,
        "xaxis": {"title": {"text": "activated blocks of the client"}, "dtick": 1},
        "yaxis": {"title": {"text": "MiB"}, "rangemode": "tozero"},
        "legend": {"x": 0.01, "y": 0.99, "traceorder": "normal"},
    }
    return styled(traces, palette, height=430, layout=layout)


def forward_pass_figure(
    alive_S_mib: Sequence[float],
    block_ends: Sequence[int],
    charged_mib: float,
    *,
    palette: Palette = LIGHT,
) -> go.Figure:
    """Activations that are alive after each operation of a forward pass, and stairs of ``charged_mib`` for each block,
    as in the paper's model. ``block_ends[m]``: number of operations up to the end of block m."""
    blocks, steps = len(block_ends), np.arange(1, len(alive_S_mib) + 1)
    position_S = np.interp(steps, [0, *block_ends], np.arange(blocks + 1)).tolist()
    stairs_x, stairs_y = [], []
    for m in range(len(block_ends)):
        stairs_x += [m, m + 1]
        stairs_y += [(m + 1) * charged_mib] * 2
    traces = [
        trace(
            "scatter",
            x=stairs_x,
            y=stairs_y,
            mode="lines",
            name="charged by ψ, all blocks activated",
            line={"color": palette.front, "width": 2.5, "dash": "dash"},
            hovertemplate="ψ: %{y:.0f} MiB<extra></extra>",
        ),
        trace(
            "scatter",
            x=position_S,
            y=list(alive_S_mib),
            mode="lines",
            name="alive, counted",
            line={"color": palette.selected, "width": 2},
            hovertemplate="alive: %{y:.1f} MiB<extra></extra>",
        ),
    ]
    layout = {
        "width": _WIDTH,
        "xaxis": {"title": {"text": "progress of the forward pass, in blocks"}, "dtick": 1},
        "yaxis": {
            "title": {"text": "MiB of activations, log scale"},
            "type": "log",
            "tickvals": [1, 3, 10, 30, 100, 300, 1000, 3000],
            "range": [math.log10(2), math.log10(3 * len(block_ends) * charged_mib)],
        },
        "legend": {"x": 0.01, "y": 0.99},
    }
    return styled(traces, palette, height=380, layout=layout)
