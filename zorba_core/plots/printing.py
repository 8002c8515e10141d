"""A figure of the screen as papers and slides want it: its size in inches, one size of text, always on light paper.

A column of a paper is a third as wide as a screen. The figure is therefore not shrunk but drawn anew in that size:
titles are broken into lines that fit, the legend stands above the picture in as many columns as have room, and lines
and markers become finer. In greyscale a curve is told by its dash and its marker.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import plotly.graph_objects as go

from zorba_core.plots.lettering import text_width, wrapped
from zorba_core.plots.pixel_shapes import shrink_pixel_shapes
from zorba_core.plots.theme import DARK, DASHES, LIGHT, SYMBOLS, as_text

PIXELS_PER_INCH = 96  # of SVG and of Chromium's print
_POINTS_PER_INCH = 72
_LINE, _BETWEEN = 1.3, 6  # height of a line, as a share of its text's size, and pixels between rows of the legend
_SWATCH = 46  # pixels of a legend's entry beside its words
_PADDING, _LEAST = 10, 19  # pixels that plotly puts around an entry of a legend, and its least height
_HEADING = 1.15  # size of the figure's title, as a share of that of other text
_SMALLER = (1.0, 0.8, 0.62, 0.5, 0.4)  # shares of the size of text, tried in turn for the legend of a slide
_LEGEND_SHARE = 0.25  # of a slide's height: the legend at most, if that can be
_BODY_SHARE = 0.2  # of a slide's width: the height of the picture at least
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
    listed = _listed(traces, layout) if legend else []
    block = _legend([traces[place]["name"] for place in listed], sheet)
    heading = wrapped(as_text(title), sheet.width - sheet.text, _HEADING * sheet.text)
    heading_height = _heading_height(heading, sheet)
    top = heading_height + block.height + 0.5 * sheet.text
    height = _height(sheet, asked_height, top)
    for name in ("uirevision", "modebar", "hovermode", "dragmode", "clickmode", "autosize"):
        layout.pop(name, None)
    for name in [name for name in layout if re.fullmatch(r"legend\d*", name)]:
        del layout[name]
    layout |= {
        "width": sheet.width,
        "height": height,
        "font": {**layout.get("font", {}), "size": sheet.text},
        "margin": {"l": 0.4 * sheet.text, "r": 0.8 * sheet.text, "t": top, "b": 0.4 * sheet.text},
        "showlegend": bool(listed),
        "title": {
            "text": heading,
            "x": 0.5 * sheet.text / sheet.width,
            # The base line of the first line: another anchor than "bottom" shifts a title of one line, not one of more.
            "y": 1 - (0.25 + _HEADING) * sheet.text / height,
            "xanchor": "left",
            "yanchor": "bottom",
            "font": {"size": _HEADING * sheet.text},
        },
    }
    shrink_pixel_shapes(traces, layout, min(sheet.width / _SCREEN_WIDTH, (height - top) / asked_height))
    _put_in_legends(traces, listed, block)
    layout |= _legends(block, sheet, heading_height, height)
    for trace in traces:
        if trace.get("type") == "parcoords":
            trace |= {font: {**trace.get(font, {}), "size": sheet.text} for font in ("labelfont", "tickfont")}
            layout["margin"] |= {"l": 5 * sheet.text, "r": 5 * sheet.text, "t": top + 3 * sheet.text, "b": sheet.text}
    for name in [name for name in layout if re.fullmatch(r"[xy]axis\d*", name)]:
        room = 0.8 * sheet.width if name.startswith("x") else 0.78 * (height - top)
        _fit_axis(layout[name], name, titles.get(name), room, sheet)
    return go.Figure(content)


def _fit_axis(axis: dict[str, Any], name: str, title: str | None, room: float, sheet: Sheet) -> None:
    """Title and ticks for an axis that has its share of ``room`` pixels."""
    low, high = axis.get("domain") or (0, 1)
    room *= high - low
    axis["automargin"] = True
    if title is not None:
        axis["title"] = {
            "text": wrapped(title, room, sheet.text),
            "standoff": 0.5 * sheet.text,
            "font": {"size": sheet.text},
        }
    axis["tickfont"] = {**axis.get("tickfont", {}), "size": sheet.text}
    if not axis.get("tickvals") and axis.get("dtick") is None:
        axis["nticks"] = max(3, round(room / (4.5 if name.startswith("x") else 3) / sheet.text))


def _title(axis: Mapping[str, Any]) -> str:
    title = axis.get("title") or {}
    return (title if isinstance(title, str) else title.get("text")) or ""


def _heading_height(heading: str, sheet: Sheet) -> float:
    """Pixels that the figure's title takes, with some room above it."""
    return (0.25 + _HEADING * _LINE * (heading.count("<br>") + 1)) * sheet.text if heading else 0.0


def _height(sheet: Sheet, asked: float, top: float) -> int:
    """Of the figure in pixels, when ``top`` of them are for title and legend. A slide grows only where these would
    leave no picture."""
    if sheet.height_in:
        return round(max(sheet.height_in * PIXELS_PER_INCH, top + _BODY_SHARE * sheet.width))
    return round(sheet.width * min(1.4, max(0.56, asked / _SCREEN_WIDTH)) + top)


# The legend. A legend of plotly has as many columns as fit beside the ticks of the vertical axis, whose width only the
# browser knows, and cuts off the rows for which there is no room. Each entry is therefore a legend of its own at a
# place that is known here: no entry can be cut, and the columns have the whole width of the sheet.

_OF_THEMSELVES = ("scatter", "scattergl", "bar", "box")  # kinds of traces that plotly lists unasked


@dataclass(frozen=True)
class _Legend:
    """Words in rows and columns above the picture."""

    names: tuple[str, ...]  # broken into lines
    columns: int
    text: float  # pixels

    def lines(self, place: int) -> int:
        return self.names[place].count("<br>") + 1

    @property
    def rows(self) -> list[float]:
        """The height of each row in pixels."""
        firsts = range(0, len(self.names), self.columns)
        most = [max(map(self.lines, range(at, min(at + self.columns, len(self.names))))) for at in firsts]
        return [_LINE * self.text * lines + _BETWEEN for lines in most]

    @property
    def height(self) -> float:
        return sum(self.rows) + _BETWEEN if self.names else 0.0


def _listed(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> list[int]:
    """Places of the traces in the legend, in its order; of several with one name the first."""
    if layout.get("showlegend") is False:
        return []
    places: dict[str, int] = {}
    for place, trace in enumerate(traces):
        shown = trace.get("showlegend", trace.get("type", "scatter") in _OF_THEMSELVES)
        if trace.get("name") and shown and trace.get("visible") is not False:
            places.setdefault(trace["name"], place)
    if len(places) < 2 and not layout.get("showlegend"):
        return []
    is_reversed = "reversed" in layout.get("legend", {}).get("traceorder", "")
    return list(reversed(places.values())) if is_reversed else list(places.values())


def _legend(names: Sequence[str], sheet: Sheet) -> _Legend:
    """In the size of all text; on a slide, whose height is given, smaller until the picture has its room."""
    for share in _SMALLER if sheet.height_in else (1.0,):
        legend = _in_columns(names, sheet.width, share * sheet.text)
        if not sheet.height_in or legend.height <= _LEGEND_SHARE * sheet.height_in * PIXELS_PER_INCH:
            break
    return legend


def _in_columns(names: Sequence[str], width: float, text: float) -> _Legend:
    """At most as many columns as the widest name allows, and names of at most a column's width."""
    widest = max((text_width(name) for name in names), default=0) * text + _SWATCH
    columns = max(1, min(len(names), int(width // widest)))
    rows = math.ceil(len(names) / columns)
    columns = math.ceil(len(names) / max(1, rows)) or 1  # rows alike, rather than one name alone in the last
    return _Legend(tuple(wrapped(name, width / columns - _SWATCH, text) for name in names), columns, text)


def _put_in_legends(traces: list[dict[str, Any]], listed: Sequence[int], legend: _Legend) -> None:
    """Each listed trace alone in a legend, the others in none."""
    for trace in traces:
        trace.pop("legendgroup", None)  # would put a gap above the entry
        if trace.get("showlegend") or trace.get("type", "scatter") in _OF_THEMSELVES:
            trace["showlegend"] = False
    for number, place in enumerate(listed):
        traces[place] |= {"name": legend.names[number], "legend": _legend_id(number), "showlegend": True}


def _legends(legend: _Legend, sheet: Sheet, above: float, height: float) -> dict[str, Any]:
    """The layout's part for ``legend``, ``above`` pixels below the upper edge of a figure of ``height`` pixels."""
    rows, parts = legend.rows, {}
    for number in range(len(legend.names)):
        row, column = divmod(number, legend.columns)
        middle = above + _BETWEEN + sum(rows[:row]) + rows[row] / 2
        upper = max(0.0, middle - (max(_LINE * legend.text * legend.lines(number) + 3, _LEAST) + _PADDING) / 2)
        parts[_legend_id(number)] = {
            "orientation": "h",
            "x": column / legend.columns,
            "xref": "container",
            "xanchor": "left",
            "y": max(0.5, 1 - upper / height),
            "yref": "container",
            "yanchor": "top",
            "maxheight": height,
            "font": {"size": legend.text},
            "bgcolor": "rgba(0,0,0,0)",
            **_spacer(upper - height / 2),
        }
    return parts


def _spacer(height: float) -> dict[str, Any]:
    """Room above the entry of a legend. One that begins in the lower half of a figure would take the bottom margin from
    the picture instead of the top one; such a legend begins in the middle, with a title that nobody sees."""
    if height <= 0:
        return {}
    return {"title": {"text": "\u200b", "side": "top", "font": {"size": max(1.0, height / _LINE)}}}


def _legend_id(number: int) -> str:
    return f"legend{number + 1}" if number else "legend"


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
