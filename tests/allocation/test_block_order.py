"""Permuting block ids: only the forward work changes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from zorba_core.allocation import Allocation, AllocationProblem, least_forward_work, solve


def random_allocation(seed: int, num_blocks: int, num_clients: int) -> Allocation:
    A_MN = np.random.default_rng(seed).random((num_blocks, num_clients)) < 0.3
    A_MN[np.arange(num_blocks), np.arange(num_blocks) % num_clients] = True
    A_MN[0, ~A_MN.any(axis=0)] = True
    return Allocation(A_MN)


@pytest.mark.parametrize("seed", range(8))
def test_least_work_over_all_orders(seed):
    allocation = random_allocation(seed, 5, 8)
    orders = itertools.permutations(range(5))
    best = min(Allocation(allocation.A_MN[list(order)]).forward_work for order in orders)
    assert least_forward_work(allocation).forward_work == best


@pytest.mark.parametrize("num_blocks", [12, 24])
@pytest.mark.parametrize("solver", ["balanced", "two-level"])
def test_every_other_metric_stays(num_blocks, solver):
    budgets = np.random.default_rng(1).integers(1, num_blocks + 1, 50)
    problem = AllocationProblem(budgets, num_blocks, total=int(budgets.sum()) // 2)
    before, after = (solve(problem, solver, block_order=order).allocation for order in ("as-solved", "least-work"))
    assert after.forward_work <= before.forward_work
    assert after.bias_lambda == pytest.approx(before.bias_lambda)
    assert after.mean_inverse_popularity == pytest.approx(before.mean_inverse_popularity)
    assert after.effective_clients == pytest.approx(before.effective_clients)
    assert (after.blocks_held_N == before.blocks_held_N).all()
    assert sorted(after.popularity_M) == sorted(before.popularity_M)
    assert after.is_complete


def test_forward_work_counts_blocks_from_the_first_active_one():
    assert Allocation.from_blocks([[0, 2], [2], [1, 2]], 3).forward_work == 3 + 1 + 2
