"""A solver from outside is a solver like the others: by name or as a value, checked and bounded like them."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from zorba_core.allocation import (
    SOLVERS,
    Allocation,
    Problem,
    Solver,
    SolverResult,
    Status,
    solve,
    solver,
    sweep,
    sweep_totals,
    water_filled_bound,
)
from zorba_core.cli import build_app
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.fleet import Fleet

PROBLEM = Problem([5, 4, 3, 2, 2, 1, 4, 3], 6, total=18, min_popularity=2)
FLEET = Fleet.uniform("opt-125m", 10, seed=3)


@pytest.fixture
def dice():
    """The solver of the example package; importing it registers it."""
    from tests.plugin_example.zorba_example import dice

    yield SOLVERS.register(dice)
    SOLVERS.unregister("dice")


def returning(answer: object) -> Solver:
    return Solver("odd", "returns what it was given", "Odd", lambda problem, options: answer)


def test_a_registered_solver_goes_by_its_name_and_any_solver_as_a_value(dice):
    by_name, by_value = solve(PROBLEM, "dice", seed=4), solve(PROBLEM, dice, seed=4)
    assert by_name.solver == by_value.solver == "dice"
    assert np.array_equal(by_name.allocation.A_MN, by_value.allocation.A_MN)
    assert not np.array_equal(by_name.allocation.A_MN, solve(PROBLEM, "dice", seed=5).allocation.A_MN)
    assert by_name.lower_bound == pytest.approx(water_filled_bound(PROBLEM))
    assert by_name.status is Status.FEASIBLE


def test_a_decorator_makes_a_function_a_solver():
    try:

        @solver("even", help="wraps blocks around")
        def even(problem, options):
            return solve(problem).allocation

        assert SOLVERS["even"] is even
        assert (even.title, solve(PROBLEM, "even").value) == ("Even", solve(PROBLEM).value)
        with pytest.raises(InvalidInputError, match="there is a solver 'even' already"):
            solver("even", help="another")(even.run)
    finally:
        SOLVERS.unregister("even")


def test_nothing_is_called_optimal_unless_its_value_meets_the_bound():
    claimed = SolverResult(solve(PROBLEM, "balanced").allocation, status=Status.OPTIMAL)
    solution = solve(PROBLEM, returning(claimed))
    assert not solution.optimal
    assert solution.lower_bound == pytest.approx(water_filled_bound(PROBLEM))
    assert solution.gap > 0.01


def test_an_optimum_is_known_by_the_bound_of_everybody():
    even = Problem([2, 2, 2], 3)
    assert solve(even, returning(solve(even).allocation)).optimal


def test_a_matrix_that_does_not_meet_the_request_is_refused_by_name(subtests):
    for change, says in [
        (lambda A_MN: A_MN[:5], "5 blocks for 8 clients, not 6 for 8"),
        (lambda A_MN: A_MN | (np.arange(8) == 5), "client 5 holds 5 more than its budget allows"),
        (lambda A_MN: A_MN & (np.arange(8) != 3), "client 3 holds no block"),
        (lambda A_MN: A_MN & ~((np.arange(6) == 2)[:, None] & (A_MN.sum(axis=0) > 1)), "block 2 has 0 clients"),
        (
            lambda A_MN: A_MN | ((np.arange(8) == 0) & (np.arange(6) < 5)[:, None]),
            "20 activated blocks, the total is 18",
        ),
    ]:
        with subtests.test(change=change, says=says):
            A_MN = change(solve(PROBLEM).allocation.A_MN)
            with pytest.raises(RunError, match=f"the odd solver's answer does not meet the request: {says}"):
                solve(PROBLEM, returning(Allocation(A_MN)))


def test_what_is_no_allocation_and_what_breaks_is_one_line():
    with pytest.raises(RunError, match="odd solver's answer does not meet the request: ndarray is not an Allocation"):
        solve(PROBLEM, returning(np.ones((6, 8), bool)))
    broken = Solver("broken", "divides by zero", "Broken", lambda problem, options: 1 // 0)
    with pytest.raises(RunError, match="the broken solver failed: ZeroDivisionError"):
        solve(PROBLEM, broken)


def test_each_point_of_its_sweep_is_found_again(dice, subtests):
    """A solver that draws has a stream for each point, in a sweep over totals too."""
    for by_total in [False, True]:
        with subtests.test(by_total=by_total):
            way = sweep_totals if by_total else sweep
            front = way(FLEET, 6, dice, seed=7)
            assert front.seed == 7
            covered = np.flatnonzero(~np.isnan(front.bias_lambda_E))
            assert len(covered) > 0
            for i in covered.tolist():
                again = front.solution(i)
                assert again.allocation.bias_lambda == front.bias_lambda_E[i]
                assert again.allocation.mean_inverse_popularity == front.mean_inverse_popularity_E[i]
                assert again.optimal == front.optimal_E[i]


def test_commands_take_it_by_name(dice, subtests):
    for command in [
        "allocate --budgets 4,3,2,2 --blocks 5",
        "pareto --model opt-125m --clients 8 --epsilons 5",
        "pareto --model opt-125m --clients 8 --epsilons 5 --by total",
    ]:
        with subtests.test(command=command):
            answered = CliRunner().invoke(build_app(), [*command.split(), "--solver", "dice", "--json"])
            assert answered.exit_code == 0, answered.output
            assert '"solver": "dice"' in answered.output
