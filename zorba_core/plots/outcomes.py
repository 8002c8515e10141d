"""Outcomes of runs against their settings, as a cloud of dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from zorba_core.plots.axes import log_axis_of
from zorba_core.plots.theme import LIGHT, SYMBOLS, Palette, as_text, styled
from zorba_core.study.comparison.outcomes import Cloud, Dot

_PERCENT = ("best", "final")
_BETTER = {"best": "higher", "final": "higher", "loss": "lower", "to_target": "lower"}


def outcomes_figure(
    cloud: Cloud,
    *,
    picked: Sequence[str] = (),
    log_x: bool = False,
    log_y: bool = False,
    palette: Palette = LIGHT,
) -> go.Figure:
    """A dot a run or a group of seeds; its colour and shape say its kind, its bars the spread over seeds.

    Args:
        picked: names of runs; dots with one of them are ringed.

    Each dot carries the names of its runs as customdata.
    """
    kinds = list(dict.fromkeys(dot.kind for dot in cloud.dots))
    traces = [
        _kind(kind, [dot for dot in cloud.dots if dot.kind == kind], index, cloud, palette)
        for index, kind in enumerate(kinds)
    ]
    ringed = [dot for dot in cloud.dots if set(dot.names) & set(picked)]
    if ringed and len(ringed) < len(cloud.dots):
        ring = {"symbol": "circle-open", "size": 18, "color": palette.selected, "line": {"width": 2.2}}
        traces.append(
            go.Scatter(
                x=[dot.x for dot in ringed],
                y=[dot.y for dot in ringed],
                mode="markers",
                marker=ring,
                name="picked in the table",
                hoverinfo="skip",
            )
        )
    tick_format = ".0%" if cloud.y in _PERCENT else None
    layout: dict[str, Any] = {
        "showlegend": len(traces) > 1,
        "hovermode": "closest",
        "dragmode": "pan",
        "clickmode": "event+select",
        "uirevision": f"{cloud.x} {cloud.y} {log_x} {log_y}",
        "legend": {"y": 1.02, "yanchor": "bottom", "x": 0, "orientation": "h"},
        "xaxis": {
            "title": {"text": cloud.x_label},
            "exponentformat": "SI",
            **(log_axis_of([[dot.x for dot in cloud.dots]]) if log_x else {}),
        },
        "yaxis": {
            "title": {"text": f"{cloud.y_label} ({_BETTER[cloud.y]} is better)"},
            "tickformat": tick_format,
            **(_log_y(cloud) if log_y else {"range": _range(cloud, False)}),
        },
    }
    return styled(traces, palette, height=440, layout=layout)


def _log_y(cloud: Cloud) -> dict[str, Any]:
    scale = 100 if cloud.y in _PERCENT else 1
    axis = log_axis_of([[scale * dot.y for dot in cloud.dots]], unit="%" if scale == 100 else "")
    if axis["type"] == "log":
        axis["tickvals"] = [tick / scale for tick in axis["tickvals"]]
    return {**axis, "range": _range(cloud, True)}


def _range(cloud: Cloud, log: bool) -> list[float] | None:
    """Room for the dots and, up to half their spread again, for the bars, which may be endless."""
    if not cloud.dots:
        return None
    y_D = np.array([dot.y for dot in cloud.dots])
    low_D, high_D = np.array([dot.y_bounds or (dot.y, dot.y) for dot in cloud.dots]).T
    if log and y_D.min() <= 0:
        return None  # plotly leaves out what has no logarithm
    if log:
        y_D, high_D = np.log10(y_D), np.log10(high_D)
        low_D = np.log10(np.maximum(low_D, 10 ** (y_D.min() - 1)))
    spread = float(np.ptp(y_D)) or max(abs(float(y_D[0])), 0.1) / 5
    low = max(low_D.min(), y_D.min() - spread / 2)
    high = min(high_D.max(), y_D.max() + spread / 2)
    return [float(low - 0.06 * spread), float(high + 0.06 * spread)]


def _kind(kind: str, dots: Sequence[Dot], index: int, cloud: Cloud, palette: Palette) -> go.Scatter:
    color = palette.series[index % len(palette.series)]
    form = ":.1%" if cloud.y in _PERCENT else ":.4g"
    name = as_text(kind)
    marker = {
        # Shapes turn slower than colours, so that after seven colours the pairs are new ones.
        "symbol": SYMBOLS[(index + index // len(palette.series)) % len(SYMBOLS)],
        "size": 9,
        "color": color,
        "line": {"width": 1, "color": palette.paper},
    }
    as_it_is = {"marker": {"opacity": 1}}  # plotly pales what was not clicked
    return go.Scatter(
        x=[dot.x for dot in dots],
        y=[dot.y for dot in dots],
        error_x=_bars([(dot.x, dot.x_bounds) for dot in dots], color),
        error_y=_bars([(dot.y, dot.y_bounds) for dot in dots], color),
        mode="markers",
        marker=marker,
        selected=as_it_is,
        unselected=as_it_is,
        name=name or "runs",
        customdata=[list(dot.names) for dot in dots],
        text=[_hover(dot) for dot in dots],
        hovertemplate="<b>%{text}</b><br>%{y" + form + "} at %{x:.4g}<extra></extra>",
    )


def _hover(dot: Dot) -> str:
    runs = f" · {len(dot.names)} runs" if len(dot.names) > 1 else ""
    return as_text(dot.name) + runs


def _bars(of: Sequence[tuple[float, tuple[float, float] | None]], color: str) -> dict[str, Any] | None:
    if not any(bounds for _, bounds in of):
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [0 if bounds is None else bounds[1] - value for value, bounds in of],
        "arrayminus": [0 if bounds is None else value - bounds[0] for value, bounds in of],
        "color": color,
        "thickness": 1.1,
        "width": 0,
    }
