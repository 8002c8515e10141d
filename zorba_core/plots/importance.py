"""What each block is worth: energy and noise with their intervals, block by block.

Shapes: M blocks.
"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from zorba_core.allocation.importance import Importance
from zorba_core.plots.theme import LIGHT, Palette, styled


def importance_figure(importance: Importance, *, palette: Palette = LIGHT) -> go.Figure:
    """Energies as bars, noises as diamonds on an axis of their own, both with 95 % intervals. What the scalars cannot
    tell from other blocks is a pale bar."""
    block_M = np.arange(len(importance.energy_M))
    colour_M = [palette.front if known else palette.quiet for known in importance.identifiable_M]
    energy = go.Bar(
        x=block_M,
        y=importance.energy_M,
        error_y=_interval(importance.energy_M, importance.energy_low_M, importance.energy_high_M, palette.text),
        marker={"color": colour_M},
        name="energy (left)",
        hovertemplate="block %{x}: energy %{y:.3g}<extra></extra>",
    )
    noise = go.Scatter(
        x=block_M,
        y=importance.noise_M,
        error_y=_interval(importance.noise_M, importance.noise_low_M, importance.noise_high_M, palette.selected),
        mode="markers",
        marker={"symbol": "diamond", "size": 9, "color": palette.selected},
        name="noise of one client (right)",
        yaxis="y2",
        hovertemplate="block %{x}: noise %{y:.3g}<extra></extra>",
    )
    layout = {
        "xaxis": {"title": "block", "dtick": max(1, len(block_M) // 16)},
        "yaxis": {"title": "energy, squared gradient", "rangemode": "tozero"},
        "yaxis2": {"title": "noise", "overlaying": "y", "side": "right", "rangemode": "tozero", "showgrid": False},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "margin": {"t": 40, "l": 8, "r": 8, "b": 8},
    }
    return styled([energy, noise], palette, height=280, layout=layout)


def _interval(value_M: np.ndarray, low_M: np.ndarray, high_M: np.ndarray, colour: str) -> dict:
    return {
        "type": "data",
        "array": high_M - value_M,
        "arrayminus": value_M - low_M,
        "thickness": 1.4,
        "width": 4,
        "color": colour,
    }
