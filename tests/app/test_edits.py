"""Editing a matrix by hand: what counts, what is taken back, and how the result is judged."""

from __future__ import annotations

import numpy as np
import pytest

from app.screens.allocation.edits import Edits
from app.screens.allocation.judgement import judge
from zorba_core.allocation import Allocation, AllocationProblem, solve

BASE = np.array([[1, 0, 1], [0, 1, 0]], bool)


def toggle(number, block, client):
    return {"id": number, "kind": "toggle", "block": block, "client": client}


def test_undo_and_redo_walk_through_the_changes():
    edits = Edits(BASE).toggle(0, 1).toggle(1, 1)
    assert edits.A_MN.astype(int).tolist() == [[1, 1, 1], [0, 0, 0]]
    assert edits.undo().A_MN.astype(int).tolist() == [[1, 1, 1], [0, 1, 0]]
    assert edits.undo().redo().A_MN.tolist() == edits.A_MN.tolist()
    assert not edits.undo().undo().undo().is_changed
    assert edits.undo().toggle(1, 2).redo().A_MN.astype(int).tolist() == [[1, 1, 1], [0, 1, 1]]


def test_the_start_matrix_is_never_written_to():
    before = BASE.copy()
    Edits(BASE).toggle(0, 0).A_MN[:] = False
    np.testing.assert_array_equal(BASE, before)


def test_a_solvers_matrix_is_taken_over_and_back_as_one_change():
    edits = Edits(BASE).toggle(0, 1)
    taken = edits.become(~BASE)
    np.testing.assert_array_equal(taken.A_MN, ~BASE)
    np.testing.assert_array_equal(taken.undo().A_MN, edits.A_MN)
    assert taken.become(~BASE) is taken


def test_an_operation_counts_once_however_often_the_browser_sends_it():
    first = Edits(BASE).apply([toggle(1, 0, 1)])
    again = first.apply([toggle(1, 0, 1), toggle(2, 1, 0), {"id": 3, "kind": "undo"}])
    np.testing.assert_array_equal(again.A_MN, first.A_MN)
    assert again.applied == 3


BROKEN = [
    {},
    {"id": "x", "kind": "toggle"},
    toggle(1, 99, 0),
    toggle(1, "a", 0),
    toggle(1, 0, None),
    {"id": 1, "kind": "__init__"},
    7,
]


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_operations_that_make_no_sense_change_nothing(broken):
    assert not Edits(BASE).apply([broken]).is_changed


def test_a_link_carries_the_changed_cells():
    edits = Edits(BASE).toggle(0, 1).toggle(1, 2).toggle(0, 1)
    assert edits.as_link() == "1.2"
    np.testing.assert_array_equal(Edits(BASE).flip("1.2").A_MN, edits.A_MN)
    assert Edits(BASE).as_link() is None


@pytest.mark.parametrize("garbage", ["", "x", "9.9", "-1.0", "1.", "1.2.3", "_._", "0." + "9" * 50, "²._1"])
def test_garbage_in_a_link_changes_nothing(garbage):
    assert not Edits(BASE).flip(garbage).is_changed


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
        own = solve(AllocationProblem(budgets, 12), solver).allocation
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
