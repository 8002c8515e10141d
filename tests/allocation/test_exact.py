"""The proven optimum against every matrix of small instances and an independent MILP on medium ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.allocation.allocation_oracles import enumerate_matrices, milp_lambda
from zorba_core.allocation import Allocation, Options, Problem, Status, solve, water_filled_bound
from zorba_core.allocation.solvers import dual_programme, exact
from zorba_core.allocation.solvers.dual_programme import DualTable
from zorba_core.allocation.solvers.permissions import Instance
from zorba_core.errors import InfeasibleError

# Most clients for which all matrices of M blocks are listed.
MOST_CLIENTS = {1: 7, 2: 7, 3: 5, 4: 4}


def check_meets(problem: Problem, allocation) -> None:
    """The matrix itself, from its cells."""
    A_MN = Allocation(allocation.A_MN).A_MN
    held_N, popularity_M = A_MN.sum(axis=0), A_MN.sum(axis=1)
    assert held_N.min() >= 1
    assert (held_N <= problem.usable_N).all()
    assert popularity_M.min() >= problem.min_popularity
    if problem.total is not None:
        assert A_MN.sum() == problem.total if problem.total_mode == "eq" else A_MN.sum() <= problem.total
    least_N = np.array([popularity_M[A_MN[:, n]].min() for n in range(A_MN.shape[1])])
    assert allocation.bias_lambda == pytest.approx((1.0 / least_N**2.0).sum(), rel=1e-12)


def small_requests(seed: int, instances: int, requests_each: int):
    """Random budgets with all their matrices, and random requests on them, infeasible ones among them."""
    rng = np.random.default_rng(seed)
    for _ in range(instances):
        M = int(rng.integers(1, 5))
        budgets = rng.integers(1, M + 1, int(rng.integers(1, MOST_CLIENTS[M] + 1)))
        if budgets.sum() < M:
            continue
        matrices = enumerate_matrices(budgets, M)
        for _ in range(requests_each):
            request = {
                "total": int(rng.integers(max(M, len(budgets)), budgets.sum() + 1)),
                "total_mode": ("le", "eq")[rng.integers(2)],
                "min_popularity": int(rng.integers(1, 3)),
                "max_blocks_per_client": (None, int(rng.integers(1, M + 1)))[rng.integers(2)],
            }
            yield budgets, M, matrices, request


@pytest.mark.slow
def test_every_solver_on_thousands_of_small_instances_against_all_matrices():
    solved = refused = 0
    for budgets, M, matrices, request in small_requests(seed=7, instances=150, requests_each=14):
        meeting = matrices.meeting(**request)
        try:
            problem = Problem(budgets, M, **request)
        except InfeasibleError:
            assert not meeting.any(), (budgets, M, request)
            refused += 1
            continue
        assert meeting.any(), (budgets, M, request)
        best, best_v = matrices.lambda_K[meeting].min(), matrices.v_K[meeting].min()
        for solver in ("exact", "two-level", "balanced"):
            solution = solve(problem, solver)
            check_meets(problem, solution.allocation)
            assert solution.lower_bound <= best + 1e-12, (budgets, M, request, solver)
            assert solution.value >= best - 1e-12
            assert not solution.optimal or solution.value == pytest.approx(best, abs=1e-9)
            if solver == "exact":
                assert solution.optimal
                assert solution.value == pytest.approx(best, abs=1e-9), (budgets, M, request)
        balanced = solve(problem, "balanced").allocation
        assert balanced.mean_inverse_popularity == pytest.approx(best_v, abs=1e-12), (budgets, M, request)
        solved += 1
    assert solved > 1000
    assert refused > 100


def test_agrees_with_a_milp_written_from_the_definition(subtests):
    for budgets, num_blocks, request_ in [
        ([5, 4, 3, 2, 2, 1], 5, {"total": 14}),
        ([4, 4, 3, 2, 2, 1, 1], 4, {"total": 14, "total_mode": "eq"}),
        ([5, 5, 2, 2, 2, 1], 5, {"min_popularity": 2}),
    ]:
        with subtests.test(budgets=budgets, num_blocks=num_blocks, request_=request_):
            value, bound = milp_lambda(budgets, num_blocks, **request_)
            solution = solve(Problem(budgets, num_blocks, **request_), "exact")
            assert value == pytest.approx(bound, abs=1e-6)
            assert solution.optimal
            assert solution.value == pytest.approx(value, abs=1e-6)


def fleet_budgets(num_blocks: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, num_blocks, 50)


def test_totals_of_a_fleet_of_fifty_are_proven(subtests):
    for num_blocks, totals in [(12, (65, 120, 174, 250, 300)), (24, (80, 450))]:
        with subtests.test(num_blocks=num_blocks, totals=totals):
            budgets = fleet_budgets(num_blocks, seed=3)
            for total in totals:
                problem = Problem(budgets, num_blocks, min(total, int(budgets.sum())))
                solution = solve(problem, "exact", time_limit=30)
                check_meets(problem, solution.allocation)
                assert solution.optimal
                assert solution.value <= solve(problem, "two-level").value + 1e-12


def test_a_larger_total_never_raises_the_optimum():
    budgets = fleet_budgets(12, seed=5)
    values = [solve(Problem(budgets, 12, total), "exact").value for total in range(60, 300, 40)]
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(values))


def test_bound_is_valid_at_every_price():
    problem = Problem(fleet_budgets(12, seed=2), 12, 150)
    instance, best = Instance(problem), solve(problem, "exact").value
    bounds = [DualTable(instance, mu, np.inf).bound for mu in (0.0, 1e-4, 3e-4, 1e-3, 1e-2)]
    assert max(bounds) <= best + 1e-12
    assert max(bounds) > 0.98 * best


def test_out_of_time_it_returns_a_matrix_with_a_valid_bound_and_claims_nothing():
    budgets = fleet_budgets(24, seed=1)
    problem = Problem(budgets, 24, 450)
    proven = solve(problem, "exact", time_limit=60)
    hurried = solve(problem, "exact", time_limit=0.02)
    assert proven.optimal
    assert not hurried.optimal
    assert hurried.status is Status.TIME_LIMIT
    check_meets(problem, hurried.allocation)
    assert hurried.lower_bound <= proven.value <= hurried.value + 1e-12


def test_too_large_for_the_search_the_priced_bound_is_within_two_per_cent():
    budgets = np.random.default_rng(0).integers(1, 13, 250)
    problem = Problem(budgets, 12, int(budgets.sum()) // 2)
    result = exact.exact(problem, Options(time_limit=60))
    assert result.status is Status.FEASIBLE
    assert water_filled_bound(problem) < result.lower_bound
    assert 0.98 * result.allocation.bias_lambda < result.lower_bound <= result.allocation.bias_lambda


def test_too_large_for_any_programme_it_falls_back_to_two_level_and_the_closed_form():
    budgets = np.random.default_rng(0).integers(1, 13, 20_000)
    result = exact.exact(Problem(budgets, 12, int(budgets.sum()) // 2))
    assert result.status is Status.FEASIBLE
    assert result.lower_bound <= result.allocation.bias_lambda


def test_priced_bound_holds_on_small_instances_and_its_paths_are_only_taken_as_matrices(monkeypatch):
    monkeypatch.setattr(dual_programme, "MAX_STATES", 0)
    gaps = []
    for budgets, M, matrices, request in small_requests(seed=11, instances=60, requests_each=6):
        meeting = matrices.meeting(**request)
        if not meeting.any():
            continue
        problem, best = Problem(budgets, M, **request), matrices.lambda_K[meeting].min()
        result = exact.exact(problem)
        check_meets(problem, result.allocation)
        assert result.lower_bound <= best + 1e-12
        assert result.status is not Status.OPTIMAL or result.allocation.bias_lambda == pytest.approx(best)
        gaps.append(1 - result.lower_bound / best)
    assert np.mean(gaps) < 0.02
