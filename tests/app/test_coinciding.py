"""Fronts that lie on each other are said to, and drawn so that both are seen."""

from __future__ import annotations

import numpy as np

from app.screens.tradeoff.plot import coinciding
from zorba_core.plots import LIGHT, Axis, Mark, Points, tradeoff_figure
from zorba_core.plots.tradeoff import shared_points


def front(name: str, x: list[float], y: list[float]) -> Points:
    count = len(x)
    return Points(name, np.array(x), np.array(y), np.arange(count), np.zeros((count, 2)), "")


HERE = front("Balanced", [0.4, 0.5, 0.6], [3.0, 2.0, 1.0])
SAME = front("Exact", [0.4, 0.5, 0.6], [3.0, 2.0 + 1e-12, 1.0])
PART = front("Gain", [0.5, 0.6, 0.7, 0.8], [2.0, 1.0, 0.9, 0.8])
APART = front("Two-level", [0.45, 0.55], [2.5, 1.5])


def test_shares_are_of_the_second_fronts_points():
    assert shared_points(HERE, SAME) == 1.0
    assert shared_points(HERE, PART) == 0.5
    assert shared_points(PART, HERE) == 2 / 3
    assert shared_points(HERE, APART) == 0.0


def test_what_coincides_is_said_and_what_does_not_is_not():
    assert coinciding([HERE, SAME]) == " **Balanced and Exact coincide**: they have the same points."
    assert coinciding([HERE, PART]) == " 67% of the points of Balanced lie on Gain."
    assert coinciding([HERE, APART]) == ""


def test_a_front_upon_another_is_drawn_as_rings_and_the_selection_has_no_colour_of_a_front():
    marks = [Mark("selected", "selected", 0.5, 2.0)]
    drawn = tradeoff_figure(HERE, Axis("x"), Axis("y"), others=[SAME, APART], marks=marks, palette=LIGHT)
    by_name = {trace.name: trace for trace in drawn.data}
    assert by_name["Exact"].marker.symbol.endswith("-open")
    assert not by_name["Two-level"].marker.symbol.endswith("-open")
    selected = by_name["selected"].marker
    assert not {selected.color, selected.line.color} & set(LIGHT.series)
