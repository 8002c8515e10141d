"""Memory: how many blocks fit on each client.

Shapes: N clients. ``gib_N`` float64.
"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.plots.theme import LIGHT, Palette, axis, styled, trace, upright

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
