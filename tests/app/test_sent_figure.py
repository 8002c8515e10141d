"""Figures as the browser is sent them: what they say is what they said, and nothing makes plotly.js draw them twice."""

from __future__ import annotations

import json

import numpy as np
import plotly.graph_objects as go
import pytest
from plotly.io import to_json

from app.shared.sent_figure import SentFigure
from zorba_core.plots.theme import DARK, styled


def as_sent(*traces, clickable=False, **layout) -> dict:
    figure = styled(traces, DARK, height=300, layout=layout)
    return json.loads(to_json(SentFigure(figure, clickable=clickable), validate=False))


def test_numbers_texts_and_dates_arrive_as_lists():
    trace = go.Scatter(
        x=np.array(["2026-01-01", "2026-02-03"], dtype="datetime64[D]"),
        y=np.array([1 / 3, np.nan]),
        text=np.array(["a", "b"], dtype=object),
        customdata=np.array([[7, 1e-12 / 7], [2_000_000_007, -123456.7891]]),
        marker={"size": np.array([3, 4])},
    )
    sent = as_sent(trace)["data"][0]
    assert [day[:10] for day in sent["x"]] == ["2026-01-01", "2026-02-03"]
    assert sent["y"] == [pytest.approx(1 / 3, rel=1e-6), None]
    assert sent["text"] == ["a", "b"]
    assert np.array(sent["customdata"]) == pytest.approx(trace.customdata, rel=1e-6)
    assert sent["marker"]["size"] == [3, 4]


def test_the_look_is_the_themes_where_a_figure_says_nothing():
    layout = as_sent(
        go.Scatter(x=[1], y=[2]),
        go.Scatter(x=[1], y=[2], xaxis="x2", yaxis="y2"),
        xaxis2={"anchor": "y2", "title": {"text": "rounds"}},
        yaxis2={"anchor": "x2", "gridcolor": "#123456"},
        margin={"l": 60},
    )["layout"]
    assert "template" not in layout
    assert layout["paper_bgcolor"] == DARK.paper
    assert layout["margin"] == {"l": 60, "r": 8, "t": 8, "b": 8}
    assert layout["xaxis"]["gridcolor"] == layout["xaxis2"]["gridcolor"] == DARK.faint
    assert layout["yaxis2"]["gridcolor"] == "#123456"
    assert "linecolor" not in layout["xaxis"], "plotly.js draws the line of an axis that has a colour of its own"
    assert layout["xaxis2"]["title"]["text"] == "rounds"
    assert layout["xaxis2"]["title"]["standoff"] == layout["xaxis"]["title"]["standoff"]


def test_a_figure_that_is_sent_has_a_revision_and_what_streamlit_would_set_later():
    plain, clickable = as_sent(go.Scatter(y=[1])), as_sent(go.Scatter(y=[1]), clickable=True, hovermode="x")
    assert plain["layout"]["datarevision"] == clickable["layout"]["datarevision"] == 0
    assert "dragmode" not in plain["layout"]
    assert {name: clickable["layout"][name] for name in ("clickmode", "dragmode", "hovermode")} == {
        "clickmode": "event+select",
        "dragmode": "pan",
        "hovermode": "x",
    }


def test_parallel_coordinates_get_no_axes():
    layout = as_sent(go.Parcoords(dimensions=[{"values": np.array([1.0, 2.0])}]))["layout"]
    assert "xaxis" not in layout


def test_a_heatmap_gets_no_grid_that_it_had_not_asked_for():
    layout = as_sent(go.Heatmap(z=np.eye(2), xaxis="x2"), go.Bar(x=[1], y=[2]), xaxis2={"showgrid": True})["layout"]
    assert "gridcolor" not in layout["yaxis"]
    assert layout["xaxis"]["gridcolor"] == layout["xaxis2"]["gridcolor"] == DARK.faint


def test_the_figure_itself_stays_as_it_was():
    figure = styled([go.Scatter(x=np.arange(3.0), y=np.arange(3.0))], DARK, height=300, layout={})
    before = figure.to_json()
    SentFigure(figure, clickable=True).to_dict()["layout"]["height"] = 1
    assert figure.to_json() == before
