"""The least forward work at equal popularities: against every matrix of small cases, and bounded on large ones."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from zorba_core.allocation import Allocation, AllocationProblem, deal_for_least_work, solve
from zorba_core.allocation import forward_work as dealing
from zorba_core.cli import build_app
from zorba_core.engine.randomness import stream
from zorba_core.errors import InvalidInputError


def least_of_all(allocation: Allocation, lower_N, upper_N) -> int:
    """Over every matrix with these popularities in any order, clients within their limits, none at a scarcer block."""
    M, best = allocation.num_blocks, 10**9
    subsets = [[m for m in range(M) if mask >> m & 1] for mask in range(1, 2**M)]
    for order in set(itertools.permutations(allocation.popularity_M.tolist())):
        work = {order: 0}  # by what is left of each block
        for least, low, high in zip(allocation.least_popularity_N, lower_N, upper_N, strict=True):
            after: dict[tuple[int, ...], int] = {}
            for left, so_far in work.items():
                for blocks in subsets:
                    fits = all(order[m] >= least and left[m] > 0 for m in blocks)
                    if fits and low <= len(blocks) <= high:
                        rest = tuple(count - (m in blocks) for m, count in enumerate(left))
                        after[rest] = min(after.get(rest, 10**9), so_far + M - blocks[0])
            work = after
        best = min(best, work.get((0,) * M, 10**9))
    return best


def small_cases():
    generator = stream("forward-work-test", 0)
    cases = []
    while len(cases) < 16:
        M, N = int(generator.integers(3, 5)), int(generator.integers(3, 6))
        budget_N = generator.integers(1, M + 1, N)
        if budget_N.sum() >= M:
            total = int(generator.integers(max(M, N), budget_N.sum() + 1))
            cases.append((budget_N, M, total, ("balanced", "two-level")[len(cases) % 2]))
    return cases


@pytest.mark.parametrize(("budget_N", "num_blocks", "total", "solver"), small_cases())
def test_no_matrix_with_the_same_popularities_has_less_work(budget_N, num_blocks, total, solver):
    allocation = solve(AllocationProblem(budget_N, num_blocks, total=total), solver).allocation
    held_N = allocation.blocks_held_N
    kept, free = deal_for_least_work(allocation), deal_for_least_work(allocation, budget_N)
    assert kept.allocation.forward_work == kept.bound == least_of_all(allocation, held_N, held_N)
    assert free.allocation.forward_work == free.bound == least_of_all(allocation, np.ones_like(held_N), budget_N)


@pytest.mark.parametrize("solver", ["balanced", "two-level", "exact"])
def test_popularities_and_holdings_stay_and_lambda_does_not_rise(solver):
    """The benchmark's case: 50 clients with room for 1 to 12 blocks, 200 blocks."""
    budget_N = stream("bench-budgets", 0).integers(1, 13, 50)
    problem = AllocationProblem(budget_N, 12, total=200)
    before = solve(problem, solver, time_limit=0.5).allocation
    after = deal_for_least_work(before).allocation
    assert sorted(after.popularity_M) == sorted(before.popularity_M)
    assert (after.blocks_held_N == before.blocks_held_N).all()
    assert after.bias_lambda <= before.bias_lambda * (1 + 1e-12)
    assert after.mean_inverse_popularity == pytest.approx(before.mean_inverse_popularity)
    assert after.forward_work <= before.forward_work
    assert after.is_complete


def test_the_benchmarks_balanced_allocation_loses_a_seventh_of_its_work_and_that_is_proven_least():
    budget_N = stream("bench-budgets", 0).integers(1, 13, 50)
    before = solve(AllocationProblem(budget_N, 12, total=200)).allocation
    assert before.forward_work == 437
    kept = deal_for_least_work(before)
    assert (kept.allocation.forward_work, kept.bound, kept.proven) == (373, 373, True)


def test_budgets_bound_the_freer_deal_and_everybody_keeps_a_block(monkeypatch):
    monkeypatch.setattr(dealing, "solve_programme", lambda *_: (None, 0))  # the construction alone: seconds are saved
    budget_N = stream("bench-budgets", 0).integers(1, 13, 50)
    solution = solve(AllocationProblem(budget_N, 12, total=200), block_order="forward-work-free")
    after = solution.allocation
    assert (after.blocks_held_N <= budget_N).all()
    assert after.blocks_held_N.min() >= 1
    assert solution.forward_work_bound <= after.forward_work <= 260


def test_the_bound_holds_where_the_programme_is_left_out(monkeypatch):
    budget_N = stream("bench-budgets", 1).integers(1, 9, 14)
    before = solve(AllocationProblem(budget_N, 8, total=45)).allocation
    proven = deal_for_least_work(before)
    monkeypatch.setattr(dealing, "solve_programme", lambda *_: (None, 0))
    bounded = deal_for_least_work(before)
    monkeypatch.setattr(dealing, "_MOST_NODES", 0)
    merged = deal_for_least_work(before)
    assert merged.bound <= bounded.bound <= proven.bound <= proven.allocation.forward_work
    assert proven.allocation.forward_work <= bounded.allocation.forward_work <= before.forward_work


def test_the_command_says_the_work_and_its_bound():
    words = ["allocate", "--budgets", "4,3,2,2,1,1", "--blocks", "4", "--total", "10", "--json"]
    dealt, solved = (
        json.loads(CliRunner().invoke(build_app(), [*words, "--block-order", order], catch_exceptions=False).stdout)
        for order in ("forward-work", "as-solved")
    )
    assert dealt["forward_work"] == dealt["forward_work_bound"] <= solved["forward_work"]
    assert "forward_work_bound" not in solved
    assert dealt["total_blocks"] == solved["total_blocks"]


def test_blocks_that_are_not_alike_are_not_dealt_out_anew():
    with pytest.raises(InvalidInputError, match="chooses which block is which"):
        solve(AllocationProblem([2, 2], 2), "gain", block_order="forward-work")
