"""Editing a matrix by hand: what counts, and how the result is judged."""

from __future__ import annotations

import numpy as np
import pytest

from app.screens.allocation.edits import as_link, flipped, with_cells
from app.screens.allocation.judgement import judge
from zorba_core.allocation import Allocation, Problem, solve

BASE = np.array([[1, 0, 1], [0, 1, 0]], bool)


def test_ticked_boxes_are_cells_of_the_matrix_and_the_start_stays_as_it_is():
    A_MN = with_cells(BASE, {0: {"1": True, "2": False}, "1": {"1": False}})
    assert A_MN.astype(int).tolist() == [[1, 1, 0], [0, 0, 0]]
    assert BASE.astype(int).tolist() == [[1, 0, 1], [0, 1, 0]]


def test_a_link_has_the_changed_cells():
    A_MN = with_cells(BASE, {0: {"1": True}, 1: {"2": True}})
    assert as_link(BASE, A_MN) == "0.1_1.2"
    np.testing.assert_array_equal(flipped(BASE, "0.1_1.2"), A_MN)
    assert as_link(BASE, BASE) is None
    large_MN = np.zeros((24, 50), bool)
    assert as_link(large_MN, ~large_MN) is None


@pytest.mark.parametrize("garbage", ["", "x", "9.9", "-1.0", "1.", "1.2.3", "_._", "0." + "9" * 50, "²._1"])
def test_garbage_in_a_link_changes_nothing(garbage):
    np.testing.assert_array_equal(flipped(BASE, garbage), BASE)


def judged(A_MN, budgets, most=None, solver="exact"):
    budgets = np.array(budgets)
    return judge(Allocation(A_MN), budgets, budgets if most is None else np.array(most), solver=solver)


def test_the_smallest_counter_example_beats_the_papers_solver_by_one_percent():
    hub = [[1, 0, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    found = judged(hub, [3, 2, 1, 1, 1, 1], solver="lexicographic")
    assert found.is_feasible
    assert found.lead == pytest.approx(1 - 0.66 * 3 / 2)
    assert judged(hub, [3, 2, 1, 1, 1, 1]).lead == 0
    assert judged(hub, [3, 2, 1, 1, 1, 1]).left_to_gain == 0


def test_the_solvers_own_matrix_is_level_with_it():
    budgets = np.random.default_rng(0).integers(1, 13, 50)
    for solver in ("balanced", "two-level"):
        own = solve(Problem(budgets, 12), solver).allocation
        assert judged(own.A_MN, budgets, solver=solver).lead == pytest.approx(0, abs=1e-9)


def test_what_keeps_a_matrix_from_running_is_named():
    found = judged([[1, 1, 0], [1, 0, 0], [0, 0, 0]], [1, 1, 1], most=[1, 2, 3])
    assert found.untrained_blocks == [2]
    assert found.idle_clients == [2]
    assert found.too_full_clients == [0]
    assert not found.is_feasible
    assert found.rival is found.lead is found.left_to_gain is None


def test_vram_that_the_point_leaves_free_may_be_used_and_the_solver_may_use_it_too():
    found = judged([[1, 1], [1, 1]], [1, 1], most=[2, 2])
    assert found.is_feasible
    assert found.beyond_reduction == [0, 1]
    assert found.rival.allocation.total_blocks == 4
    assert found.lead == 0
