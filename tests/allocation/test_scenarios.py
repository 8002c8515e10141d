"""Exact total and a given Lambda; what is out of reach, and how far."""

from __future__ import annotations

import numpy as np
import pytest

from tests.allocation.allocation_oracles import enumerate_matrices
from tests.allocation.test_exact import check_meets
from zorba_core.allocation import Problem
from zorba_core.allocation.scenarios import PAPER_SCENARIOS, _upper_bound, solve_scenario
from zorba_core.errors import InfeasibleError, InvalidInputError
from zorba_core.fleet import Fleet


def test_paper_scenarios_exist_for_any_fleet(subtests):
    for seed in [0, 7]:
        for model_name in ["opt-125m", "opt-1.3b"]:
            for name in PAPER_SCENARIOS:
                with subtests.test(seed=seed, model_name=model_name, name=name):
                    fleet, wanted = Fleet.uniform(model_name, 50, seed=seed), PAPER_SCENARIOS[name]
                    problem = Problem(fleet.budget_N, fleet.num_blocks, fleet.total_at_ratio(wanted.vram_ratio), "eq")
                    solution = solve_scenario(problem, wanted.bias_lambda)
                    check_meets(problem, solution.allocation)
                    assert abs(solution.value - wanted.bias_lambda) <= 1e-3
                    assert not solution.optimal
                    assert fleet.vram_ratio(solution.allocation.total_blocks) == pytest.approx(
                        wanted.vram_ratio, abs=2e-3
                    )


def test_same_seed_same_matrix():
    problem = Problem(np.random.default_rng(0).integers(1, 12, 50), 12, 150, "eq")
    first, second = (solve_scenario(problem, 0.9, seed=4).allocation.A_MN for _ in range(2))
    assert (first == second).all()


def test_below_the_proven_minimum_the_interval_is_named():
    problem = Problem(np.random.default_rng(0).integers(1, 12, 50), 12, 150, "eq")
    with pytest.raises(InfeasibleError, match=r"ranges from 0\.\d+ \(proven\) to at most"):
        solve_scenario(problem, 0.05)


def test_no_matrix_exceeds_the_upper_end_of_the_interval(subtests):
    for seed in range(40):
        with subtests.test(seed=seed):
            rng = np.random.default_rng(seed)
            budgets = rng.integers(1, 4, 5)
            total = int(rng.integers(5, budgets.sum() + 1))
            matrices = enumerate_matrices(budgets, 3)
            meeting = matrices.meeting(total, "eq")
            assert matrices.lambda_K[meeting].max() <= _upper_bound(Problem(budgets, 3, total, "eq"))


def test_wrong_target_is_refused():
    for total, target, tolerance, message in (
        (None, 0.5, 1e-3, "needs a total"),
        (4, 0.0, 1e-3, "target Lambda"),
        (4, 1.0, -1, "tolerance"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            solve_scenario(Problem([2, 2, 2], 2, total), target, tolerance)
