"""Who holds which labels: a client's rows by label, as the division among clients left them.

Shapes: C labels, N clients. ``rows_CN`` int64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.plots.theme import LIGHT, Palette, styled

_NAMED_CLIENTS = 12  # so many clients are named on the axis; more are counted
_NUMBERED_CELLS = 72
_LONGEST_NAME = 22


def labels_per_client(label_R: NDArray[np.int64], held_N: Sequence[NDArray[np.int64]], num_labels: int) -> NDArray:
    """Rows of each label that each client holds, (C, N), from the labels of all rows and the rows of each client."""
    return np.stack([np.bincount(label_R[held], minlength=num_labels) for held in held_N], axis=1)


def labels_figure(
    rows_CN: NDArray[np.int64],
    labels: Sequence[str],
    *,
    clients: Sequence[str] = (),
    palette: Palette = LIGHT,
) -> go.Figure:
    """Labels as rows and clients as columns; the darker a cell, the more rows."""
    num_labels, num_clients = rows_CN.shape
    names = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in labels]
    who = list(clients) or [f"client {n}" for n in range(num_clients)]
    named = num_clients <= _NAMED_CLIENTS and bool(clients)
    heat = go.Heatmap(
        z=rows_CN,
        x=np.arange(num_clients),
        y=np.arange(num_labels),
        colorscale=[[0.0, palette.faint], [1.0, palette.front]],
        zmin=0,
        xgap=1,
        ygap=1,
        showscale=rows_CN.size > _NUMBERED_CELLS,
        colorbar={"title": {"text": "rows"}, "thickness": 10, "outlinewidth": 0},
        customdata=np.broadcast_to(np.array(who, object), rows_CN.shape),
        text=np.broadcast_to(np.array(list(labels), object)[:, None], rows_CN.shape),
        hovertemplate="%{customdata}: %{z} rows of %{text}<extra></extra>",
        texttemplate="%{z}" if rows_CN.size <= _NUMBERED_CELLS else None,
    )
    layout = {
        "margin": {"l": 12, "r": 12, "t": 10, "b": 44},
        "dragmode": False,
        "xaxis": {
            "title": {"text": f"{num_clients} clients"},
            "showgrid": False,
            "zeroline": False,
            **({"tickvals": list(range(num_clients)), "ticktext": who} if named else {"nticks": 8}),
        },
        "yaxis": {
            "autorange": "reversed",
            "showgrid": False,
            "zeroline": False,
            "automargin": True,
            "tickvals": list(range(num_labels)) if num_labels <= 30 else None,
            "ticktext": names if num_labels <= 30 else None,
            "title": {"text": "" if num_labels <= 30 else f"{num_labels} labels"},
        },
    }
    return styled([heat], palette, height=min(640, 90 + 26 * num_labels), layout=layout)
