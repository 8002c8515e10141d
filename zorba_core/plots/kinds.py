"""Blocks by kinds of cards: how large a share of each kind trains each block.

Shapes: M blocks, K kinds. ``share_MK`` float64 from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.plots.theme import LIGHT, Palette, as_text, styled

_NUMBERED = 200  # cells; more have no room for numbers
_ROW, _FRAME = 22, 40  # pixels


def kinds_figure(share_MK: NDArray[np.float64], kinds: Sequence[str], *, palette: Palette = LIGHT) -> go.Figure:
    """Kinds as rows, so that their names are read, and blocks as columns; the darker a cell, the more of the kind."""
    num_blocks, num_kinds = share_MK.shape
    names = [as_text(kind) for kind in kinds]
    numbered = share_MK.size <= _NUMBERED
    heat = go.Heatmap(
        z=share_MK.T,
        x=np.arange(num_blocks),
        y=np.arange(num_kinds),
        colorscale=[[0.0, palette.faint], [1.0, palette.front]],
        zmin=0,
        zmax=1,
        xgap=2,
        ygap=2,
        showscale=False,
        text=np.char.mod("%.0f%%", 100 * share_MK.T) if numbered else None,
        texttemplate="%{text}" if numbered else None,
        textfont={"size": 11},
        customdata=np.broadcast_to(np.array(names, object)[:, None], share_MK.T.shape),
        hovertemplate="<b>%{z:.0%}</b> train block %{x}<extra>%{customdata}</extra>",
    )
    layout = {
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "dragmode": False,
        "xaxis": {"title": {"text": "block"}, "showgrid": False, "dtick": 1 if num_blocks <= 30 else 4},
        "yaxis": {
            "tickvals": list(range(num_kinds)),
            "ticktext": names,
            "autorange": "reversed",
            "showgrid": False,
        },
    }
    return styled([heat], palette, height=_FRAME + 30 + _ROW * max(2, num_kinds), layout=layout)
