"""Requests that are wrong or cannot be met: one line that names what fails and by how much."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.allocation import Allocation, Problem, solve
from zorba_core.errors import InfeasibleError, InvalidInputError


def test_wrong_request_names_the_field_and_the_value(subtests):
    for arguments, message in [
        (([0, 2], 2), "client 0 has 0"),
        (([1, 5], 4), "client 1 has 5"),
        (([1, 2.5], 4), "client 1: budget is 2.5"),
        (([1, float("nan")], 4), "client 1: budget is nan"),
        ((["a"], 4), "whole numbers"),
        (([], 4), "one whole number per client"),
        (([[1, 2]], 4), "one whole number per client"),
        (([1, 2], 0), "num blocks is 0"),
        (([1, 2], 2.5), "num blocks is 2.5"),
        (([1, 2], 2, 0), "total is 0"),
        (([1, 2], 2, None, "eq"), "needs a total"),
        (([1, 2], 2, 3, "max"), "total mode"),
        (([1, 2], 2, 3, "le", 0), "min popularity is 0"),
        (([1, 2], 2, 3, "le", 1, 0), "max blocks per client is 0"),
    ]:
        with subtests.test(arguments=arguments, message=message):
            with pytest.raises(InvalidInputError, match=message) as caught:
                Problem(*arguments)
            assert "\n" not in str(caught.value)


def test_infeasible_request_names_the_constraint_and_by_how_much(subtests):
    for arguments, message in [
        (([1, 1], 3), "add up to 2 blocks, but 3 blocks .* need 3: 1 short"),
        (([2, 2, 1], 2, None, "le", 3), "need 6: 1 short"),
        (([2, 2], 2, None, "le", 3), "2 clients, 1 too few"),
        (([3, 3], 3, None, "le", 1, 1), "at most 1 blocks per client add up to 2.*: 1 short"),
        (([2, 2, 2], 2, 2), "total 2 is 1 short: 3 clients"),
        (([4, 4], 4, 3), "total 3 is 1 short: 4 blocks"),
        (([2, 2], 2, 5, "eq"), "exceeds what the budgets allow, 4, by 1"),
        (([2, 2], 2, 3, "eq", 1, 1), "at most 1 blocks per client allow, 2, by 1"),
    ]:
        with subtests.test(arguments=arguments, message=message):
            with pytest.raises(InfeasibleError, match=message) as caught:
                Problem(*arguments)
            assert "\n" not in str(caught.value)


def test_solver_refuses_what_it_cannot_honour(subtests):
    for solver, options, message in [
        ("fastest", {}, "unknown solver"),
        ("lexicographic", {"total": 3}, "does not support a total"),
        ("exact", {"time_limit": 0}, "time limit"),
        ("exact", {"time_limit": float("nan")}, "time limit"),
    ]:
        with subtests.test(solver=solver, options=options), pytest.raises(InvalidInputError, match=message):
            solve(Problem([2, 2], 2), solver, **options)


def test_no_solver_changes_its_input(subtests):
    for solver in ["balanced", "lexicographic", "two-level", "exact"]:
        with subtests.test(solver=solver):
            budgets = np.array([3, 2, 2, 1])
            problem = Problem(budgets, 3)
            solve(problem, solver)
            assert budgets.tolist() == [3, 2, 2, 1]
            assert budgets.flags.writeable
            assert problem.budget_N.tolist() == [3, 2, 2, 1]


def test_cap_on_blocks_and_least_popularity_are_honoured(subtests):
    for solver in ["balanced", "lexicographic", "two-level", "exact"]:
        with subtests.test(solver=solver):
            budgets = np.random.default_rng(0).integers(1, 9, 20)
            problem = Problem(budgets, 8, min_popularity=5, max_blocks_per_client=4)
            allocation = solve(problem, solver).allocation
            assert allocation.blocks_held_N.max() <= 4
            assert allocation.min_popularity >= 5


def test_a_matrix_being_edited_may_have_empty_rows_and_says_so():
    allocation = Allocation(np.array([[1, 0], [0, 0]]))
    assert allocation.bias_lambda == float("inf")
    assert allocation.mean_inverse_popularity == float("inf")
    assert allocation.least_popularity_N.tolist() == [1, 0]


def test_a_matrix_must_be_two_dimensional_and_binary(subtests):
    for matrix in [[[2, 0], [0, 1]], [1, 0], np.zeros((0, 3))]:
        with subtests.test(matrix=matrix), pytest.raises(InvalidInputError, match="activation matrix"):
            Allocation(np.array(matrix))
