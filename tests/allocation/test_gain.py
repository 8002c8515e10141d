"""The gain of an allocation, its bound, and the solver that maximises it, against formulas written out and against
every matrix there is."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from zorba_core.allocation import AllocationProblem, BlockFacts, gain, gain_bound, solve
from zorba_core.allocation.measures import coupled_noise, direction_coupling
from zorba_core.allocation.solvers import gain as solver
from zorba_core.cli import build_app
from zorba_core.errors import InfeasibleError, InvalidInputError


def written_out(A_MN: np.ndarray, facts: BlockFacts) -> float:
    """Phi, sum by sum."""
    blocks = range(len(A_MN))
    trained = [m for m in blocks if A_MN[m].any()]
    cost = 0.0
    for m in trained:
        for k in blocks:
            shared = sum(a and b for a, b in zip(A_MN[m], A_MN[k], strict=True))
            c = A_MN[m].sum()
            cost += facts.size_M[m] * ((shared / c) ** 2 * facts.energy_M[k] + shared / c**2 * facts.noise_M[k])
    return sum(facts.energy_M[m] for m in trained) ** 2 / cost


def matrices(problem: AllocationProblem):
    """Every matrix that meets the request."""
    M = problem.num_blocks
    columns = [
        [column for column in itertools.product((False, True), repeat=M) if 1 <= sum(column) <= budget]
        for budget in problem.usable_N
    ]
    for chosen in itertools.product(*columns):
        A_MN = np.array(chosen).T
        c_M, total = A_MN.sum(axis=1), A_MN.sum()
        enough = (c_M >= problem.min_popularity) | (problem.may_idle & (c_M == 0))
        exact = problem.total_mode == "le" or total == problem.most_blocks
        if enough.all() and total <= problem.most_blocks and exact:
            yield A_MN


def cases(count: int):
    rng = np.random.default_rng(7)
    while count:
        M, N = int(rng.integers(2, 4)), int(rng.integers(2, 5))
        budgets = rng.integers(1, M + 1, N)
        request = {"idle_blocks": "allow"} if rng.random() < 0.4 else {}
        if rng.random() < 0.5:
            request["total"] = int(rng.integers(max(M, N), max(M, N, budgets.sum()) + 1))
            if rng.random() < 0.4 and request["total"] <= budgets.sum():
                request["total_mode"] = "eq"
        if rng.random() < 0.3:
            request["min_popularity"] = 2
        try:
            problem = AllocationProblem(budgets, M, **request)
        except InfeasibleError:
            continue
        noise = rng.exponential(1, M) * rng.choice([0.0, 0.1, 1.0, 10.0, 100.0])
        count -= 1
        yield problem, BlockFacts.of(M, rng.exponential(1, M), noise, rng.choice([1.0, 2.0], M))


@pytest.mark.parametrize("enumerated", [solver.ENUMERATED, 0], ids=["enumerated", "searched"])
def test_no_matrix_gains_more_than_the_solvers(enumerated, monkeypatch):
    monkeypatch.setattr(solver, "ENUMERATED", enumerated)
    monkeypatch.setattr(solver, "_ROOM", 1_000_000)
    for problem, facts in cases(25):
        best = max(written_out(A_MN, facts) for A_MN in matrices(problem))
        solution = solve(problem, "gain", facts=facts)
        assert solution.value == pytest.approx(best, rel=1e-9)
        assert solution.value == pytest.approx(written_out(solution.allocation.A_MN, facts), rel=1e-9)
        assert solution.lower_bound >= best * (1 - 1e-9)
        assert solution.optimal or not enumerated
        bound = gain_bound(facts, problem.usable_N, problem.most_blocks, idle_blocks=problem.may_idle)
        assert bound >= best * (1 - 1e-9)


def test_alike_blocks_weigh_coupling_against_noise():
    """With G = d = 1 the gain is M / (D + s^2 E), of the two measures that Lambda hides."""
    rng = np.random.default_rng(0)
    A_MN = rng.random((5, 9)) < 0.5
    A_MN[:, 0] = True
    facts = BlockFacts.of(5, noise=3.0)
    assert gain(A_MN, facts) == pytest.approx(5 / (direction_coupling(A_MN) + 3.0 * coupled_noise(A_MN)), rel=1e-12)


def test_the_search_is_never_worse_than_balanced_and_keeps_the_request():
    rng = np.random.default_rng(1)
    facts = BlockFacts.of(12, np.exp(-np.arange(12) / 3), 20.0)
    for request in ({}, {"total": 150}, {"total": 120, "total_mode": "eq"}, {"idle_blocks": "allow"}):
        problem = AllocationProblem(rng.integers(1, 13, 50), 12, **request)
        balanced = solve(AllocationProblem(problem.budget_N, 12, problem.total), "balanced").allocation
        solution = solve(problem, "gain", facts=facts)
        assert gain(balanced.A_MN, facts) <= solution.value <= solution.lower_bound
        again = solve(problem, "gain", facts=facts)
        assert np.array_equal(again.allocation.A_MN, solution.allocation.A_MN)


def test_blocks_without_energy_stay_idle_only_where_that_is_allowed():
    facts = BlockFacts.of(4, [1.0, 1.0, 0.0, 0.0], 1.0)
    trained = solve(AllocationProblem([2] * 6, 4, idle_blocks="allow"), "gain", facts=facts).allocation.popularity_M
    assert trained[2:].tolist() == [0, 0]
    assert trained[:2].min() > 0
    assert solve(AllocationProblem([2] * 6, 4), "gain", facts=facts).allocation.popularity_M.min() == 1


@pytest.mark.parametrize(
    ("energies", "noise", "named"),
    [
        ([1, 2], 1.0, "2 numbers"),
        (0.0, 1.0, "all 0"),
        (-1.0, 1.0, "between 0"),
        ("x", 1.0, "numbers"),
        (1.0, [1.0, np.nan, 1.0], "block 1"),
        (1.0, np.inf, "block 0"),
    ],
)
def test_facts_that_are_none_are_refused(energies, noise, named):
    with pytest.raises(InvalidInputError, match=named):
        BlockFacts.of(3, energies, noise)


def test_the_command_reports_the_gain():
    words = "allocate --budgets 3,2,1,1,1,1 --blocks 3 --solver gain --energies 5,1,1 --noise 2 --json"
    answer = json.loads(CliRunner().invoke(build_app(), words.split()).stdout)
    A_MN = np.zeros((3, 6), bool)
    for client, blocks in enumerate(answer["blocks_per_client"]):
        A_MN[blocks, client] = True
    facts = BlockFacts.of(3, [5, 1, 1], 2.0)
    assert answer["gain"] == pytest.approx(written_out(A_MN, facts))
    assert answer["optimal"]
    assert answer["gain_bound"] == answer["lower_bound"] >= answer["gain"]
    idle = json.loads(CliRunner().invoke(build_app(), [*words.split(), "--idle-blocks", "allow"]).stdout)
    assert idle["gain"] > answer["gain"]
    assert idle["idle_blocks"] == [1]
    assert idle["mean_inverse_popularity"] is None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--energies 1,2", "3 blocks"),
        ("--energies 1,x,2", "--energies"),
        ("--solver exact --energies 1,2,3", "exact solver knows no energies"),
        ("--idle-blocks allow", "every block a client"),
        ("--idle-blocks maybe", "idle"),
        ("--solver exact --objective gain", "use gain"),
    ],
)
def test_wrong_requests_are_one_line(words, named):
    line = ["allocate", "--budgets", "3,2,1", "--blocks", "3", *words.split()]
    result = CliRunner().invoke(build_app(), line)
    assert result.exit_code != 0
    assert named in str(result.exception) + result.output


def test_more_matrices_than_a_float_can_count_are_too_many_to_try():
    """Of 8,000 clients with twelve blocks each the count has more than 308 digits."""
    problem = AllocationProblem([12] * 8000, 12)
    assert solver._count(problem) == float("inf")
