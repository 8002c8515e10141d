"""Small pictures beside a front: the matrix as an image, and its points over all measures.

Shapes: M blocks, N clients, F points of a front.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.plots.theme import LIGHT, Palette, styled

_IMAGE_WIDTH = 900


def matrix_picture(A_MN: NDArray[np.bool_], *, palette: Palette = LIGHT) -> NDArray[np.uint8]:
    """The matrix as pixels, (height, width, 3): filled cells for activated blocks, with gaps between cells where there
    is room for them."""
    num_blocks, num_clients = A_MN.shape
    side = max(1, _IMAGE_WIDTH // num_clients)
    height = max(side, min(20, 480 // num_blocks)) if side < 8 else side
    height = max(1, min(height, 26))
    colors = np.array([_rgb(palette.faint), _rgb(palette.front), _rgb(palette.paper)], np.uint8)
    cell = A_MN.astype(np.uint8).repeat(height, axis=0).repeat(side, axis=1)
    if side >= 4:
        cell[:, side - 1 :: side] = 2
    if height >= 4:
        cell[height - 1 :: height, :] = 2
    return colors[cell]


def parallel_figure(
    columns: Mapping[str, NDArray[np.number]],
    *,
    selected: int | None = None,
    palette: Palette = LIGHT,
) -> go.Figure:
    """One line for each of F points over the measures of ``columns``; the selected one in the colour of selections."""
    values = [np.asarray(column, float) for column in columns.values()]
    chosen_F = np.zeros(len(values[0]))
    order_F = np.arange(len(chosen_F))
    if selected is not None:  # drawn last, so that no other line hides it
        chosen_F[selected] = 1
        order_F = np.argsort(chosen_F, kind="stable")
    trace = go.Parcoords(
        line={
            "color": chosen_F[order_F],
            "colorscale": [[0, palette.quiet], [1, palette.selected]],
            "cmin": 0,
            "cmax": 1,
        },
        dimensions=[{"label": label, "values": column[order_F]} for label, column in zip(columns, values, strict=True)],
        labelfont={"size": 13, "color": palette.text},
        tickfont={"size": 11, "color": palette.muted},
        rangefont={"size": 11, "color": palette.muted},
    )
    return styled([trace], palette, height=320, layout={"margin": {"l": 60, "r": 50, "t": 50, "b": 20}})


def _rgb(color: str) -> tuple[int, int, int]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))
