"""All classes of the 3 x 3 toy on one map: total of activated blocks against Lambda, each class as its small matrix.

Shapes: C classes. ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import plotly.graph_objects as go

from zorba_core.plots.theme import LIGHT, Palette, styled
from zorba_core.study.toy.matrices import MatrixClass
from zorba_core.study.toy.observations import exact_lambda

CELL_PX = 11
_NEAR = 0.075  # decades of Lambda that a small matrix with its caption takes
_TICKS = (Fraction(1, 3), Fraction(1, 2), Fraction(3, 4), Fraction(1), Fraction(3, 2), Fraction(2), Fraction(3))


def toy_map(
    classes: Mapping[str, MatrixClass],
    *,
    shown: Collection[str] = (),
    arrows: Sequence[tuple[str, str]] = (),
    selected: str | None = None,
    palette: Palette = LIGHT,
) -> go.Figure:
    """Each class at (total, Lambda), Lambda on a logarithmic scale; classes that would cover each other stand side by
    side, so a total takes as much room as it needs. ``shown`` are framed and the others faded (all stand out when it
    is empty); ``arrows`` join letters; ``selected`` gets a frame of its own. Points carry the letter as
    ``customdata``.
    """
    place, columns = class_places(classes), _columns(classes)
    shapes, annotations = _bands(columns, palette), []
    for letter, (x, y) in place.items():
        strong = not shown or letter in shown
        shapes += _matrix(classes[letter], x, y, strong, palette)
        if letter in shown or letter == selected:
            shapes.append(_frame(x, y, letter == selected, palette))
    for start, end in arrows:
        annotations.append(_arrow(place[start], place[end], palette))
    traces = [
        go.Scatter(
            x=[x for x, _ in place.values()],
            y=[y for _, y in place.values()],
            mode="markers+text",
            marker={"symbol": "square", "size": 3 * CELL_PX, "color": palette.text, "opacity": 0.0},
            text=[f"<b>{letter}</b> {exact_lambda(each.representative)}" for letter, each in classes.items()],
            textposition="top center",
            textfont={
                "size": 12,
                "color": [palette.text if not shown or letter in shown else palette.muted for letter in place],
            },
            # A click must not fade the others: what stands out is drawn above.
            selected={"marker": {"opacity": 0.0}, "textfont": {"color": palette.text}},
            unselected={"marker": {"opacity": 0.0}, "textfont": {"color": palette.text}},
            customdata=[[letter] for letter in place],
            hovertext=[
                f"{letter}: {each.total_blocks} blocks, Λ = {exact_lambda(each.representative)}, {each.count} matrices"
                for letter, each in classes.items()
            ],
            hoverinfo="text",
            showlegend=False,
        ),
    ]
    layout = {
        "margin": {"l": 54, "r": 8, "t": 8, "b": 46},
        "dragmode": False,
        "shapes": shapes,
        "annotations": annotations,
        "xaxis": {
            "range": [0, max(column.middle + column.half for column in columns.values())],
            "tickvals": [column.middle for column in columns.values()],
            "ticktext": [str(total) for total in columns],
            "tickfont": {"size": 14},
            "title": {"text": "activated blocks in the whole matrix"},
            "showgrid": False,
        },
        "yaxis": {
            "range": [math.log10(0.285), math.log10(3.9)],
            "tickvals": [math.log10(tick) for tick in _TICKS],
            "ticktext": [str(tick) for tick in _TICKS],
            "title": {"text": "Λ (lower is better, logarithmic)"},
        },
    }
    return styled(traces, palette, height=860, layout=layout)


@dataclass(frozen=True)
class _TotalColumn:
    """The room of one total: its middle, and half of its width."""

    middle: float
    half: float


def class_places(classes: Mapping[str, MatrixClass]) -> dict[str, tuple[float, float]]:
    """Where each class stands: x inside the column of its total, side by side where matrices would cover each other, y
    log10 of Lambda."""
    columns, clusters = _columns(classes), _clusters(classes)
    places = {}
    for number, cluster in enumerate(clusters):
        above = clusters[number + 1] if number + 1 < len(clusters) else cluster
        # A single matrix below the middle of three moves aside, so that arrows from above reach it between them.
        aside = 0.5 if len(cluster) == 1 and len(above) == 3 and _same_total(classes, cluster, above) else 0.0
        # The lower of two on the right: an arrow along a row ends at the upper one and would cross the words above it.
        by_height = sorted(cluster, key=lambda letter: -exact_lambda(classes[letter].representative))
        for letter in cluster:
            matrix_class, index = classes[letter], by_height.index(letter)
            x = columns[matrix_class.total_blocks].middle + index - (len(cluster) - 1) / 2 - aside
            places[letter] = (x, math.log10(exact_lambda(matrix_class.representative)))
    return places


def _same_total(classes: Mapping[str, MatrixClass], first: list[str], second: list[str]) -> bool:
    return classes[first[0]].total_blocks == classes[second[0]].total_blocks


def _clusters(classes: Mapping[str, MatrixClass]) -> list[list[str]]:
    """Classes of one total whose Lambda is nearly the same."""
    clusters: list[list[str]] = []
    for letter, matrix_class in classes.items():  # ordered by total, then Lambda
        last = classes[clusters[-1][-1]] if clusters else None
        if (
            last is not None
            and last.total_blocks == matrix_class.total_blocks
            and math.log10(matrix_class.bias_lambda / last.bias_lambda) < _NEAR
        ):
            clusters[-1].append(letter)
        else:
            clusters.append([letter])
    return clusters


def _columns(classes: Mapping[str, MatrixClass]) -> dict[int, _TotalColumn]:
    """A column for each total, as wide as its widest cluster."""
    widest: dict[int, int] = {}
    for cluster in _clusters(classes):
        total = classes[cluster[0]].total_blocks
        widest[total] = max(widest.get(total, 1), len(cluster))
    columns, left = {}, 0.0
    for total, width in widest.items():
        room = width + 0.25
        columns[total] = _TotalColumn(left + room / 2, room / 2)
        left += room
    return columns


def _bands(columns: Mapping[int, _TotalColumn], palette: Palette) -> list[dict]:
    """Every other column shaded."""
    return [
        {
            "type": "rect",
            "layer": "below",
            "xref": "x",
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "x0": column.middle - column.half,
            "x1": column.middle + column.half,
            "fillcolor": palette.faint,
            "opacity": 0.35,
            "line": {"width": 0},
        }
        for column in list(columns.values())[::2]
    ]


def _matrix(matrix_class: MatrixClass, x: float, y: float, strong: bool, palette: Palette) -> list[dict]:
    """Two paths, of the active and of the other cells: a shape of its own for each cell takes ten times as long."""
    A_MN = matrix_class.representative.A_MN
    return [
        {
            **_pixels(x, y),
            "type": "path",
            "path": " ".join(_cell(m, n, A_MN.shape) for m, n in np.argwhere(active == A_MN).tolist()),
            "fillcolor": color,
            "opacity": 1.0 if strong else 0.35,
            "line": {"width": 0},
        }
        for active, color in ((True, palette.front), (False, palette.faint))
        if (active == A_MN).any()
    ]


def _cell(m: int, n: int, shape: tuple[int, int]) -> str:
    """A square, in pixels from the middle of its matrix: y grows upwards, and plotly knows absolute commands only."""
    left, top = (n - shape[1] / 2) * CELL_PX + 0.5, (shape[0] / 2 - m) * CELL_PX - 0.5
    right, bottom = left + CELL_PX - 1, top - CELL_PX + 1
    return f"M{left},{top}H{right}V{bottom}H{left}Z"


def _frame(x: float, y: float, is_selected: bool, palette: Palette) -> dict:
    reach = 1.5 * CELL_PX + 3  # more would cross the words above the matrix
    return {
        **_pixels(x, y),
        "x0": -reach,
        "x1": reach,
        "y0": -reach,
        "y1": reach,
        "line": {
            "color": palette.text if is_selected else palette.selected,
            "width": 2.5,
            "dash": "dot" if is_selected else "solid",
        },
    }


def _pixels(x: float, y: float) -> dict:
    return {
        "type": "rect",
        "layer": "between",
        "xref": "x",
        "yref": "y",
        "xsizemode": "pixel",
        "ysizemode": "pixel",
        "xanchor": x,
        "yanchor": y,
    }


def _arrow(start: tuple[float, float], end: tuple[float, float], palette: Palette) -> dict:
    return {
        "x": end[0],
        "y": end[1],
        "ax": start[0],
        "ay": start[1],
        "xref": "x",
        "yref": "y",
        "axref": "x",
        "ayref": "y",
        "text": "",
        "showarrow": True,
        "arrowhead": 3,
        "arrowsize": 1.2,
        "arrowwidth": 1.8,
        "arrowcolor": palette.selected,
        "standoff": 2 * CELL_PX + 2,
        "startstandoff": 2 * CELL_PX,
    }
