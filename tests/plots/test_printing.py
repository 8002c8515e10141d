"""Figures as papers want them: the size asked for, one size of text, light, no title cut, told apart in grey."""

from __future__ import annotations

import json
import re

import numpy as np
import plotly.graph_objects as go
import pytest

from zorba_core.allocation import Allocation
from zorba_core.plots import DARK, LIGHT, allocation_figure, curves_figure
from zorba_core.plots.kinds import kinds_figure
from zorba_core.plots.printing import SHEETS, axis_titles, for_print
from zorba_core.plots.to_target import ToTarget, to_target_figure
from zorba_core.study.comparison import CurvePanel
from zorba_core.study.comparison.curves import Curve


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
    "target": lambda palette: to_target_figure([ToTarget("a", (1.0, 3.0), (9.0,))], cost="round", palette=palette),
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
