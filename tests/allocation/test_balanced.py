"""Wrapping around: budgets met exactly, gamma* attained, and V minimal."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from zorba_core.allocation import Allocation, Problem, gamma_star, solve
from zorba_core.allocation.solvers.balanced import water_filled_budgets, wrapped


@st.composite
def budgets_and_blocks(draw, most_clients=30, most_blocks=12):
    num_blocks = draw(st.integers(1, most_blocks))
    budgets = draw(st.lists(st.integers(1, num_blocks), min_size=1, max_size=most_clients))
    while sum(budgets) < num_blocks:
        budgets.append(num_blocks)
    return np.array(budgets), num_blocks


@given(budgets_and_blocks())
@settings(max_examples=150, deadline=None)
def test_every_budget_is_met_and_popularities_differ_by_at_most_one(case):
    budgets, num_blocks = case
    allocation = solve(Problem(budgets, num_blocks)).allocation
    A_MN = allocation.A_MN
    assert (A_MN.sum(axis=0) == budgets).all()
    assert np.ptp(A_MN.sum(axis=1)) <= 1
    assert A_MN.sum(axis=1).min() == gamma_star(budgets, num_blocks)


def test_each_client_takes_the_blocks_after_those_of_the_client_before():
    assert Allocation(wrapped(3, np.array([2, 2, 0, 3]))).blocks_per_client == [[0, 1], [0, 2], [], [0, 1, 2]]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.data())
def test_water_filling_reaches_the_total_with_levels_one_apart(budgets, data):
    budgets = np.array(budgets)
    total = data.draw(st.integers(0, int(budgets.sum())))
    held = water_filled_budgets(budgets, total)
    assert held.sum() == total
    assert (held <= budgets).all()
    cut = held < budgets
    assert not cut.any() or held.max() <= held[cut].min() + 1


def test_a_million_clients_share_a_total_within_their_budgets():
    budgets = np.random.default_rng(0).integers(1, 49, 1_000_000)
    for solver in ("balanced", "two-level"):
        allocation = solve(Problem(budgets, 48, total=12_000_000), solver).allocation
        assert allocation.popularity_M.sum() == allocation.blocks_held_N.sum() <= 12_000_000
        assert (allocation.blocks_held_N <= budgets).all()
        assert allocation.blocks_held_N.min() == 1
