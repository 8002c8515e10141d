"""The search space of ``exact``: sequences of (popularity, number of permitted clients) in place of matrices.

By an exchange argument, some matrix of least Lambda has *permissions*. Order the blocks from the least popular up. Then
block b has popularity p_b, and only the n_b clients of largest budget use it. Neither p_b nor n_b ever falls, and

    Lambda = sum_b (n_b - n_{b-1}) / p_b^2,        n_{-1} = 0, n_{M-1} = N.

A client that is admitted at block b can have at most M - b blocks, so it cannot use max(0, budget - (M - b)) of its
budget: its ``waste``. With u blocks used so far, a path can be a matrix only if

    u_b <= sum_{i<=n_b} min(budget_i, b + 1),   N - n_b <= T - u_b,   total waste + total used <= sum of budgets.

It is a matrix if, when each block in turn takes the clients with the largest remaining budgets, there are always enough
admitted clients with budget.

Shapes: M blocks, N clients. ``budget_N`` int64, falling; ``histogram[v]``: number of admitted clients with v blocks of
budget left.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.problem import Problem

# For each block, least popular first: (popularity p, number n of permitted clients).
Path = tuple[tuple[int, int], ...]

# Relative difference up to which two values of Lambda count as equal, because both are sums of rounded terms.
_SAME = 1e-9


class OutOfTime(Exception):
    """The deadline passed. The caller has the best answer so far."""


def check_deadline(deadline: float) -> None:
    """Raise :class:`OutOfTime` once the deadline (of ``time.perf_counter``) passed."""
    if time.perf_counter() > deadline:
        raise OutOfTime


class Instance:
    """A problem with sorted budgets, and sums that bounds and search need often."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.budget_N = problem.usable_N[problem.by_falling_budget_N]
        self.num_blocks, self.num_clients = problem.num_blocks, problem.num_clients
        self.total, self.all_budgets = problem.most_blocks, int(self.budget_N.sum())  # T, and its largest value
        self.exactly, self.floor = problem.total_mode == "eq", problem.min_popularity

    @cached_property
    def waste_before(self) -> NDArray[np.int64]:
        """[b, n]: waste of the n largest clients if all are admitted after b blocks."""
        left = self.num_blocks - np.arange(self.num_blocks + 1)
        return _cumulated(np.maximum(0, self.budget_N[None, :] - left[:, None]))

    @cached_property
    def room(self) -> NDArray[np.int64]:
        """[b, n]: the most activations of b blocks by the n largest clients."""
        return _cumulated(np.minimum(self.budget_N[None, :], np.arange(self.num_blocks + 1)[:, None]))

    def last_popularity(self, b: int, used: int = 0) -> int:
        """Largest popularity of the next block after b blocks, since all M - b remaining blocks have at least that."""
        return min(self.num_clients, (self.total - used) // (self.num_blocks - b))

    def admission(self, b: int, p: int | NDArray[np.int64], mu: float) -> NDArray[np.float64]:
        """[..., n]: n / p^2 + mu waste. Differences in n are the cost of admitting clients at block b, popularity p."""
        return np.arange(self.num_clients + 1) / (p * p) + mu * self.waste_before[b]

    def slack(self, path: Path) -> tuple[int, int]:
        """(used - T, waste + used - sum of budgets): above 0 if the path breaks a constraint."""
        used, waste, n = 0, 0, 0
        for b, (p, reached) in enumerate(path):
            used += p
            waste += int(self.waste_before[b, reached] - self.waste_before[b, n])
            n = reached
        return used - self.total, waste + used - self.all_budgets

    def cost(self, path: Path) -> float | None:
        """Lambda of the path's matrix; None if no matrix of this path meets the request."""
        cost, used, n, histogram = 0.0, 0, 0, np.zeros(self.num_blocks + 1, np.int64)
        total = sum(p for p, _ in path)
        if total > self.total or (self.exactly and total < self.total):
            return None
        for p, reached in path:
            histogram = take(histogram, self.budget_N[n:reached], p)
            cost += (reached - n) / (p * p)
            n, used = reached, used + p
            # Clients that are not admitted yet need one of the remaining activations.
            if histogram is None or self.num_clients - n > total - used:
                return None
        return cost


@dataclass(eq=False)
class Best:
    """The least Lambda so far, the path of its matrix (None: the two-level start), and the proven lower bound."""

    instance: Instance
    value: float
    bound: float
    path: Path | None = None

    @property
    def proven(self) -> bool:
        return self.bound >= self.value * (1 - _SAME)

    @overload
    def beaten_by(self, value: float) -> bool: ...
    @overload
    def beaten_by(self, value: NDArray[np.float64]) -> NDArray[np.bool_]: ...
    def beaten_by(self, value: float | NDArray[np.float64]) -> bool | NDArray[np.bool_]:
        """Whether a matrix of this Lambda, or of each, would be better."""
        return value < self.value * (1 - _SAME)

    def offer(self, path: Path) -> None:
        """Store the path if it is a matrix and better."""
        cost = self.instance.cost(path)
        if cost is not None and self.beaten_by(cost):
            self.value, self.path = cost, path

    def raise_bound(self, bound: float) -> None:
        """Raise the bound, to slightly less than ``bound`` because of rounding errors."""
        self.bound = max(self.bound, bound * (1 - 1e-12) - 1e-15)


def take(histogram: NDArray[np.int64], admitted: NDArray[np.int64], p: int) -> NDArray[np.int64] | None:
    """Admit clients, then use one block of the p largest remaining budgets. None if fewer than p have budget left."""
    after = histogram + np.bincount(admitted, minlength=len(histogram))
    if int(after[1:].sum()) < p:
        return None
    from_top = np.minimum(np.cumsum(after[::-1]), p)
    sizes = np.diff(from_top, prepend=0)[::-1]
    after -= sizes
    after[:-1] += sizes[1:]
    return after


def matrix_of(problem: Problem, path: Path) -> NDArray[np.bool_]:
    """The matrix of a path for which :meth:`Instance.cost` is not None, least popular block first: each block is on p
    of its n permitted clients, and every client has a block. By a maximum flow with lower bounds."""
    from scipy import sparse  # slow to import, and other solvers do not need it
    from scipy.sparse.csgraph import maximum_flow

    M, N = problem.num_blocks, problem.num_clients
    popularity_M, permitted_M = np.array(path).T
    block, rank = np.nonzero(np.arange(N)[None, :] < permitted_M[:, None])
    client = problem.by_falling_budget_N[rank]
    # Nodes: source, clients, blocks, sink, and a second source and sink for the lower bounds.
    source, sink, extra_source, extra_sink = 0, 1 + N + M, 2 + N + M, 3 + N + M
    clients, blocks = 1 + np.arange(N), 1 + N + np.arange(M)
    total = int(popularity_M.sum())
    arcs = np.concatenate(
        [
            _arcs(source, clients, problem.usable_N - 1),
            _arcs(extra_source, clients, np.ones(N, int)),
            _arcs([source], [extra_sink], [N]),
            _arcs(1 + client, 1 + N + block, np.ones(len(client), int)),
            _arcs(blocks, extra_sink, popularity_M),  # popularities are lower bounds too
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
