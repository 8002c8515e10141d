"""Pictures of one allocation, of two, of Algorithm 1, of the cut, of the toy and of the bounds show what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zorba_core.allocation import Problem, gamma_certificate, solve
from zorba_core.plots import (
    DARK,
    LIGHT,
    allocation_figure,
    client_order,
)
from zorba_core.plots.difference import difference_figure, matched_blocks
from zorba_core.plots.flow import client_groups, cut_figure
from zorba_core.plots.greedy import candidate_sets_figure, greedy_figure
from zorba_core.plots.matrix import MOST_COLUMNS, column_counts, column_edges, column_names, column_shares
from zorba_core.plots.theory import (
    bound_by_lambda_figure,
    bound_by_rounds_figure,
    hidden_figure,
    rounds_where_bias_takes_over,
)
from zorba_core.plots.toy_map import class_places, toy_map
from zorba_core.study.greedy_steps import replay_greedy
from zorba_core.study.theory import Constants, theorem_1
from zorba_core.study.toy.observations import facts, lettered_classes

BUDGETS = np.random.default_rng(4).integers(1, 12, 50)
PROBLEM = Problem(BUDGETS, 12)
NAMES = [f"client-{n}" for n in range(50)]


def named(figure, start):
    return next(trace for trace in figure.data if (trace.name or "").startswith(start))


def test_a_thousand_clients_share_columns_and_no_cell_is_lost():
    A_MN = solve(Problem(np.random.default_rng(0).integers(1, 12, 1000), 12)).allocation.A_MN
    edge = column_edges(1000)
    assert len(edge) == MOST_COLUMNS + 1
    np.testing.assert_array_equal(column_counts(A_MN, edge).sum(axis=1), A_MN.sum(axis=1))
    assert column_shares(A_MN, edge).max() <= 1
    figure = allocation_figure(A_MN)
    assert figure.data[0].z.shape == (12, MOST_COLUMNS)
    assert "120 groups" in figure.layout.xaxis.title.text


def test_up_to_120_clients_have_a_column_each_under_their_own_name():
    assert column_names(NAMES, column_edges(50)) == NAMES
    assert column_names([str(n) for n in range(240)], column_edges(240))[0] == "0 … 1 (2 clients)"


def test_clients_can_be_ordered_by_budget_and_by_least_popularity():
    allocation = solve(PROBLEM, "two-level").allocation
    by_budget = client_order(allocation.A_MN, np.zeros(50), "budget", budget_N=BUDGETS)
    assert (np.diff(BUDGETS[by_budget]) <= 0).all()
    by_least = client_order(allocation.A_MN, np.zeros(50), "least")
    assert (np.diff(allocation.least_popularity_N[by_least]) >= 0).all()


def test_least_popularity_hangs_below_each_client():
    allocation = solve(PROBLEM, "two-level").allocation
    least = next(trace for trace in allocation_figure(allocation.A_MN).data if trace.yaxis == "y3")
    np.testing.assert_array_equal(least.y, allocation.least_popularity_N)


def test_matching_blocks_finds_the_same_allocation_under_other_names():
    A_MN = solve(PROBLEM, "two-level").allocation.A_MN
    renamed = A_MN[np.random.default_rng(0).permutation(12)]
    assert (renamed != A_MN).any()
    np.testing.assert_array_equal(renamed[matched_blocks(A_MN, renamed)], A_MN)


def test_a_difference_shows_each_cell_of_one_alone_once():
    a, b = solve(PROBLEM).allocation.A_MN, solve(PROBLEM, "two-level").allocation.A_MN
    figure = difference_figure(a, b, labels=("this", "that"), names=NAMES, order_N=np.arange(50))
    assert len(named(figure, "only this").x) == (a & ~b).sum()
    assert len(named(figure, "only that").x) == (b & ~a).sum()
    assert figure.data[0].z.sum() == (a & b).sum()
    filled, outlined = named(figure, "only this"), named(figure, "only that")
    assert filled.marker.color == filled.marker.line.color
    assert outlined.marker.color == "rgba(0,0,0,0)"
    np.testing.assert_array_equal(outlined.base + outlined.y / 2, np.nonzero(b & ~a)[0])  # in the middle of its block
    assert filled.width == outlined.width < 1  # cells: no mark covers a neighbour, on a screen of any width


def test_algorithm_1s_picture_has_a_mark_for_each_step_done_and_hatches_the_low_blocks():
    replay = replay_greedy(PROBLEM, seed=3)
    order_N = client_order(replay.initial_MN, np.zeros(50), "budget", budget_N=BUDGETS)
    for after in (0, 1, len(replay.steps)):
        figure = greedy_figure(replay, after, names=NAMES, order_N=order_N)
        earlier, last = named(figure, "added by"), named(figure, "added in")
        assert len(earlier.x) + len(last.x) == after
        if after:
            step = replay.steps[after - 1]
            assert (order_N[last.x[0]], last.y[0]) == (step.client, step.block)
        bars = next(trace for trace in figure.data if trace.xaxis == "x2")
        hatched = {m for m, shape in enumerate(bars.marker.pattern.shape) if shape}
        assert hatched == set(replay.state(after).low_blocks)


def test_the_candidate_sets_shrink_in_the_picture_as_in_the_steps():
    replay = replay_greedy(PROBLEM, seed=3)
    figure = candidate_sets_figure(replay, 2)
    assert list(named(figure, "L").y) == [len(replay.state(n).low_blocks) for n in range(len(replay.steps) + 1)]
    assert list(named(figure, "F").y) == [len(replay.state(n).low_clients) for n in range(len(replay.steps) + 1)]
    assert figure.layout.shapes[0].x0 == 2


@pytest.mark.parametrize("budgets", [BUDGETS, np.array([3, 3, 3, 1]), np.full(5, 3)], ids=["mixed", "open", "full"])
def test_the_cuts_groups_add_up_to_what_it_lets_through(budgets):
    num_blocks = 12 if len(budgets) == 50 else 3
    certificate = gamma_certificate(budgets, num_blocks)
    groups = client_groups(budgets, certificate)
    assert sorted(client for group in groups for client in group.clients) == list(range(len(budgets)))
    supplied = sum(group.supply for group in groups if not group.open)
    through_arcs = len(certificate.blocks) * sum(len(group.clients) for group in groups if group.open)
    assert supplied + through_arcs == certificate.capacity
    figure = cut_figure(budgets, num_blocks, certificate, palette=DARK)
    dashed = [trace for trace in figure.data if trace.mode == "lines" and trace.line.dash != "solid"]
    assert dashed
    assert all(trace.line.color == DARK.selected for trace in dashed)


def test_no_two_classes_of_the_toy_stand_on_one_spot():
    places = class_places(lettered_classes())
    assert len(places) == 17
    spots = [(round(x, 6), round(y, 6)) for x, y in places.values()]
    assert len(set(spots)) == 17
    assert list(places) == list(lettered_classes())  # the words above them are written in this order
    totals = {x: found.total_blocks for x, found in lettered_classes().items()}
    left_to_right = sorted(places, key=lambda letter: places[letter][0])
    assert [totals[letter] for letter in left_to_right] == sorted(totals.values())


@pytest.mark.parametrize("fact", facts(), ids=lambda fact: fact.key)
def test_a_claims_classes_are_framed_and_its_pairs_joined(fact):
    figure = toy_map(lettered_classes(), shown=fact.shows, arrows=fact.pairs, selected="q")
    frames = [shape for shape in figure.layout.shapes if shape.line.color == LIGHT.selected]
    assert len(frames) == len(set(fact.shows) - {"q"})
    assert len(figure.layout.annotations) == len(fact.pairs)
    assert [row[0] for row in figure.data[0].customdata] == list(lettered_classes())


BOUND = theorem_1(Constants(1e-7, 50, 1000, 1.0, mu=1e-5, sigma=1.0, sigma_global=0.5))


def test_the_bounds_terms_are_drawn_and_meet_where_the_bias_takes_over():
    turn = rounds_where_bias_takes_over(BOUND, 0.6, 1.0)
    terms = BOUND.terms(0.6, 1.0, turn)
    assert terms.start == pytest.approx(terms.total / 2)
    figure = bound_by_rounds_figure(BOUND, 0.6, 1.0, 1e6)
    total, start = figure.data[0], named(figure, "start")
    assert total.y[0] == pytest.approx(BOUND.average_gradient(0.6, 1.0, 1))
    assert start.y[0] / start.y[-1] == pytest.approx(start.x[-1] / start.x[0])
    assert len({trace.line.dash for trace in figure.data[1:]}) == len(figure.data) - 1


def test_a_term_without_a_source_is_not_drawn_on_a_logarithmic_axis():
    exact = theorem_1(Constants(1e-7, 50, 1000, 1.0, mu=0.0, sigma=0.0, sigma_global=0.5))
    names = [trace.name for trace in bound_by_rounds_figure(exact, 0.6, 1.0, 1e6).data]
    assert len(names) == 3
    assert not any("μ" in name or "(σ)" in name for name in names)


def test_a_bound_that_says_nothing_still_has_a_picture():
    wild = theorem_1(Constants(1e-3, 50, 1000, 1.0, mu=1e-5, sigma=1.0, sigma_global=0.5))
    assert math.isinf(rounds_where_bias_takes_over(wild, 10.0, 1.0))
    assert bound_by_rounds_figure(wild, 10.0, 1.0, 1e6).data
    figure = bound_by_lambda_figure(wild, 1.0, 1e6, 50, {"here": 10.0})
    assert "no bound" in figure.layout.annotations[0].text


def test_allocations_are_marked_where_the_curve_puts_them():
    figure = bound_by_lambda_figure(BOUND, 1.0, 1e6, 50, {"full": 0.02, "here": 0.6})
    for name, value in (("full", 0.02), ("here", 0.6)):
        mark = named(figure, name)
        assert mark.y[0] == pytest.approx(BOUND.average_gradient(value, 1.0, 1e6))
    assert (np.diff(figure.data[0].y) > 0).all()


def test_what_lambda_hides_has_a_marker_for_each_number_of_each_allocation():
    figure = hidden_figure({"a": {"Λ": 30.0, "V": 5.0}, "b": {"Λ": 25.0, "V": 7.0}})
    assert [list(trace.x) for trace in figure.data] == [[30.0, 5.0], [25.0, 7.0]]
    assert len({trace.marker.symbol for trace in figure.data}) == 2
