"""Figures as papers want them: the size asked for, one size of text, light, nothing cut, told apart in grey."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import plotly.graph_objects as go
import pytest
from PIL import Image

from zorba_core.allocation import Allocation
from zorba_core.plots import DARK, LIGHT, allocation_figure, curves_figure
from zorba_core.plots.kinds import kinds_figure
from zorba_core.plots.picture_server import PictureServer
from zorba_core.plots.printing import SHEETS, axis_titles, for_print
from zorba_core.plots.theme import as_text
from zorba_core.plots.toy_map import CELL_PX, class_places, toy_map
from zorba_core.study.comparison import CurvePanel
from zorba_core.study.comparison.curves import Curve
from zorba_core.study.toy.observations import lettered_classes


def curves(count: int, palette=LIGHT) -> go.Figure:
    lines = [
        Curve(f"method {n} · lr 0.0{n}", x, x / 10 + n, x, 3, *band)
        for n in range(count)
        for x in [np.arange(1.0, 5.0)]
        for band in [(x / 10 + n - 0.1, x / 10 + n + 0.1)]
    ]
    panels = [CurvePanel(tuple(lines), measure, "work", {}, (), (0.7,)) for measure in ("eval_accuracy", "eval_loss")]
    return curves_figure(panels, palette=palette)


MAKERS = {
    "curves": lambda palette: curves(6, palette),
    "matrix": lambda palette: allocation_figure(Allocation(np.eye(5, dtype=bool)).A_MN, palette=palette),
    "kinds": lambda palette: kinds_figure(np.array([[0.2, 1.0], [0.0, 0.5]]), ["8 GiB", "24 GiB"], palette=palette),
}


def content(figure: go.Figure) -> str:
    return json.dumps(json.loads(figure.to_json()), sort_keys=True).lower()


def sizes(value, path=()):
    """Every size of text that a figure names."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from sizes(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            yield from sizes(item, path)
    elif path and path[-1] == "size" and path[-2].endswith("font"):
        yield value


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_figure_of_the_dark_theme_is_printed_as_that_of_the_light_one(make):
    for sheet in SHEETS.values():
        assert content(for_print(make(DARK), sheet)) == content(for_print(make(LIGHT), sheet))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("name", ["column", "page"])
def test_text_is_of_8_points_on_the_width_that_papers_ask_for(make, name):
    printed = for_print(make(LIGHT), SHEETS[name], title="What it shows")
    assert printed.layout.width == {"column": 336, "page": 687}[name]  # 3.5 and 7.16 in at 96 pixels
    points = {round(size * 72 / 96, 1) for size in sizes(json.loads(printed.to_json()))}
    assert points <= {8.0, 9.2}  # 9.2: the title
    assert 8.0 in points


def test_titles_are_broken_into_lines_that_fit_and_can_be_changed():
    figure = curves(2)
    titles = axis_titles(figure)
    assert titles["xaxis"].startswith("Forward passes of one client's batch; a backward")
    assert {"xaxis", "yaxis", "yaxis2"} == set(titles)
    printed = for_print(figure, SHEETS["column"], titles={"yaxis": "How <b>often</b> it is right & why"})
    lines = printed.layout.xaxis.title.text.split("<br>")
    assert len(lines) > 1
    assert max(map(len, lines)) * 0.56 * 10.7 < 336
    assert printed.layout.yaxis.title.text.replace("<br>", " ") == "How &lt;b>often&lt;/b> it is right &amp; why"
    assert printed.layout.xaxis.automargin
    assert figure.layout.width is None  # the screen's figure is as it was


def test_the_legend_stands_above_the_picture_with_room_for_every_name():
    few, many = for_print(curves(2), SHEETS["column"]), for_print(curves(20), SHEETS["column"])
    assert many.layout.height > few.layout.height + 18 * 10
    assert many.layout.margin.t >= 20 * 15
    slide = for_print(curves(20), SHEETS["slide"])
    assert slide.layout.height == 540
    assert slide.layout.margin.t < 0.5 * 540
    assert for_print(curves(20), SHEETS["column"], legend=False).layout.showlegend is False


def entries(printed: go.Figure) -> list[tuple[go.Scatter, float, float, float]]:
    """(trace, left edge, upper edge, height) of each entry of the legend, in pixels, as plotly places them."""
    found = []
    for trace in printed.data:
        if trace.showlegend is False:
            continue
        legend = printed.layout[trace.legend]
        assert (legend.xref, legend.yref, legend.yanchor) == ("container", "container", "top")
        lines = trace.name.count("<br>") + 1
        spacer = 1.3 * legend.title.font.size if legend.title.text else 0
        upper = (1 - legend.y) * printed.layout.height + spacer
        found.append((trace, legend.x * printed.layout.width, upper, max(16, 1.3 * legend.font.size * lines) + 13))
    return found


@pytest.mark.parametrize("count", [2, 4, 9, 25, 42])
@pytest.mark.parametrize("name", SHEETS)
@pytest.mark.parametrize("title", ["", "word " * 40])
def test_each_entry_of_the_legend_has_a_place_of_its_own_above_the_picture(count, name, title):
    printed = for_print(curves(count), SHEETS[name], title=title)
    placed = entries(printed)
    assert len({trace.legend for trace, *_ in placed}) == count == len(placed)  # no entry is in another's legend
    assert {trace.name for trace, *_ in placed} == {trace.name for trace in curves(count).data if trace.showlegend}
    assert all(upper >= 0 and upper + height <= printed.layout.margin.t + 1 for _, _, upper, height in placed)
    # Beginning in the lower half, plotly would reserve the figure's bottom for it instead of its top.
    assert all(printed.layout[trace.legend].y >= 0.5 for trace, *_ in placed)
    for trace, left, upper, _ in placed:
        size = printed.layout[trace.legend].font.size
        assert left + 40 + 0.5 * size * len(trace.name) < printed.layout.width
        others = [other for other in placed if other[0] is not trace and abs(other[2] - upper) < 1.3 * size]
        assert all(abs(other[1] - left) > 40 + 0.5 * size * len(trace.name) for other in others)


def test_a_long_name_is_broken_and_its_row_is_as_high():
    names = ["a", "one-name-without-any-space-" * 3, "several words " * 6]
    figure = go.Figure([go.Scatter(x=[1, 2], y=[1, 2], name=name) for name in names])
    printed = for_print(figure, SHEETS["column"])
    lines = [trace.name.split("<br>") for trace in printed.data]
    assert ["".join(part).replace(" ", "") for part in lines] == [name.replace(" ", "") for name in names]
    assert max(len(line) for part in lines for line in part) * 0.5 * 10.7 < 336 - 40
    heights = [height for *_, height in entries(printed)]
    assert heights[0] < heights[1]
    assert printed.layout.margin.t >= sum(1.3 * 10.6 * len(part) for part in lines)


def test_the_legend_lists_each_name_once_and_in_the_figures_order():
    traces = [go.Scatter(x=[1], y=[n], name=name) for n, name in enumerate("abca")] + [go.Scatter(x=[1], y=[1])]
    figure = go.Figure(traces, layout={"legend": {"traceorder": "reversed"}})
    printed = for_print(figure, SHEETS["page"])
    assert [trace.name for trace, *_ in sorted(entries(printed), key=lambda entry: entry[1])] == ["c", "b", "a"]


@pytest.mark.parametrize("name", SHEETS)
def test_a_title_of_any_200_characters_is_broken_without_losing_one(name):
    for title in ("W" * 200, "<&" * 100, "a & b < c " * 20, "Λ→中" * 66):
        printed = for_print(curves(2), SHEETS[name], title=title)
        lines = printed.layout.title.text.split("<br>")
        assert "".join(lines).replace(" ", "") == as_text(title).replace(" ", "")
        assert all(re.fullmatch(r"(?:[^&<]|&amp;|&lt;)*", line) for line in lines)  # no sign is torn
        size = printed.layout.title.font.size
        assert printed.layout.margin.t > 1.3 * size * len(lines)
        assert (1 - printed.layout.title.y) * printed.layout.height >= size  # the base line of the first


@pytest.fixture(scope="module")
def pictures():
    server = PictureServer()
    yield server
    server.stop()


def drawn(pictures: PictureServer, printed: go.Figure, scale: int = 3) -> np.ndarray:
    content = pictures.picture(printed, "png", scale=scale)
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), int)


def rgb(color: str) -> list[int]:
    return [int(color[at : at + 2], 16) for at in (1, 3, 5)]


@pytest.mark.browser
@pytest.mark.parametrize("count", [4, 9, 42])
@pytest.mark.parametrize("name", SHEETS)
def test_every_curve_is_seen_in_the_drawn_legend(count, name, pictures):
    printed = for_print(curves(count), SHEETS[name])
    pixels_YXC = drawn(pictures, printed)
    above_YXC = pixels_YXC[: round(3 * (printed.layout.margin.t - 4))]
    for color in {trace.line.color for trace in printed.data if trace.showlegend}:
        assert (abs(above_YXC - rgb(color)).max(axis=2) < 40).sum() > 30, color
    for trace, left, upper, height in entries(printed):
        middle = upper + height / 2
        rows = slice(round(3 * (middle - 4)), round(3 * (middle + 4)))
        swatch_YXC = pixels_YXC[rows, round(3 * left) : round(3 * (left + 36))]
        assert (abs(swatch_YXC - rgb(trace.line.color)).max(axis=2) < 40).sum() > 30, trace.name
        words_YXC = pixels_YXC[rows, round(3 * (left + 40)) : round(3 * (left + 60))]
        assert (words_YXC.max(axis=2) < 140).sum() > 30, trace.name
    assert (pixels_YXC[round(3 * printed.layout.margin.t) :].max(axis=2) < 140).sum() > 1000  # the picture is there too


@pytest.mark.browser
@pytest.mark.parametrize("title", ["Accuracy of " * 6 + "it", "Accuracy of " * 16 + "all eight", "W" * 200])
@pytest.mark.parametrize("name", SHEETS)
def test_a_long_title_is_drawn_whole(name, title, pictures):
    printed = for_print(curves(4), SHEETS[name], title=title)
    is_ink_YX = drawn(pictures, printed).max(axis=2) < 140
    assert not is_ink_YX[:4].any()  # its first line is not cut by the edge
    upper = round(3 * min(upper for _, _, upper, _ in entries(printed)))
    is_ink_YX = is_ink_YX[:upper]
    assert not is_ink_YX[:, -6:].any()
    is_line_Y = is_ink_YX.any(axis=1).astype(int)
    beginnings = np.flatnonzero(np.diff(is_line_Y) == 1)
    size = printed.layout.title.font.size
    assert beginnings.size == printed.layout.title.text.count("<br>") + 1
    assert beginnings.size == 1 or np.diff(beginnings).min() > 3 * size  # each as high as a line


def test_in_greyscale_there_is_no_colour_and_no_two_curves_look_alike():
    printed = for_print(curves(6), SHEETS["page"], grey=True)
    text = content(printed)
    for red, green, blue in re.findall(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})\b", text):
        assert red == green == blue
    named = [trace for trace in printed.data if trace.showlegend]
    looks = {(trace.line.color, trace.line.dash, trace.marker.symbol) for trace in named}
    assert len(looks) == 6
    assert len({(trace.line.dash, trace.marker.symbol) for trace in named}) == 6


def test_bars_without_colour_get_patterns():
    bars = go.Figure([go.Bar(x=[1], y=[1], name="a", marker={"color": "#0072B2"}), go.Bar(x=[1], y=[2], name="b")])
    printed = for_print(bars, SHEETS["column"], grey=True)
    assert [trace.marker.pattern.shape for trace in printed.data] == ["", "/"]


@pytest.mark.parametrize("name", SHEETS)
def test_no_small_matrix_of_the_toy_map_covers_another_nor_leaves_the_sheet(name):
    classes = lettered_classes()
    drawn = for_print(toy_map(classes), SHEETS[name])
    corners = re.findall(r"[MHV](-?[\d.]+)", drawn.layout.shapes[-1].path)
    side = 2 * max(abs(float(corner)) for corner in corners)
    assert side < 3 * CELL_PX
    across = 0.85 * drawn.layout.width / drawn.layout.xaxis.range[1]  # pixels of a unit; the rest are ticks
    low, high = drawn.layout.yaxis.range
    up = 0.8 * drawn.layout.height / (high - low)
    places = [np.array([across * x, up * (y - low)]) for x, y in class_places(classes).values()]
    apart = [np.abs(a - b).max() for n, a in enumerate(places) for b in places[:n]]
    assert min(apart) > side
    text = drawn.data[0].textfont.size * (1 if drawn.data[0].textposition == "top center" else 0.5)
    assert max(y for _, y in places) + side / 2 + 1.2 * text < up * (high - low)


def test_a_name_is_no_template_of_a_hover_text():
    assert "%{" not in as_text("%{y:.4f} accuracy")
    assert as_text("%{y:.4f} accuracy").replace("\u2060", "") == "%{y:.4f} accuracy"
