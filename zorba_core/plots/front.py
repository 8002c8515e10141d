"""Lambda against VRAM: every swept point, the front as one line, the point the reader chose.

Shapes: E points of a sweep, F points of its front (rising VRAM ratio).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from zorba_core.allocation import Front
from zorba_core.allocation.scenarios import PAPER_SCENARIOS
from zorba_core.plots.axes import log_axis_of
from zorba_core.plots.theme import DASHES, LIGHT, SYMBOLS, Palette, styled

VRAM_AXIS = "VRAM used / VRAM available, all clients together"
LAMBDA_AXIS = "Λ, convergence bias (lower is better)"
# Margins are set by hand: plotly's search for them draws the axes several times over.
_MARGIN = {"l": 66, "r": 12, "t": 12, "b": 12}
_HEIGHT = 460
_VRAM_AXIS = {"title": {"text": VRAM_AXIS}, "tickformat": ".0%", "automargin": False}

_LEGEND_BELOW = {"orientation": "h", "x": 0, "y": -0.17, "yanchor": "top"}

_HOVER = (
    "<b>%{x:.1%} of VRAM, Λ = %{y:.4g}</b><br>"
    "activated blocks %{customdata[1]}<br>"
    "clients on the least trained block %{customdata[2]}<br>"
    "V = %{customdata[3]:.4f} · N<sub>eff</sub> = %{customdata[4]:.1f}<br>"
    "mean τ = %{customdata[5]:.3f}"
)


def front_order(front: Front) -> NDArray[np.int64]:
    """Indices of the front's points, least VRAM first, shape (F,)."""
    on_front = np.flatnonzero(front.on_front_E)
    return on_front[np.argsort(front.vram_ratio_E[on_front], kind="stable")]


def front_figure(
    front: Front,
    *,
    selected: int | None = None,
    references: Mapping[str, tuple[float, float]] = PAPER_SCENARIOS,
    palette: Palette = LIGHT,
) -> go.Figure:
    """Lambda (log axis) against the VRAM ratio.

    ``customdata[0]`` of a swept point is its index in ``front``, so that a click can be traced back; ``references`` are
    labelled marks, none when empty.
    """
    customdata_E = _customdata(front)
    on_front = front_order(front)
    dominated = dominated_once(front.vram_ratio_E, front.bias_lambda_E, on_front)
    traces = [
        go.Scatter(
            x=front.vram_ratio_E[dominated],
            y=front.bias_lambda_E[dominated],
            customdata=customdata_E[dominated],
            name="swept, dominated",
            hovertemplate=_HOVER + "<extra>dominated</extra>",
            **dominated_look(palette),
        ),
        go.Scatter(
            x=front.vram_ratio_E[on_front],
            y=front.bias_lambda_E[on_front],
            customdata=customdata_E[on_front],
            name="Pareto front",
            hovertemplate=_HOVER + "<extra>on the front</extra>",
            **front_look(len(on_front), palette),
        ),
    ]
    if references:
        traces.append(_references(references, palette))
    if selected is not None:
        traces.append(
            go.Scatter(
                x=front.vram_ratio_E[[selected]],
                y=front.bias_lambda_E[[selected]],
                customdata=customdata_E[[selected]],
                mode="markers",
                name="selected",
                marker={
                    "symbol": "diamond",
                    "size": 17,
                    "color": palette.paper,
                    "line": {"width": 2.5, "color": palette.text},
                },
                hovertemplate=_HOVER + "<extra>selected</extra>",
                **never_dimmed(1.0),
            )
        )
    layout = {
        "margin": _MARGIN,
        "legend": {**_LEGEND_BELOW, "itemclick": False, "itemdoubleclick": False},
        "clickmode": "event+select",
        "dragmode": "pan",
        "hovermode": "closest",
        "xaxis": _VRAM_AXIS,
        "yaxis": _lambda_axis([front.bias_lambda_E[~np.isnan(front.bias_lambda_E)]], references),
    }
    return styled(traces, palette, height=_HEIGHT, layout=layout)


def compare_fronts_figure(
    fronts: Mapping[str, Front],
    *,
    references: Mapping[str, tuple[float, float]] = PAPER_SCENARIOS,
    palette: Palette = LIGHT,
) -> go.Figure:
    """The fronts of several sweeps, each with a colour, a dash and a marker of its own."""
    traces = []
    for index, (name, front) in enumerate(fronts.items()):
        on_front = front_order(front)
        color = palette.series[index % len(palette.series)]
        traces.append(
            go.Scatter(
                x=front.vram_ratio_E[on_front],
                y=front.bias_lambda_E[on_front],
                customdata=_customdata(front)[on_front],
                mode="lines+markers",
                name=name,
                line={"color": color, "width": 2, "shape": "hv", "dash": DASHES[index % len(DASHES)]},
                marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 7, "color": color},
                hovertemplate=_HOVER + f"<extra>{name}</extra>",
            )
        )
    if references:
        traces.append(_references(references, palette))
    values = [front.bias_lambda_E[front.on_front_E] for front in fronts.values()]
    layout = {
        "margin": _MARGIN,
        "legend": _LEGEND_BELOW,
        "hovermode": "closest",
        "xaxis": _VRAM_AXIS,
        "yaxis": _lambda_axis(values, references),
    }
    return styled(traces, palette, height=_HEIGHT, layout=layout)


def dominated_once(x_E: NDArray[np.float64], y_E: NDArray[np.float64], front_F: NDArray[np.int64]) -> NDArray[np.int64]:
    """Dominated points, one of those that lie on the same spot and none that lies on a point of the front: a click
    on a spot then means one point."""
    on_front = np.zeros(len(x_E), bool)
    on_front[front_F] = True
    drawn = np.concatenate((front_F, np.flatnonzero(~on_front & ~np.isnan(y_E))))
    spot = np.round(np.column_stack((x_E[drawn], y_E[drawn])), 9)
    first = np.unique(spot, axis=0, return_index=True)[1]
    return np.sort(drawn[first[first >= len(front_F)]])


def dominated_look(palette: Palette) -> dict[str, Any]:
    """Of dominated points: behind everything else."""
    marker = {"symbol": "circle", "size": 5, "color": palette.quiet, "opacity": 0.55, "line": {"width": 0}}
    return {"mode": "markers", "marker": marker, **never_dimmed(0.55)}


def front_look(count: int, palette: Palette, shape: str = "hv") -> dict[str, Any]:
    """Of a front of so many points: a line, as stairs unless ``shape`` says otherwise, and its points."""
    few = count <= 100
    return {
        "mode": "lines+markers",
        "line": {"color": palette.front, "width": 2.5, "shape": shape},
        "marker": {
            "symbol": "circle",
            "size": 7 if few else 5,
            "color": palette.front,
            "line": {"width": 1 if few else 0.5, "color": palette.paper},
        },
        **never_dimmed(1.0),
    }


def _customdata(front: Front) -> NDArray[np.float64]:
    """(E, 6): index, activated blocks, least popularity, V, N_eff, mean tau."""
    return np.column_stack(
        (
            np.arange(len(front)),
            front.total_blocks_E,
            front.min_popularity_E,
            front.mean_inverse_popularity_E,
            front.effective_clients_E,
            front.tau_E,
        )
    )


def _references(references: Mapping[str, tuple[float, float]], palette: Palette) -> go.Scatter:
    x, y = zip(*references.values(), strict=True)
    return go.Scatter(
        x=x,
        y=y,
        mode="markers+text",
        name="the paper's scenarios",
        text=[f"<b>{name}</b>" for name in references],
        textposition="middle right",
        textfont={"size": 13, "color": palette.text},
        marker={"symbol": "x-thin", "size": 10, "line": {"width": 2.5, "color": palette.text}},
        hovertemplate="%{text} of the paper<br>%{x:.0%} of VRAM, Λ = %{y:.2f}<extra></extra>",
        selected={"marker": {"opacity": 1.0}, "textfont": {"color": palette.text}},
        unselected={"marker": {"opacity": 1.0}, "textfont": {"color": palette.text}},
    )


def never_dimmed(opacity: float) -> dict[str, dict]:
    """Plotly fades what is not selected; here the selection has a marker of its own and the rest keeps its look."""
    return {"selected": {"marker": {"opacity": opacity}}, "unselected": {"marker": {"opacity": opacity}}}


def _lambda_axis(
    values: Sequence[NDArray[np.float64]], references: Mapping[str, tuple[float, float]]
) -> dict[str, Any]:
    shown = np.concatenate([*values, [y for _, y in references.values()]])
    title = {"title": {"text": LAMBDA_AXIS}, "automargin": False}
    if not shown.size:
        return {**title, "rangemode": "tozero"}
    return {**title, **log_axis(shown)}


def log_axis(shown: NDArray[np.float64]) -> dict[str, Any]:
    """A logarithmic axis around positive values, with ticks at 1, 2, 5 or closer."""
    return log_axis_of([shown])
