"""Memory: VRAM by the paper's model, and the memory that a forward pass needs.

Shapes: S steps (operations) of a forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from zorba_core.plots.theme import LIGHT, Palette, styled, trace
from zorba_core.vram import ModelSpec, Workload

_MIB = 2**20
_WIDTH = 900


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
