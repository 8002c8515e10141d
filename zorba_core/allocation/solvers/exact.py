"""The smallest Lambda, proven; or the best matrix found with a valid bound when time or memory end first.

Three steps, each of which may already close the gap:

1. the two-level closed form gives a matrix;
2. the dual programme (see ``dual_programme``) gives a bound; its price is raised by intersecting tangents, and each
   programme's best path is tried as a matrix;
3. best-first search with plunging over the sequences (popularity, permitted clients), least popular block first. A
   node keeps the histogram of the admitted clients' remaining budgets; a block always takes the largest of them,
   which is exact for nested permissions, and the true waste sharpens the programme's bound.

Shapes: M blocks, N clients. ``budget_N`` int64; ``histogram[v]``: admitted clients with v blocks of budget left.
"""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.bounds import water_filled_bound
from zorba_core.allocation.measures import Allocation
from zorba_core.allocation.problem import Problem
from zorba_core.allocation.solve import Answer, Options, Status, solver
from zorba_core.allocation.solvers import priced_bound
from zorba_core.allocation.solvers.balanced import balanced
from zorba_core.allocation.solvers.dual_programme import DualTable, OutOfTime, Path, PermissionInstance, check_deadline
from zorba_core.allocation.solvers.two_level import by_falling_budget, closest_two_level

# Values of Lambda this close (relative) are one value: sums of at most M rounded terms.
_SAME = 1e-9
# A table larger than this (8 bytes a number) is not built: the answer is then two-level, with the bound of
# ``priced_bound`` where that fits and the closed-form one beyond.
MAX_STATES = 48_000_000
_STATES_KEPT = 50_000_000  # in all tables together, but always two tables
_MAX_PRICES = 8
# The rest of the time limit is for the step under way when the deadline passes, and for building the matrix.
_SHARE_OF_LIMIT = 0.95


@solver("exact", help="proves the smallest Λ, for few points")
def exact(problem: Problem, options: Options) -> Allocation | Answer:
    """Minimise Lambda within the time limit; V is what ``balanced`` minimises already.

    The bound is valid in every case. 0.1 s at N=50, M=12. Fleets of N=50 are proven for M=12, 24 and 48; above some
    N=150 the answer is two-level (or a matrix met on the way) with a bound that is typically within 1 % of it.

    Own programme and search, in NumPy, rather than a model for a kept solver. HiGHS on a MILP of the definition,
    measured (``against_highs`` in artifacts/benchmarks/allocation.json): N=12, M=6 takes it 11 s of processor time and
    2 ms here; at N=50, M=12 it had no bound above 0 when stopped after a minute, and this takes 20 ms.
    """
    if options.objective == "v":
        return balanced(problem, options)
    deadline = time.perf_counter() + _SHARE_OF_LIMIT * options.time_limit
    order_N = by_falling_budget(problem)
    start = closest_two_level(problem)
    instance = PermissionInstance(
        problem.usable_N[order_N],
        problem.num_blocks,
        problem.most_blocks,
        problem.total_mode == "eq",
        problem.min_popularity,
    )
    search = _Search(instance, start.bias_lambda, water_filled_bound(problem), deadline)
    out_of_time = False
    if not search.closed:
        try:
            if instance.num_states <= MAX_STATES:
                search.raise_price()
                search.run()
            elif priced_bound.fits(instance):
                search.raise_priced_bound()
        except OutOfTime:
            out_of_time = True
    allocation: Allocation = start
    if search.path is not None:
        allocation = Allocation(matrix_from_path(problem, order_N, search.path))
    status = Status.TIME_LIMIT if out_of_time else Status.FEASIBLE
    return Answer(allocation, min(search.bound, allocation.bias_lambda), status)


@dataclass(order=True)
class _Node:
    bound: float
    serial: int
    placed: int = field(compare=False)  # b
    admitted: int = field(compare=False)  # n
    least: int = field(compare=False)  # p: popularity of the last block
    used: int = field(compare=False)  # u
    cost: float = field(compare=False)
    histogram: NDArray[np.int64] = field(compare=False)
    path: Path = field(compare=False)


class _Search:
    """State of one solve: the best value and path so far, the proven bound, and the programme's tables."""

    def __init__(self, instance: PermissionInstance, value: float, bound: float, deadline: float) -> None:
        self.instance, self.deadline = instance, deadline
        self.value, self.bound = value, bound
        self.path: Path | None = None
        self.tables: list[DualTable] = []
        self._tables_kept = min(3, max(2, _STATES_KEPT // max(1, instance.num_states)))
        self._serial = itertools.count()
        self._budgets_left = np.arange(instance.num_blocks + 1)

    @property
    def closed(self) -> bool:
        return self.bound >= self.value * (1 - _SAME)

    def raise_price(self) -> None:
        """Maximise the concave L(mu): try where the tangents on both sides of the maximum meet."""
        mu, left, right = 0.0, None, None
        for _ in range(_MAX_PRICES):
            table = DualTable(self.instance, mu, self.deadline)
            self.tables = sorted([*self.tables, table], key=lambda each: -each.bound)[: self._tables_kept]
            self.bound = max(self.bound, table.bound * (1 - 1e-12) - 1e-15)
            path, slope = table.best_path()
            self._try(path)
            if self.closed:
                return
            if slope == 0 or (slope < 0 and mu == 0):
                return
            if slope > 0:
                left = (mu, table.bound, slope)
            else:
                right = (mu, table.bound, slope)
            if right is None:  # no matrix is better than ``value``: the maximum lies before the tangent reaches it
                mu = left[0] + (self.value - left[1]) / left[2]
                continue
            mu = (right[1] - left[1] + left[2] * left[0] - right[2] * right[0]) / (left[2] - right[2])
            reach = left[1] + left[2] * (mu - left[0])
            if reach - self.bound <= 0.02 * (self.value - self.bound):
                return

    def raise_priced_bound(self) -> None:
        """For instances too large to search: bounds only, and the matrices that their paths may be."""
        for bound, path in priced_bound.rising_bounds(self.instance, self.value, self.deadline):
            self.bound = max(self.bound, bound)
            self._try(path)
            if self.closed:
                return

    def run(self) -> None:
        """Best-first with plunging: take the open node of least bound and follow its best child down to a leaf."""
        if self.closed:
            return
        empty = np.zeros(self.instance.num_blocks + 1, np.int64)
        heap = [_Node(self.bound, next(self._serial), 0, 0, self.instance.floor, 0, 0.0, empty, ())]
        while heap:
            self.bound = max(self.bound, min(heap[0].bound, self.value))
            if self.closed:
                return
            node = heapq.heappop(heap)
            while node is not None:
                # What is open now, ``node`` and the heap, has bounds of at least ``self.bound``.
                check_deadline(self.deadline)
                children = sorted(self._children(node))
                node = children[0] if children else None
                for child in children[1:]:
                    heapq.heappush(heap, child)
        self.bound = self.value

    def _better(self, bound: float) -> bool:
        return bound < self.value * (1 - _SAME)

    def _children(self, node: _Node) -> list[_Node]:
        """Nodes with one block more that could still beat the best value; leaves are taken as answers here."""
        instance, b, n = self.instance, node.placed, node.admitted
        M, N = instance.num_blocks, instance.num_clients
        waste_now = self._waste(node.histogram, b)
        waste = waste_now + instance.waste_before[b, n:] - instance.waste_before[b, n]
        children = []
        for p in range(node.least, instance.last_popularity(b, node.used) + 1):
            used = node.used + p
            cost = node.cost + np.arange(N - n + 1) / (p * p)
            bound = np.full(N - n + 1, node.bound)
            for table in self.tables:
                np.maximum(bound, cost + table.mu * waste + table.to_go(b, n, p, node.used), out=bound)
            bound[: max(0, p - n)] = np.inf
            if b and p == node.least:  # clients who may use one block of a popularity may use them all
                bound[1:] = np.inf
            for more in np.flatnonzero(bound < self.value * (1 - _SAME)):
                reached = n + int(more)
                histogram = self._take(node.histogram, instance.budget_N[n:reached], p)
                if histogram is None or not self._better(bound[more]):
                    continue
                path = (*node.path, (p, reached))
                if b + 1 == M:
                    self._accept(path, float(cost[more]))
                    continue
                true_waste = self._waste(histogram, b + 1)
                sharper = float(bound[more])
                for table in self.tables:
                    to_go = float(table.to_go(b, reached, p, node.used)[0])
                    sharper = max(sharper, float(cost[more]) + table.mu * true_waste + to_go)
                if self._better(sharper):
                    children.append(
                        _Node(sharper, next(self._serial), b + 1, reached, p, used, float(cost[more]), histogram, path)
                    )
        return children

    def _try(self, path: Path) -> None:
        """Take ``path`` as the answer if it is a matrix and better."""
        cost, n, histogram = 0.0, 0, np.zeros(self.instance.num_blocks + 1, np.int64)
        for p, reached in path:
            cost += (reached - n) / (p * p)
            histogram = self._take(histogram, self.instance.budget_N[n:reached], p)
            if histogram is None:
                return
            n = reached
        self._accept(path, cost)

    def _accept(self, path: Path, cost: float) -> None:
        """Every client must get a block: those not yet admitted need one of the blocks still to come."""
        total = sum(p for p, _ in path)
        if total > self.instance.total or (self.instance.exactly and total < self.instance.total):
            return
        used = 0
        for p, n in path:
            used += p
            if self.instance.num_clients - n > total - used:
                return
        if self._better(cost):
            self.value, self.path = cost, path

    def _take(self, histogram: NDArray[np.int64], admitted: NDArray[np.int64], p: int) -> NDArray[np.int64] | None:
        """Admit clients, then use one block of each of the p largest remaining budgets; None if fewer are left."""
        after = histogram + np.bincount(admitted, minlength=len(histogram))
        if int(after[1:].sum()) < p:
            return None
        from_top = np.minimum(np.cumsum(after[::-1]), p)
        sizes = np.diff(from_top, prepend=0)[::-1]
        after -= sizes
        after[:-1] += sizes[1:]
        return after

    def _waste(self, histogram: NDArray[np.int64], placed: int) -> int:
        """Budget that admitted clients can no longer use on the blocks to come."""
        return int(histogram @ np.maximum(0, self._budgets_left - (self.instance.num_blocks - placed)))


def matrix_from_path(problem: Problem, order_N: NDArray[np.int64], path: Path) -> NDArray[np.bool_]:
    """A matrix whose block of popularity p is held by p of its n permitted clients, every client holding one block.

    ``order_N`` lists clients by falling budget; ``path`` is least popular first, and so are the blocks.

    Raises:
        RuntimeError: no such matrix, which the conditions checked before rule out.
    """
    M, N = problem.num_blocks, problem.num_clients
    popularity_M = np.array([p for p, _ in path])
    permitted_M = np.array([n for _, n in path])
    block, rank = np.nonzero(np.arange(N)[None, :] < permitted_M[:, None])
    client = order_N[rank]
    # Nodes: source, clients, blocks, sink, then the pair that carries the lower bound of one block for each client.
    source, sink, extra_source, extra_sink = 0, 1 + N + M, 2 + N + M, 3 + N + M
    clients, blocks = 1 + np.arange(N), 1 + N + np.arange(M)
    total = int(popularity_M.sum())
    arcs = np.concatenate(
        [
            _arcs(source, clients, problem.usable_N - 1),
            _arcs(extra_source, clients, np.ones(N, int)),
            _arcs([source], [extra_sink], [N]),
            _arcs(1 + client, 1 + N + block, np.ones(len(client), int)),
            _arcs(blocks, extra_sink, popularity_M),  # popularities are met exactly: a lower bound as well
            _arcs([extra_source], [sink], [total]),
            _arcs([sink], [source], [total]),
        ],
        axis=1,
    )
    from scipy import sparse  # takes long to load, and other solvers do without
    from scipy.sparse.csgraph import maximum_flow

    graph = sparse.csr_array((arcs[2].astype(np.int32), (arcs[0], arcs[1])), shape=(4 + N + M, 4 + N + M))
    result = maximum_flow(graph, extra_source, extra_sink)
    if result.flow_value != N + total:
        raise RuntimeError(f"no matrix has popularities and permissions {path}")
    A_MN = np.zeros((M, N), bool)
    A_MN[block, client] = np.asarray(result.flow[1 + client, 1 + N + block]).ravel() > 0
    return A_MN


def _arcs(tail: object, head: object, capacity: object) -> NDArray[np.int64]:
    return np.stack(np.broadcast_arrays(np.asarray(tail), np.asarray(head), np.asarray(capacity))).astype(np.int64)
