"""The VRAM of a fleet: how many clients have room for how many blocks.

Shapes: N clients. ``gib_N`` float64.
"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.plots.theme import LIGHT, Palette, styled

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
    """Clients by VRAM, a bar for each block that fits (for several where the range is wide), with upright lines where
    one block fits and where all ``num_blocks`` fit. Clients to the left of the first line are too small.

    Args:
        one_gib: for the model and one block.
        block_gib: for each further block.
    """
    all_gib = one_gib + (num_blocks - 1) * block_gib
    most = max(all_gib, float(gib_N.max(initial=0.0)))
    step = block_gib * max(1, int(np.ceil((most - one_gib) / block_gib / _MOST_BARS)))
    bin_N = np.floor((gib_N - one_gib) / step + 1e-9).astype(int)
    bins, count = np.unique(bin_N, return_counts=True)
    left = one_gib + bins * step
    fits = np.clip(np.floor((left - one_gib) / block_gib + 1e-9) + 1, 0, num_blocks).astype(int)
    reason = [f"{number} of {num_blocks} blocks fit" if number else "too small for one block" for number in fits]
    bars = go.Bar(
        x=left + step / 2,
        y=count,
        width=step * 0.92,
        customdata=np.column_stack((left, left + step, np.array(reason, object))),
        marker={"color": np.where(bins < 0, palette.warning, palette.front)},
        hovertemplate="%{y} clients have %{customdata[0]:.2f} to %{customdata[1]:.2f} GiB: %{customdata[2]}"
        "<extra></extra>",
    )
    first, last = min(one_gib, float(left.min(initial=one_gib))), max(all_gib, float((left + step).max(initial=0)))
    pad = 0.06 * (last - first)
    marks = ((one_gib, "1 block", "left"), (all_gib, f"all {num_blocks}", "right"))
    line = {"color": palette.muted, "width": 1.5, "dash": "dot"}
    layout = {
        "margin": {"l": 40, "r": 4, "t": 18, "b": 36},
        "bargap": 0,
        "dragmode": False,
        "showlegend": False,
        "xaxis": {
            "title": {"text": "VRAM of a client (GiB)", "standoff": 4},
            "range": [first - pad, last + pad],
            "nticks": 8,
            "automargin": False,
        },
        "yaxis": {"title": {"text": "clients", "standoff": 6}, "tickformat": "d", "nticks": 4, "automargin": False},
        "shapes": [
            {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line} for at, _, _ in marks
        ],
        "annotations": [
            {
                "x": at,
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "xanchor": anchor,
                "text": text,
                "showarrow": False,
                "font": {"size": 12, "color": palette.muted},
            }
            for at, text, anchor in marks
        ],
    }
    return styled([bars], palette, height=height, layout=layout)
