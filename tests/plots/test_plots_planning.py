"""The pictures of the Fleet and Trade-off pages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.shared.scenario import Scenario
from app.shared.study import study
from app.shared.tradeoff import AXES, COSTS, MEASURES, View, baselines, bound, paper_scenarios, value_of
from zorba_core.plots import (
    DARK,
    Axis,
    Mark,
    Points,
    affordable_figure,
    parallel_figure,
    tradeoff_figure,
    vram_figure,
)

SCENARIO = Scenario(num_clients=15, num_epsilons=80)


@pytest.fixture(scope="module")
def result():
    return study(SCENARIO)


def points_of(view: View, number: int = 0) -> Points:
    customdata = np.column_stack((np.arange(len(view.x_E)), np.full(len(view.x_E), number)))
    return Points("method", view.x_E, view.y_E, view.order_F, customdata, "")


def named(figure, name):
    return next(trace for trace in figure.data if trace.name == name)


def test_every_point_of_the_plot_can_be_traced_back_by_a_click(result):
    view = View(result, "gib", "mean_inverse_popularity")
    figure = tradeoff_figure(points_of(view), Axis("x"), Axis("y", log=True))
    for name in ("dominated", "method"):
        trace = named(figure, name)
        index = np.asarray(trace.customdata)[:, 0].astype(int)
        np.testing.assert_array_equal(trace.x, view.x_E[index])
        np.testing.assert_array_equal(trace.y, view.y_E[index])
    np.testing.assert_array_equal(np.asarray(named(figure, "method").customdata)[:, 0], view.order_F)


def test_methods_and_marks_differ_in_shape_and_not_by_colour_alone(result):
    view = View(result, "ratio", "lambda")
    others = [points_of(view, number) for number in (1, 2, 3)]
    marks = [Mark(kind, kind, 0.7, 0.5) for kind in ("selected", "recommended", "paper", "baseline")]
    figure = tradeoff_figure(points_of(view), Axis("x"), Axis("y", log=True), others=others, marks=marks)
    lines = [trace for trace in figure.data if trace.mode == "lines+markers"]
    assert len({trace.line.dash for trace in lines}) == len({trace.marker.symbol for trace in lines}) == 4
    shapes = [trace.marker.symbol for trace in figure.data if trace.mode in ("markers", "markers+text")]
    assert len(set(shapes)) == len(shapes)


def test_a_landmark_beyond_the_plot_is_named_at_its_edge_with_its_value(result):
    view = View(result, "ratio", "lambda")
    marks = [Mark("baseline", "FedIT", 9.5, 0.02, "950%")]
    figure = tradeoff_figure(points_of(view), Axis("x"), Axis("y", log=True), marks=marks)
    trace = named(figure, "baseline")
    assert trace.x[0] == figure.layout.xaxis.range[1] < 2
    assert "FedIT need 950%" in trace.text[0]


PAPER_COSTS = [cost for cost in COSTS if cost not in ("true", "seconds")]  # what the number of blocks decides


@pytest.mark.parametrize("cost", PAPER_COSTS)
@pytest.mark.parametrize("measure", ["lambda", "mean_inverse_popularity"])
@pytest.mark.parametrize("solver", ["balanced", "two-level", "exact"])
def test_no_point_of_any_method_lies_below_the_bound(cost, measure, solver):
    view = View(study(SCENARIO.replace(solver=solver)), cost, measure)
    x_T, y_T = bound(view.study, cost, measure)
    usable = ~np.isnan(view.y_E)
    nearest = np.searchsorted(x_T, view.x_E[usable] * (1 + 1e-12), side="left").clip(max=len(x_T) - 1)
    assert (view.y_E[usable] >= y_T[nearest] * (1 - 1e-9)).all()  # the bound falls with cost: the next total's is lower


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_on_the_plot_is_the_measure_of_the_matrix(result, measure):
    view = View(result, "ratio", measure)
    for point in view.order_F[:: max(1, len(view.order_F) // 5)]:
        assert value_of(result.solution(int(point)), measure) == pytest.approx(view.y_E[point])


@pytest.mark.parametrize("cost", [cost for cost in COSTS if cost not in PAPER_COSTS])
def test_costs_that_the_number_of_blocks_does_not_decide_have_no_bound(result, cost):
    assert bound(result, cost, "lambda") is None


@pytest.mark.parametrize("measure", [name for name in AXES if MEASURES[name].traded])
@pytest.mark.parametrize("cost", [*PAPER_COSTS, "seconds"])
def test_half_the_weight_on_convergence_recommends_the_knee(result, cost, measure):
    view = View(result, cost, measure)
    assert view.recommended(0.5) == view.knee
    ends = view.recommended(0.0), view.recommended(1.0)
    assert ends == (view.order_F[0], view.order_F[-1])


def test_landmarks_lie_where_the_paper_and_the_memory_model_put_them(result):
    assert paper_scenarios(result, "ratio", "lambda") == []  # they are of the paper's own fleet
    papers = replace(result, scenario=SCENARIO.replace(num_clients=50))
    ratio = {mark.name: (mark.x, mark.y) for mark in paper_scenarios(papers, "ratio", "lambda")}
    assert ratio["SC2"] == pytest.approx((0.86, 0.50))
    gib = {mark.name: mark.x for mark in paper_scenarios(papers, "gib", "lambda")}
    assert gib["SC2"] == pytest.approx(0.86 * result.capacity_gib)
    assert paper_scenarios(result, "ratio", "mean_inverse_popularity") == []
    assert baselines(result, "blocks", "lambda") == []  # not every client of it holds all blocks


def test_both_histograms_of_a_fleet_count_every_client_once():
    rng = np.random.default_rng(0)
    for capacity_N in (rng.uniform(0.4, 2, 300), rng.choice([0.4, 8.0, 16.0], 300)):
        figure = vram_figure(capacity_N, one_block_gib=0.6, all_blocks_gib=1.9, palette=DARK)
        assert sum(sum(trace.y) for trace in figure.data) == 300
        small = named(figure, "too small")
        assert small.marker.pattern.shape == "/"
    blocks_N = rng.integers(0, 20, 300)
    figure = affordable_figure(blocks_N, 12)
    assert sum(sum(trace.y) for trace in figure.data) == 300
    assert list(named(figure, "too small").y) == [(blocks_N == 0).sum()]


@pytest.mark.parametrize("one_block_gib", [0.1, 0.41, 0.6, 1.0, 1.999, 3.0])
def test_as_many_clients_are_hatched_as_are_too_small(one_block_gib):
    capacity_N = np.append(np.random.default_rng(2).uniform(0.4, 2, 50), one_block_gib)
    figure = vram_figure(capacity_N, one_block_gib=one_block_gib, all_blocks_gib=4.0)
    small = [trace for trace in figure.data if trace.name == "too small"]
    assert sum(sum(trace.y) for trace in small) == (capacity_N < one_block_gib).sum()
    assert sum(sum(trace.y) for trace in figure.data) == 51
    widths = np.concatenate([trace.width for trace in figure.data])
    np.testing.assert_allclose(widths, widths[0])


def test_the_selected_point_is_drawn_over_the_other_lines():
    columns = {"a": np.array([1.0, 2, 3]), "b": np.array([3.0, 1, 2])}
    trace = parallel_figure(columns, selected=1).data[0]
    assert list(trace.line.color) == [0, 0, 1]
    assert [list(dimension["values"])[-1] for dimension in trace.dimensions] == [2, 1]
