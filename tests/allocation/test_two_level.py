"""The two-level closed form: what it promises is what the matrix gives, and a refined grid loses little."""

from __future__ import annotations

import numpy as np

from zorba_core.allocation import Problem, solve
from zorba_core.allocation.solvers import two_level
from zorba_core.allocation.solvers.two_level import best_two_level, closest_two_level


def test_the_matrix_is_at_least_as_good_as_the_form_says(subtests):
    for seed in range(30):
        with subtests.test(seed=seed):
            rng = np.random.default_rng(seed)
            num_blocks = int(rng.integers(2, 9))
            budgets = rng.integers(1, num_blocks + 1, int(rng.integers(num_blocks, 30)))
            total = int(rng.integers(max(num_blocks, len(budgets)), budgets.sum() + 1))
            for mode in ("le", "eq"):
                problem = Problem(budgets, num_blocks, total, mode)
                choice = best_two_level(problem)
                allocation = closest_two_level(problem)
                if choice is not None:
                    assert allocation.bias_lambda <= choice.bias_lambda + 1e-12
                    assert choice.top_popularity <= choice.hub_popularity


def test_grid_over_many_clients_is_close_to_trying_every_choice(monkeypatch):
    budgets = np.random.default_rng(0).integers(1, 13, 300)
    for total in (400, 900, 1500):
        problem = Problem(budgets, 12, total)
        coarse = closest_two_level(problem).bias_lambda
        with monkeypatch.context() as patch:
            patch.setattr(two_level, "_GRID", 1000)
            every = closest_two_level(problem).bias_lambda
        assert every <= coarse <= every * 1.005


def test_a_target_is_approached_from_the_choices_closest_to_it(subtests):
    for target in [0.15, 0.3, 1.0]:
        with subtests.test(target=target):
            budgets = np.random.default_rng(0).integers(1, 13, 50)
            problem = Problem(budgets, 12, 200, "eq")
            least = solve(problem, "two-level").value
            assert abs(closest_two_level(problem, target).bias_lambda - target) <= abs(least - target)
