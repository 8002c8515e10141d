"""A figure of the screen as papers and slides want it: its size in inches, one size of text, always on light paper.

A column of a paper is a third as wide as a screen. The figure is therefore not shrunk but drawn anew in that size:
titles of axes are broken into lines that fit, the legend stands above the picture in as many columns as have room, and
lines and markers become finer. In greyscale a curve is told by its dash and its marker.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import plotly.graph_objects as go

from zorba_core.plots.theme import DARK, DASHES, LIGHT, SYMBOLS, as_text

PIXELS_PER_INCH = 96  # of SVG and of Chromium's print
_POINTS_PER_INCH = 72
_LETTER = 0.56  # mean width of a letter, as a share of the size of the text
_LINE, _BETWEEN = 1.3, 6  # height of a line of the legend, as a share of it, and pixels between lines
_LONG_LEGEND = 4  # lines of a legend; on a slide, whose height is given, more of them are set smaller
_SWATCH = 46  # pixels of a legend's entry beside its words
_SCREEN_WIDTH = 760  # pixels for which the figures' heights are made


@dataclass(frozen=True)
class Sheet:
    """Where a figure goes."""

    title: str
    width_in: float
    points: float  # of all text
    strength: float  # of lines and markers, against the screen
    height_in: float | None = None  # None: as high as the figure needs
    dots_per_inch: int = 600  # of a PNG

    @property
    def width(self) -> int:
        return round(self.width_in * PIXELS_PER_INCH)

    @property
    def text(self) -> float:
        """Size of the text in pixels."""
        return self.points * PIXELS_PER_INCH / _POINTS_PER_INCH


SHEETS = {
    "column": Sheet("One column", 3.5, 8, 0.6),
    "page": Sheet("Two columns", 7.16, 8, 0.75),
    "slide": Sheet("Slide", 10.0, 16, 1.4, height_in=5.625, dots_per_inch=192),
}


def axis_titles(figure: go.Figure) -> dict[str, str]:
    """The titles that can be changed: ``xaxis``, ``yaxis2`` and so on, in one line each."""
    layout = figure.layout.to_plotly_json()
    titles = {name: _title(layout[name]) for name in sorted(layout) if re.fullmatch(r"[xy]axis\d*", name)}
    return {name: re.sub(r"<[^>]*>", " ", title) for name, title in titles.items() if title}


def for_print(
    figure: go.Figure,
    sheet: Sheet,
    *,
    title: str = "",
    titles: Mapping[str, str] | None = None,
    legend: bool = True,
    grey: bool = False,
) -> go.Figure:
    """``figure`` drawn for ``sheet``; the figure itself stays as it is.

    Args:
        title: above the figure; none when empty.
        titles: other words for the axes, by the names of :func:`axis_titles`.
        grey: without colours; curves get dashes and markers of their own, bars patterns.
    """
    content = _recolored(figure.to_dict(), _light)
    traces, layout = content.get("data", []), content.setdefault("layout", {})
    if grey:
        _tell_apart(traces)
        content = _recolored(content, _greys(traces))
        traces, layout = content["data"], content["layout"]
    asked_height = layout.get("height") or 440
    content = _sized(content, sheet, ("",))
    traces, layout = content["data"], content["layout"]
    titles = {name: as_text(words) for name, words in {**axis_titles(figure), **(titles or {})}.items()}
    names = _entries(traces, layout) if legend else []
    small = sheet.text
    columns, legend_height = _legend(names, sheet, small)
    if sheet.height_in and legend_height > _LONG_LEGEND * _LINE * small:
        small *= 0.62
        columns, legend_height = _legend(names, sheet, small)
    heading = _wrapped(as_text(title), sheet.width, 1.15 * sheet.text) if title.strip() else ""
    heading_height = 1.35 * 1.15 * sheet.text * (heading.count("<br>") + 1) if heading else 0
    top = heading_height + legend_height + 0.5 * sheet.text
    body = sheet.width * min(1.4, max(0.56, asked_height / _SCREEN_WIDTH))
    height = round(sheet.height_in * PIXELS_PER_INCH if sheet.height_in else body + top)
    for name in ("uirevision", "modebar", "hovermode", "dragmode", "clickmode", "autosize"):
        layout.pop(name, None)
    layout |= {
        "width": sheet.width,
        "height": height,
        "font": {**layout.get("font", {}), "size": sheet.text},
        "margin": {"l": 0.4 * sheet.text, "r": 0.8 * sheet.text, "t": top, "b": 0.4 * sheet.text},
        "showlegend": bool(names),
        "legend": {
            **{key: value for key, value in layout.get("legend", {}).items() if key in ("title", "traceorder")},
            "orientation": "h",
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1 - heading_height / height,
            "yref": "container",
            "yanchor": "top",
            "entrywidth": (sheet.width - 2) / columns - _SWATCH,
            "entrywidthmode": "pixels",
            "tracegroupgap": 0,
            "maxheight": legend_height + 20,
            "font": {"size": small},
            "bgcolor": "rgba(0,0,0,0)",
        },
        "title": {
            "text": heading,
            "x": 0.5 * sheet.text / sheet.width,
            "y": 1 - 0.25 * sheet.text / height,
            "xanchor": "left",
            "yanchor": "top",
            "font": {"size": 1.15 * sheet.text},
        },
    }
    for trace in traces:
        trace.pop("legendgroup", None)  # each would be a paragraph of its own
        if trace.get("name") in names:
            trace["name"] = _wrapped(trace["name"], sheet.width / columns - _SWATCH, small)
        if trace.get("type") == "parcoords":
            trace |= {font: {**trace.get(font, {}), "size": sheet.text} for font in ("labelfont", "tickfont")}
            layout["margin"] |= {"l": 5 * sheet.text, "r": 5 * sheet.text, "t": top + 3 * sheet.text, "b": sheet.text}
    for name in [name for name in layout if re.fullmatch(r"[xy]axis\d*", name)]:
        axis, along_x = layout[name], name.startswith("x")
        low, high = axis.get("domain") or (0, 1)
        room = (high - low) * (0.8 * sheet.width if along_x else 0.78 * (height - top))
        axis["automargin"] = True
        if name in titles:
            axis["title"] = {
                "text": _wrapped(titles[name], room, sheet.text),
                "standoff": 0.5 * sheet.text,
                "font": {"size": sheet.text},
            }
        axis["tickfont"] = {**axis.get("tickfont", {}), "size": sheet.text}
        if not axis.get("tickvals") and axis.get("dtick") is None:
            axis["nticks"] = max(3, round(room / (4.5 if along_x else 3) / sheet.text))
    return go.Figure(content)


def _title(axis: Mapping[str, Any]) -> str:
    title = axis.get("title") or {}
    return (title if isinstance(title, str) else title.get("text")) or ""


def _entries(traces: list[dict[str, Any]], layout: Mapping[str, Any]) -> list[str]:
    """Names in the legend, each once."""
    if layout.get("showlegend") is False:
        return []
    listed = [trace["name"] for trace in traces if trace.get("name") and trace.get("showlegend") is not False]
    of_kinds = [trace for trace in traces if trace.get("type", "scatter") in ("scatter", "scattergl", "bar", "box")]
    if not of_kinds or (len(listed) < 2 and not layout.get("showlegend")):
        return []
    return list(dict.fromkeys(listed))


def _legend(names: list[str], sheet: Sheet, text: float) -> tuple[int, float]:
    """(columns, height in pixels) with words of ``text`` pixels."""
    if not names:
        return 1, 0.0
    widest = max(len(re.sub(r"<[^>]*>", "", name)) for name in names) * _LETTER * text + _SWATCH
    columns = max(1, min(len(names), int(sheet.width // widest)))
    rows = math.ceil(len(names) / columns)
    lines = max(_wrapped(name, sheet.width / columns - _SWATCH, text).count("<br>") + 1 for name in names)
    return columns, rows * (_LINE * text * lines + _BETWEEN) + 0.6 * text


def _wrapped(text: str, width: float, size: float) -> str:
    """Broken into lines of at most ``width`` pixels; text with marks of its own stays as it is."""
    letters = max(8, int(width / (_LETTER * size)))
    if "<" in text or len(text) <= letters:
        return text
    return "<br>".join(textwrap.wrap(text, letters, break_long_words=False, break_on_hyphens=False))


def _sized(value: Any, sheet: Sheet, path: tuple[str, ...]) -> Any:
    """Text of one size, and lines and markers as strong as ``sheet`` wants them."""
    if isinstance(value, dict):
        return {key: _sized(item, sheet, (*path, key)) for key, item in value.items()}
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        return [_sized(item, sheet, path) for item in value]
    key, holder = path[-1], path[-2] if len(path) > 1 else ""
    if key == "size" and holder.endswith("font") and isinstance(value, int | float):
        return sheet.text
    thin = key == "width" and holder in ("line", "error_x", "error_y")
    if (thin or key == "thickness" or (key == "size" and holder == "marker")) and value is not None:
        return _times(value, sheet.strength)
    return value


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value * factor
    try:
        return np.asarray(value, float) * factor
    except (TypeError, ValueError):
        return value


# Colours


def _recolored(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of a figure's content with every colour as ``change`` has it."""
    if isinstance(value, dict):
        return {
            key: item if key in ("text", "hovertext", "name", "customdata") else _recolored(item, change)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_recolored(item, change) for item in value]
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
        return [_recolored(item, change) for item in value.tolist()]
    return change(value) if isinstance(value, str) and _COLOR.fullmatch(value) else value


_COLOR = re.compile(r"#[0-9a-fA-F]{6}|rgba?\([^)]*\)")
_ROLES = [field.name for field in fields(LIGHT) if field.name not in ("name", "series")]
_LIGHT_OF = {
    **{dark.lower(): light for dark, light in zip(DARK.series, LIGHT.series, strict=True)},
    **{getattr(DARK, role).lower(): getattr(LIGHT, role) for role in _ROLES},
}


def _light(color: str) -> str:
    """The colour of the light palette that has this one's role in the dark one; others stay."""
    rgb, opacity = _parts(color)
    if rgb is None:
        return color
    light = _LIGHT_OF.get(_hex(rgb))
    return color if light is None else _with(_parts(light)[0], opacity)


def _greys(traces: list[dict[str, Any]]) -> Callable[[str], str]:
    """Greys for the colours of ``traces``: the first is black, the last still dark enough to be seen on paper."""
    seen: list[str] = []

    def note(color: str) -> str:
        rgb, opacity = _parts(color)
        if rgb is not None and opacity == 1 and max(rgb) - min(rgb) > 24 and _hex(rgb) not in seen:
            seen.append(_hex(rgb))
        return color

    for trace in traces:
        plain = {key: trace[key] for key in ("line", "marker", "fillcolor") if key in trace}
        plain = {key: {k: v for k, v in part.items() if k != "colorscale"} if isinstance(part, dict) else part
                 for key, part in plain.items()}  # fmt: skip
        _recolored(plain, note)
    levels = {color: round(255 * 0.62 * n / max(1, len(seen) - 1)) for n, color in enumerate(seen)}

    def grey(color: str) -> str:
        rgb, opacity = _parts(color)
        if rgb is None:
            return color
        level = levels.get(_hex(rgb), round(0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]))
        return _with((level, level, level), opacity)

    return grey


def _tell_apart(traces: list[dict[str, Any]]) -> None:
    """Without colours, curves of one dash, markers of one shape and bars of one fill would be one."""
    groups: dict[str, int] = {}
    for trace in traces:
        if trace.get("showlegend") is False or not trace.get("name"):
            continue
        number = groups.setdefault(trace["name"], len(groups))
        kind, mode = trace.get("type", "scatter"), trace.get("mode", "lines")
        if kind == "bar":
            pattern = {"shape": ("", "/", "x", ".", "\\", "-", "+")[number % 7], "solidity": 0.35}
            trace["marker"] = {**trace.get("marker", {}), "pattern": pattern}
        elif kind == "scatter":
            line = trace.get("line", {})
            if "lines" in mode and line.get("dash") in (None, "solid"):
                trace["line"] = {**line, "dash": DASHES[number % len(DASHES)]}
            marker = trace.get("marker", {})
            if "markers" in mode and marker.get("symbol") in (None, "circle"):
                trace["marker"] = {**marker, "symbol": SYMBOLS[number % len(SYMBOLS)]}


def _parts(color: str) -> tuple[tuple[int, int, int] | None, float]:
    if color.startswith("#"):
        return tuple(int(color[at : at + 2], 16) for at in (1, 3, 5)), 1.0
    numbers = re.findall(r"[\d.]+", color)
    if len(numbers) not in (3, 4):
        return None, 1.0
    red, green, blue = (round(float(number)) for number in numbers[:3])
    return (red, green, blue), float(numbers[3]) if len(numbers) == 4 else 1.0


def _hex(rgb: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def _with(rgb: tuple[int, int, int], opacity: float) -> str:
    return _hex(rgb) if opacity == 1 else f"rgba({rgb[0]},{rgb[1]},{rgb[2]},{opacity:g})"
