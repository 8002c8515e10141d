"""Small activation matrices in the style of the paper's Fig. 3, with aggregation weights in the active cells.

Shapes: M blocks (rows), N clients (columns). ``A_MN`` bool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import plotly.graph_objects as go

from zorba_core.allocation import Allocation
from zorba_core.plots import theme

_GAP = 1.1  # cells between two panels
_CAPTION = 1.5  # cells above a panel for each two lines of its caption
_CELL_PX = 34
_CHARACTER = 0.25  # cells that a character of a caption takes
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, eq=False)
class Panel:
    """One matrix and its caption (in plotly's HTML)."""

    allocation: Allocation
    caption: str


def matrix_panels(
    panels: Sequence[Panel],
    *,
    columns: int = 6,
    name_axes: bool = False,
    palette: theme.Palette = theme.LIGHT,
) -> go.Figure:
    """All panels in one figure, ``columns`` to a row. A cell shows the weight 1/c_m if client n activates block m, and
    is pale if not.

    Each client's largest weights are outlined; Lambda is the sum over clients of the square of that weight.
    ``name_axes`` labels rows "block 1" and columns "1" to N.
    """
    num_blocks = max(panel.allocation.num_blocks for panel in panels)
    num_clients = max(panel.allocation.num_clients for panel in panels)
    lines = max(panel.caption.count("<br>") + 1 for panel in panels)
    longest = max(
        len(line) for panel in panels for line in _TAG.sub("", panel.caption.replace("<br>", "\n")).split("\n")
    )
    margin = 1.8 if name_axes else 0.0
    width = margin + max(num_clients + _GAP, longest * _CHARACTER)
    height = num_blocks + (1.05 if name_axes else 0.35) + _CAPTION * lines / 2
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure, shapes = go.Figure(), []
    for index, panel in enumerate(panels):
        left, top = margin + width * (index % columns), -height * (index // columns) - _CAPTION * lines / 2
        figure.add_annotation(
            x=left, y=top + 0.1, text=panel.caption, showarrow=False, align="left", xanchor="left", yanchor="bottom"
        )
        shapes += _draw(figure, panel.allocation, left, top, palette)
        if name_axes:
            _name_axes(figure, panel.allocation, left, top, palette)
    theme.apply(figure, palette, height=round(_CELL_PX * height * rows) + 20)
    figure.update_layout(shapes=shapes)  # all at once: plotly checks every shape again when one is added
    figure.update_layout(width=round(_CELL_PX * width * columns) + 20, margin={"l": 8, "r": 8, "t": 4, "b": 4})
    figure.update_xaxes(visible=False, range=[-0.2, width * columns], constrain="domain")
    figure.update_yaxes(visible=False, range=[-height * rows - 0.1, 0.1], scaleanchor="x", constrain="domain")
    return figure


def _draw(
    figure: go.Figure, allocation: Allocation, left: float, top: float, palette: theme.Palette
) -> list[dict[str, Any]]:
    """Draw the weights of a panel, and return the shapes of its cells."""
    A_MN, popularity_M = allocation.A_MN, allocation.popularity_M
    least_MN = A_MN & (popularity_M[:, None] == allocation.least_popularity_N)
    shapes = [
        {
            "type": "rect",
            "x0": left + n + 0.05,
            "x1": left + n + 0.95,
            "y0": top - m - 0.05,
            "y1": top - m - 0.95,
            "fillcolor": palette.front if A_MN[m, n] else palette.faint,
            "line": {"width": 3, "color": palette.selected} if least_MN[m, n] else {"width": 0},
            "layer": "below",
        }
        # In this order, so that no cell covers the outline of a neighbour.
        for kind in ((~A_MN), (A_MN & ~least_MN), (A_MN & least_MN))
        for m, n in np.argwhere(kind)
    ]
    rows, clients = np.nonzero(np.ones_like(A_MN))
    weight = [str(Fraction(1, int(popularity_M[m]))) if A_MN[m, n] else "0" for m, n in zip(rows, clients, strict=True)]
    figure.add_scatter(
        x=left + clients + 0.5,
        y=top - rows - 0.5,
        mode="text",
        text=weight,
        textfont={
            "size": 14,
            "color": ["#ffffff" if A_MN[m, n] else palette.muted for m, n in zip(rows, clients, strict=True)],
        },
        customdata=np.stack([rows + 1, clients + 1], axis=1),
        hovertemplate="block %{customdata[0]}, client %{customdata[1]}: weight %{text}<extra></extra>",
        showlegend=False,
    )
    return shapes


def _name_axes(figure: go.Figure, allocation: Allocation, left: float, top: float, palette: theme.Palette) -> None:
    font = {"size": 12, "color": palette.muted}
    for m in range(allocation.num_blocks):
        figure.add_annotation(
            x=left - 0.1, y=top - m - 0.5, text=f"block {m + 1}", showarrow=False, xanchor="right", font=font
        )
    bottom = top - allocation.num_blocks
    for n in range(allocation.num_clients):
        figure.add_annotation(x=left + n + 0.5, y=bottom, text=str(n + 1), showarrow=False, yanchor="top", font=font)
    middle = left + allocation.num_clients / 2
    figure.add_annotation(x=middle, y=bottom - 0.4, text="client", showarrow=False, yanchor="top", font=font)


def lambda_by_total(
    total_C: Sequence[int],
    lambda_C: Sequence[Fraction],
    label_C: Sequence[str],
    count_C: Sequence[int],
    *,
    palette: theme.Palette = theme.LIGHT,
) -> go.Figure:
    """Lambda of every class against its total of active blocks, with the mean over matrices and the lowest value at
    each total. C classes, ``count_C`` matrices in each; classes at the same point share a marker."""
    spots: dict[tuple[int, Fraction], list[int]] = {}
    for index, spot in enumerate(zip(total_C, lambda_C, strict=True)):
        spots.setdefault(spot, []).append(index)
    totals = sorted(set(total_C))
    mean, lowest = [], []
    for total in totals:
        here = [(lambda_C[i], count_C[i]) for i in range(len(total_C)) if total_C[i] == total]
        mean.append(float(sum(value * count for value, count in here) / sum(count for _, count in here)))
        lowest.append(float(min(value for value, _ in here)))
    figure = go.Figure()
    figure.add_scatter(
        x=totals,
        y=mean,
        mode="lines",
        name="mean over all matrices",
        line={"color": palette.muted, "dash": "dash", "width": 2},
    )
    figure.add_scatter(
        x=totals, y=lowest, mode="lines", name="lowest at this total", line={"color": palette.front, "width": 2}
    )
    figure.add_scatter(
        x=[total for total, _ in spots],
        y=[float(value) for _, value in spots],
        mode="markers+text",
        name="a class of matrices",
        marker={"size": 11, "color": palette.selected, "line": {"color": palette.paper, "width": 1}},
        text=[", ".join(label_C[i] for i in members) for members in spots.values()],
        textposition="middle right",
        textfont={"size": 14},
        customdata=[[str(value), sum(count_C[i] for i in members)] for (_, value), members in spots.items()],
        hovertemplate="%{text}: %{x} blocks, Λ = %{customdata[0]}, %{customdata[1]} matrices<extra></extra>",
    )
    theme.apply(figure, palette, height=420)
    figure.update_xaxes(
        title="active blocks in the whole matrix", dtick=1, range=[min(totals) - 0.3, max(totals) + 0.7]
    )
    figure.update_yaxes(title="Λ (lower is better)", rangemode="tozero")
    return figure.update_layout(width=820, legend={"x": 0.98, "xanchor": "right", "y": 0.98})
