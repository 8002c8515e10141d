"""The smallest Lambda with a proof; or the best matrix so far and a valid bound, if time or memory do not suffice.

There are three steps, each of which may already close the gap:

1. The two-level closed form gives a matrix.
2. The dual programme gives a bound and paths, which may be better matrices. If its table is too large, the programme
   with two prices replaces it, and there is no third step.
3. A best-first search with plunging goes over the paths of ``permissions``, least popular block first. Each node has
   the histogram of the admitted clients' remaining budgets, whose true waste sharpens the programme's bound.

``against_highs`` in artifacts/benchmarks/allocation.json compares this search with HiGHS on a MILP of the definition.

Shapes: M blocks, N clients. ``budget_N`` int64; ``histogram[v]``: number of admitted clients with v blocks of budget
left.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.bounds import water_filled_bound
from zorba_core.allocation.measures import Allocation
from zorba_core.allocation.problem import Problem
from zorba_core.allocation.solution import Options, SolverResult, Status, solver
from zorba_core.allocation.solvers import dual_programme
from zorba_core.allocation.solvers.dual_programme import DualTable
from zorba_core.allocation.solvers.permissions import Best, Instance, OutOfTime, Path, check_deadline, matrix_of, take
from zorba_core.allocation.solvers.two_level import closest_two_level

# The rest of the time limit is for the step that runs when the deadline passes, and for building the matrix.
_SHARE_OF_LIMIT = 0.95


@solver("exact", help="the least Λ, with a proof")
def exact(problem: Problem, options: Options) -> Allocation | SolverResult:
    """Minimise Lambda within the time limit.

    The bound is always valid. With N=50 the optimum is proven for M=12, 24 and 48. From about N=150 on the answer is
    the best of a few matrices, with a bound that is typically within 1 % of it.
    """
    deadline = time.perf_counter() + _SHARE_OF_LIMIT * options.time_limit
    start = closest_two_level(problem)
    instance = Instance(problem)
    best, status = Best(instance, start.bias_lambda, water_filled_bound(problem)), Status.FEASIBLE
    try:
        if best.proven:
            pass
        elif dual_programme.num_states(instance) <= dual_programme.MAX_STATES:
            search(best, dual_programme.raise_price(best, deadline), deadline)
        elif problem.num_blocks * problem.num_clients**2 <= dual_programme.MAX_PRICED:
            dual_programme.raise_two_prices(best, deadline)
    except OutOfTime:
        status = Status.TIME_LIMIT
    allocation = start if best.path is None else Allocation(matrix_of(problem, best.path))
    return SolverResult(allocation, min(best.bound, allocation.bias_lambda), status)


class _Node(NamedTuple):
    """A path of ``placed`` blocks. Nodes are ordered by bound, then by age."""

    bound: float
    serial: int
    placed: int  # b
    admitted: int  # n
    least: int  # p: popularity of the last block
    used: int  # u
    cost: float
    histogram: NDArray[np.int64]
    path: Path


def search(best: Best, tables: list[DualTable], deadline: float) -> None:
    """Best-first search with plunging: take the open node of least bound and follow its best child down to a leaf.

    Raises:
        OutOfTime: the deadline passed; ``best`` remains valid.
    """
    serial, empty = itertools.count(), np.zeros(best.instance.num_blocks + 1, np.int64)
    heap = [_Node(best.bound, next(serial), 0, 0, best.instance.floor, 0, 0.0, empty, ())]
    while heap:
        best.bound = max(best.bound, min(heap[0].bound, best.value))
        if best.proven:
            return
        node: _Node | None = heapq.heappop(heap)
        while node is not None:
            # All open nodes, ``node`` and the heap, have bounds of at least ``best.bound``.
            check_deadline(deadline)
            children = sorted(_children(node, best, tables, serial))
            node = children[0] if children else None
            for child in children[1:]:
                heapq.heappush(heap, child)
    best.bound = best.value


def _children(node: _Node, best: Best, tables: list[DualTable], serial: Iterator[int]) -> Iterator[_Node]:
    """Nodes with one more block that could beat the best value. Offers complete paths to ``best``."""
    instance, b, n = best.instance, node.placed, node.admitted
    M, N = instance.num_blocks, instance.num_clients
    waste = _waste(node.histogram, M - b) + instance.waste_before[b, n:] - instance.waste_before[b, n]
    for p in range(node.least, instance.last_popularity(b, node.used) + 1):
        cost = node.cost + np.arange(N - n + 1) / (p * p)
        bound = np.full(N - n + 1, node.bound)
        for table in tables:
            np.maximum(bound, cost + table.mu * waste + table.to_go(b, n, p, node.used), out=bound)
        bound[: max(0, p - n)] = np.inf
        if b and p == node.least:  # all blocks of the same popularity have the same permitted clients
            bound[1:] = np.inf
        for more in np.flatnonzero(best.beaten_by(bound)).tolist():
            reached = n + more
            histogram = take(node.histogram, instance.budget_N[n:reached], p)
            if histogram is None or not best.beaten_by(bound[more]):
                continue
            path = (*node.path, (p, reached))
            if b + 1 == M:
                best.offer(path)
                continue
            sharper, true_waste = float(bound[more]), _waste(histogram, M - b - 1)
            for table in tables:
                to_go = float(table.to_go(b, reached, p, node.used)[0])
                sharper = max(sharper, float(cost[more]) + table.mu * true_waste + to_go)
            if best.beaten_by(sharper):
                used = node.used + p
                yield _Node(sharper, next(serial), b + 1, reached, p, used, float(cost[more]), histogram, path)


def _waste(histogram: NDArray[np.int64], blocks_to_come: int) -> int:
    """Budget that admitted clients can no longer use."""
    return int(histogram @ np.maximum(0, np.arange(len(histogram)) - blocks_to_come))
