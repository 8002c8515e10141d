"""A figure as the browser is sent it, so that it is drawn once.

Streamlit's chart asks plotly.js to draw a new figure, and right after it once more with a copy of the same. Plotly.js
takes the copy for another figure, and draws all of it again, if it holds a template or typed arrays, or names no
revision of its data. Here the template's settings stand in the layout itself, arrays are lists, and the revision stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.basedatatypes import BaseFigure

_AXIS = re.compile(r"[xy]axis\d*")
_CLICKABLE = {"clickmode": "event+select", "hovermode": "closest", "dragmode": "pan"}
_DIGITS = 7  # of a number; a screen shows fewer


class SentFigure(BaseFigure):
    """``figure`` as ``st.plotly_chart`` takes it; ``clickable`` where its points can be selected. Plotly has checked it
    already, and does not so again."""

    def __init__(self, figure: go.Figure, *, clickable: bool = False) -> None:
        self._content = sent(figure)
        if clickable:  # what Streamlit would set after the first drawing
            layout = self._content["layout"]
            for name, value in _CLICKABLE.items():
                layout[name] = layout.get(name) or value

    def to_dict(self) -> dict[str, Any]:
        return self._content


def sent(figure: go.Figure) -> dict[str, Any]:
    """Traces and layout of ``figure``, without a template and without numpy's arrays."""
    traces = [_plain(trace.to_plotly_json()) for trace in figure.data]
    layout = figure.layout.to_plotly_json()
    template = layout.pop("template", {}).get("layout", {})
    axes = {name: template[name] for name in ("xaxis", "yaxis") if name in template}
    settings = {name: value for name, value in template.items() if name not in axes}
    drawn = {name for name in layout if _AXIS.fullmatch(name)}
    if any("dimensions" not in trace for trace in traces):  # parallel coordinates have axes of their own
        drawn |= axes.keys()
    plain = {f"{axis[0]}axis{axis[1:]}" for trace in traces if trace["type"] == "heatmap" for axis in _axes_of(trace)}
    for name in drawn:
        settings[name] = {**axes.get(name[:5], {})}
        # A colour that stands in the layout itself asks for the line as well.
        for color, line in (("linecolor", "showline"), ("gridcolor", "showgrid")):
            if line not in layout.get(name, {}) and (color == "linecolor" or name in plain):
                settings[name].pop(color, None)
    return {"data": traces, "layout": _plain(_filled(layout, settings)) | {"datarevision": 0}}


def _axes_of(trace: Mapping[str, Any]) -> tuple[str, str]:
    """``("x", "y2")``."""
    return trace.get("xaxis", "x"), trace.get("yaxis", "y")


def _filled(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """``given``, and of ``defaults`` what it does not say."""
    filled = {**defaults, **given}
    for name, value in given.items():
        if isinstance(value, Mapping) and isinstance(defaults.get(name), Mapping):
            filled[name] = _filled(value, defaults[name])
    return filled


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _listed(value) if isinstance(value, np.ndarray) else value


def _listed(values: np.ndarray) -> list[Any]:
    """Numbers with as many digits as a screen needs; None where there is none."""
    if values.dtype.kind == "M":
        return values.astype(str).tolist()
    if values.dtype.kind != "f":
        return values.tolist()
    values = values.astype(float)
    finite = np.isfinite(values)
    sized = finite & (np.abs(values) > 1e-200)
    power = np.floor(np.log10(np.abs(values), where=sized, out=np.zeros_like(values)))
    scale = 10.0 ** (_DIGITS - 1 - power)
    rounded = np.where(finite, np.round(np.where(finite, values, 0.0) * scale) / scale, values)
    return rounded.tolist() if finite.all() else np.where(finite, rounded.astype(object), None).tolist()
