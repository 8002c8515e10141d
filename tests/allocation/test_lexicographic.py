"""The paper's solver: Theorem 4, Dinic, and Algorithm 1."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tests.allocation.test_balanced import budgets_and_blocks
from zorba_core.allocation import Problem, gamma_star, gamma_star_by_subsets, solve
from zorba_core.allocation.solvers.lexicographic import can_be_met, greedy_update, initial_matrix


@given(budgets_and_blocks())
@settings(max_examples=200, deadline=None)
def test_closed_form_of_gamma_star_is_theorem_4s_minimum_over_subsets(case):
    assert gamma_star(*case) == gamma_star_by_subsets(*case)


def test_budgets_not_rounded_down_give_a_gamma_star_that_no_matrix_attains():
    # Three clients that hold 1.9 blocks each of two: the printed formula says 2, whole blocks say 1.
    assert gamma_star(np.array([1.9, 1.9, 1.9]), 2) == 2
    assert solve(Problem([1, 1, 1], 2), "lexicographic").allocation.min_popularity == 1


@given(budgets_and_blocks(most_clients=8, most_blocks=6))
@settings(max_examples=60, deadline=None)
def test_gamma_star_is_the_largest_popularity_that_a_flow_gives_every_block(case):
    assert can_be_met(*case, gamma_star(*case))
    assert not can_be_met(*case, gamma_star(*case) + 1)


@given(budgets_and_blocks(most_clients=12, most_blocks=6))
@settings(max_examples=60, deadline=None)
def test_algorithm_1_serves_every_client_and_leaves_popularities_at_gamma_or_one_more(case):
    budgets, num_blocks = case
    allocation = solve(Problem(budgets, num_blocks), "lexicographic", seed=1).allocation
    gamma = gamma_star(budgets, num_blocks)
    assert allocation.blocks_held_N.min() >= 1
    assert (allocation.blocks_held_N <= budgets).all()
    assert set(allocation.popularity_M.tolist()) <= {gamma, gamma + 1}


def test_dinic_alone_can_leave_a_client_without_a_block():
    budgets = np.array([3, 3, 1])
    assert (initial_matrix(budgets, 3).sum(axis=0) == 0).any()
    assert solve(Problem(budgets, 3), "lexicographic").allocation.blocks_held_N.min() == 1


def test_algorithm_1_adds_one_client_to_a_block_at_most_and_stops_when_nobody_has_room_or_need():
    budgets = np.random.default_rng(4).integers(1, 12, 50)
    initial_MN = initial_matrix(budgets, 12)
    after_MN = greedy_update(initial_MN, budgets, np.random.default_rng(3))
    added_MN = after_MN & ~initial_MN
    assert (after_MN >= initial_MN).all()
    assert 0 < added_MN.sum() == added_MN.any(axis=1).sum()
    low_MN = after_MN & (after_MN.sum(axis=1) == gamma_star(budgets, 12))[:, None]
    room_N = budgets - after_MN.sum(axis=0)
    assert not low_MN.any() or not ((low_MN.any(axis=1)[:, None] & ~after_MN) & (room_N > 0)).any()
    assert (after_MN == solve(Problem(budgets, 12), "lexicographic", seed=3).allocation.A_MN).all()


def test_same_seed_same_matrix_and_no_global_random_state():
    budgets = np.random.default_rng(4).integers(1, 12, 50)
    problem, before = Problem(budgets, 12), budgets.copy()
    np.random.seed(0)
    state = np.random.get_state()[1].copy()
    first, second = (solve(problem, "lexicographic", seed=9).allocation.A_MN for _ in range(2))
    assert (first == second).all()
    assert (np.random.get_state()[1] == state).all()
    assert (budgets == before).all()
