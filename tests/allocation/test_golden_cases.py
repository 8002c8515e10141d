"""Instances with proven answers (tests/golden), through every solver.

What makes them golden is in the file: exhaustive enumeration, CP-SAT on the raw binary model, or a search that closed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.allocation.test_exact import check_meets
from zorba_core.allocation import SOLVERS, Problem, gamma_star, solve, water_filled_bound
from zorba_core.allocation.scenarios import solve_scenario
from zorba_core.errors import InfeasibleError
from zorba_core.vram import GIB, Workload, model_spec, psi_total_bytes

CASES = json.loads((Path(__file__).parents[1] / "golden" / "allocation_cases.json").read_text())["cases"]


def cases(*fields: str, absent: str = "") -> list[dict]:
    return [case for case in CASES if all(field in case for field in fields) and absent not in case]


def problem_of(case: dict, total_mode: str | None = None) -> Problem:
    mode = total_mode or case.get("total_mode", "le")
    return Problem(case["budgets"], case["M"], case.get("total"), mode, case.get("cmin", 1))


def test_solver_meets_the_request_and_its_bound_holds(subtests):
    for solver in SOLVERS:
        for case in cases("opt_lambda"):
            with subtests.test(solver=solver, case=case["id"]):
                problem = problem_of(case)
                if solver == "lexicographic" and problem.total is not None:
                    continue  # the paper's solver takes none
                solution = solve(problem, solver, time_limit=120.0)
                check_meets(problem, solution.allocation)
                assert solution.lower_bound <= case["opt_lambda"] + 1e-9
                assert solution.value >= case["opt_lambda"] - 1e-9
                if solver == "exact":
                    assert solution.optimal
                    assert solution.value == pytest.approx(case["opt_lambda"], abs=1e-6)
                elif solution.optimal:
                    assert solution.value == pytest.approx(case["opt_lambda"], abs=1e-6)


def test_two_level_gives_the_value_of_the_closed_form(subtests):
    for case in cases("two_level_lambda", absent="cyclic_lambda_in_given_order"):
        with subtests.test(case=case["id"]):
            solution = solve(problem_of(case, total_mode="le"), "two-level")
            assert solution.value == pytest.approx(case["two_level_lambda"], abs=1e-9)


def test_balanced_gives_the_popularities_of_wrapping_around(subtests):
    for case in cases("cyclic_lambda_in_given_order"):
        with subtests.test(case=case["id"]):
            solution = solve(problem_of(case))
            values, counts = np.unique(solution.allocation.popularity_M, return_counts=True)
            expected = {int(value): count for value, count in case["cyclic_popularity_multiset"].items()}
            assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == expected
            assert solution.value == pytest.approx(case["cyclic_lambda_in_given_order"], abs=1e-12)


def test_gamma_star(subtests):
    for case in cases("gamma_star"):
        with subtests.test(case=case["id"]):
            assert gamma_star(np.array(case["budgets"]), case["M"]) == case["gamma_star"]


def test_closed_form_bound_is_at_least_the_golden_one(subtests):
    for case in cases("lower_bound_closed_form", "opt_lambda"):
        with subtests.test(case=case["id"]):
            assert water_filled_bound(problem_of(case)) >= case["lower_bound_closed_form"] * (1 - 1e-9)


def test_infeasible_request_is_refused(subtests):
    for case in [case for case in cases("feasible") if not case["feasible"]]:
        with subtests.test(case=case["id"]), pytest.raises(InfeasibleError, match="1 short"):
            problem_of(case)


def test_vram_of_a_total(subtests):
    for case in cases("total_gib"):
        with subtests.test(case=case["id"]):
            workload = Workload(batch_size=case["B"], seq_len=case["L"])
            total = psi_total_bytes(model_spec(case["model"]), workload, case["N"], case["total_blocks"])
            assert total / GIB == pytest.approx(case["total_gib"], abs=1e-6)


def test_target_is_met(subtests):
    for case in cases("target_lambda"):
        with subtests.test(case=case["id"]):
            problem = problem_of(case)
            solution = solve_scenario(problem, case["target_lambda"], case["tolerance"])
            check_meets(problem, solution.allocation)
            assert abs(solution.value - case["target_lambda"]) <= case["tolerance"]
