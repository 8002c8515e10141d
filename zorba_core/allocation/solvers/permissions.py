"""What ``exact`` searches over: sequences of (popularity, permitted clients) in place of matrices.

By exchange, some matrix of least Lambda has *permissions*: with blocks taken from the least popular up, block b has
popularity p_b (never falling) and is used only by the n_b clients of largest budget (never falling), and

    Lambda = sum_b (n_b - n_{b-1}) / p_b^2,        n_{-1} = 0, n_{M-1} = N.

A client first admitted at block b can hold at most M - b blocks, so ``waste`` = budget - (M - b) of its budget, if
positive, is lost. Necessary for such a path to be a matrix, with u blocks used so far:

    u_b <= sum_{i<=n_b} min(budget_i, b + 1),   N - n_b <= T - u_b,   total waste + total used <= sum of budgets.

Sufficient is that each block, taking the largest remaining budgets of the clients admitted so far, finds enough.

Shapes: M blocks, N clients. ``budget_N`` int64, falling; ``histogram[v]``: admitted clients with v blocks of budget
left.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.problem import Problem

# One block of the sequence: (popularity p, clients n that may use it), least popular first.
Path = tuple[tuple[int, int], ...]

# Values of Lambda this close (relative) are one value: sums of at most M rounded terms.
_SAME = 1e-9


class OutOfTime(Exception):
    """The deadline passed; the caller has the best answer so far."""


def check_deadline(deadline: float) -> None:
    """Raise :class:`OutOfTime` once the deadline (of ``time.perf_counter``) passed."""
    if time.perf_counter() > deadline:
        raise OutOfTime


class Instance:
    """Sorted budgets and the request, with the sums that bounds and search need again and again."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.budget_N = problem.usable_N[problem.by_falling_budget_N]
        self.num_blocks, self.num_clients = problem.num_blocks, problem.num_clients
        self.total, self.all_budgets = problem.most_blocks, int(self.budget_N.sum())  # T, and the most that it can be
        self.exactly, self.floor = problem.total_mode == "eq", problem.min_popularity

    @cached_property
    def waste_before(self) -> NDArray[np.int64]:
        """[b, n]: budget lost by the n largest clients if all are admitted when b blocks are placed."""
        left = self.num_blocks - np.arange(self.num_blocks + 1)
        return _cumulated(np.maximum(0, self.budget_N[None, :] - left[:, None]))

    @cached_property
    def room(self) -> NDArray[np.int64]:
        """[b, n]: most that the n largest clients can hold of b blocks."""
        return _cumulated(np.minimum(self.budget_N[None, :], np.arange(self.num_blocks + 1)[:, None]))

    def last_popularity(self, b: int, used: int = 0) -> int:
        """Largest popularity of the next block when b are placed: the M - b that follow are no less popular."""
        return min(self.num_clients, (self.total - used) // (self.num_blocks - b))

    def admission(self, b: int, p: int | NDArray[np.int64], mu: float) -> NDArray[np.float64]:
        """[..., n]: cost of having the n largest clients admitted by block b of popularity p, at price mu of waste."""
        return np.arange(self.num_clients + 1) / (p * p) + mu * self.waste_before[b]

    def slack(self, path: Path) -> tuple[int, int]:
        """(used - T, waste + used - sum of budgets): above 0 where the path breaks a constraint."""
        used, waste, n = 0, 0, 0
        for b, (p, reached) in enumerate(path):
            used += p
            waste += int(self.waste_before[b, reached] - self.waste_before[b, n])
            n = reached
        return used - self.total, waste + used - self.all_budgets

    def cost(self, path: Path) -> float | None:
        """Lambda of the path's matrix; None where there is none that meets the request."""
        cost, used, n, histogram = 0.0, 0, 0, np.zeros(self.num_blocks + 1, np.int64)
        total = sum(p for p, _ in path)
        if total > self.total or (self.exactly and total < self.total):
            return None
        for p, reached in path:
            histogram = take(histogram, self.budget_N[n:reached], p)
            cost += (reached - n) / (p * p)
            n, used = reached, used + p
            # Clients not yet admitted need one of the blocks still to come.
            if histogram is None or self.num_clients - n > total - used:
                return None
        return cost


@dataclass(eq=False)
class Best:
    """The least Lambda known so far, the path of its matrix (None: the matrix that the search began with), and the
    proven lower bound."""

    instance: Instance
    value: float
    bound: float
    path: Path | None = None

    @property
    def proven(self) -> bool:
        return self.bound >= self.value * (1 - _SAME)

    def beaten_by(self, value: float) -> bool:
        """Whether a matrix of this Lambda would be better."""
        return value < self.value * (1 - _SAME)

    def offer(self, path: Path) -> None:
        """Take the path if it is a matrix and better."""
        cost = self.instance.cost(path)
        if cost is not None and self.beaten_by(cost):
            self.value, self.path = cost, path

    def raise_bound(self, bound: float) -> None:
        """``bound`` holds but for rounding."""
        self.bound = max(self.bound, bound * (1 - 1e-12) - 1e-15)


def take(histogram: NDArray[np.int64], admitted: NDArray[np.int64], p: int) -> NDArray[np.int64] | None:
    """Admit clients, then use one block of each of the p largest remaining budgets; None if fewer are left."""
    after = histogram + np.bincount(admitted, minlength=len(histogram))
    if int(after[1:].sum()) < p:
        return None
    from_top = np.minimum(np.cumsum(after[::-1]), p)
    sizes = np.diff(from_top, prepend=0)[::-1]
    after -= sizes
    after[:-1] += sizes[1:]
    return after


def matrix_of(problem: Problem, path: Path) -> NDArray[np.bool_]:
    """A matrix whose block of popularity p is held by p of its n permitted clients, every client holding one block;
    the least popular block first. :meth:`Instance.cost` says whether there is one."""
    from scipy import sparse  # takes long to load, and other solvers do without
    from scipy.sparse.csgraph import maximum_flow

    M, N = problem.num_blocks, problem.num_clients
    popularity_M, permitted_M = np.array(path).T
    block, rank = np.nonzero(np.arange(N)[None, :] < permitted_M[:, None])
    client = problem.by_falling_budget_N[rank]
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
    graph = sparse.csr_array((arcs[2].astype(np.int32), (arcs[0], arcs[1])), shape=(4 + N + M, 4 + N + M))
    result = maximum_flow(graph, extra_source, extra_sink)
    assert result.flow_value == N + total, f"no matrix has popularities and permissions {path}"
    A_MN = np.zeros((M, N), bool)
    A_MN[block, client] = np.asarray(result.flow[1 + client, 1 + N + block]).ravel() > 0
    return A_MN


def _cumulated(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """[b, n]: the sum over the first n clients."""
    return np.pad(np.cumsum(rows, axis=1), ((0, 0), (1, 0)))


def _arcs(tail: object, head: object, capacity: object) -> NDArray[np.int64]:
    return np.stack(np.broadcast_arrays(np.asarray(tail), np.asarray(head), np.asarray(capacity))).astype(np.int64)
