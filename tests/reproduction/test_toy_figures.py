"""The drawn matrices say what the matrix says: weights 1/c_m, and outlines whose squares sum to Lambda."""

from __future__ import annotations

from fractions import Fraction

import pytest

from notebooks.reproduction.toy import enumerate_classes
from notebooks.reproduction.toy_figures import Panel, lambda_by_total, matrix_panels
from zorba_core.allocation import Allocation
from zorba_core.plots.theme import LIGHT

EXAMPLE = Allocation([[1, 1, 1], [1, 1, 0], [1, 0, 0]])


def test_active_cells_show_their_aggregation_weight_and_frozen_cells_zero():
    figure = matrix_panels([Panel(EXAMPLE, "example")])
    assert list(figure.data[0].text) == ["1/3", "1/3", "1/3", "1/2", "1/2", "0", "1", "0", "0"]


def test_one_outlined_weight_of_each_client_squared_sums_to_lambda():
    for each in enumerate_classes():
        figure = matrix_panels([Panel(each.representative, "x")])
        outlined = {(s.x0, s.y0) for s in figure.layout.shapes if s.line.color == LIGHT.selected}
        largest: dict[int, Fraction] = {}
        drawn = figure.data[0]
        for x, y, weight, (_, client) in zip(drawn.x, drawn.y, drawn.text, drawn.customdata, strict=True):
            if any(abs(x - 0.45 - x0) < 1e-9 and abs(y + 0.45 - y0) < 1e-9 for x0, y0 in outlined):
                largest[client] = Fraction(weight)
        assert float(sum(weight**2 for weight in largest.values())) == pytest.approx(each.bias_lambda)


def test_panels_do_not_overlap():
    figure = matrix_panels([Panel(EXAMPLE, "x")] * 7, columns=3)
    corners = [(round(shape.x0, 6), round(shape.y0, 6)) for shape in figure.layout.shapes]
    assert len(set(corners)) == 7 * 9


def test_the_lowest_curve_passes_through_the_lowest_class_at_each_total():
    figure = lambda_by_total([3, 4, 4], [Fraction(3), Fraction(3, 2), Fraction(9, 4)], "abc", [6, 9, 36])
    mean, lowest = figure.data[0], figure.data[1]
    assert list(lowest.y) == [3.0, 1.5]
    assert list(mean.y) == [3.0, 2.1]
