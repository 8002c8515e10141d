"""A dynamic programme that bounds Lambda from below, tight to about half a per cent, and guides the exact search.

By exchange, some optimal matrix has *permissions*: with blocks taken from the least popular up, block b has popularity
p_b (never falling) and is used only by the n_b clients of largest budget (never falling), and

    Lambda = sum_b (n_b - n_{b-1}) / p_b^2,        n_{-1} = 0, n_{M-1} = N.

A client first admitted at block b can hold at most M - b blocks, so ``waste`` = budget - (M - b) of its budget, if
positive, is lost. Necessary for such a sequence to be a matrix, with u blocks used so far:

    u_b <= sum_{i<=n_b} min(budget_i, b + 1),   N - n_b <= T - u_b,   total waste + total used <= sum of budgets.

States (b, n, p, u) carry all of these but the last, which is priced: L(mu) = min cost + mu (waste + used - sum of
budgets) bounds Lambda for every mu >= 0, is concave in mu, and has its slope at the minimising path. The last
constraint without a price (mu = 0) costs up to 15 % on realistic fleets; with the best mu the gap is 0 to 0.7 %.

Shapes: M blocks, N clients. Axis n has N + 1 entries, axis u has 1 + (largest u reachable at (b, p)).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

# One block of the sequence: (popularity p, clients n that may use it), least popular first.
Path = tuple[tuple[int, int], ...]


class OutOfTime(Exception):
    """The deadline passed; the caller has the best answer so far."""


def check_deadline(deadline: float) -> None:
    if time.perf_counter() > deadline:
        raise OutOfTime


@dataclass(frozen=True, eq=False)
class PermissionInstance:
    """Sorted budgets and the request, with the sums that the programme needs again and again."""

    budget_N: NDArray[np.int64]  # falling
    num_blocks: int
    total: int  # T, at most the sum of budgets
    exactly: bool  # total mode eq
    floor: int  # c_min

    @property
    def num_clients(self) -> int:
        return len(self.budget_N)

    @cached_property
    def waste_before(self) -> NDArray[np.int64]:
        """[b, n]: budget lost by the n largest clients if all are admitted when b blocks are placed."""
        left = self.num_blocks - np.arange(self.num_blocks + 1)
        waste = np.maximum(0, self.budget_N[None, :] - left[:, None])
        return np.concatenate((np.zeros((len(left), 1), np.int64), np.cumsum(waste, axis=1)), axis=1)

    @cached_property
    def room(self) -> NDArray[np.int64]:
        """[b, n]: most that the n largest clients can hold of b blocks."""
        held = np.minimum(self.budget_N[None, :], np.arange(self.num_blocks + 1)[:, None])
        return np.concatenate((np.zeros((len(held), 1), np.int64), np.cumsum(held, axis=1)), axis=1)

    def last_popularity(self, b: int, used: int = 0) -> int:
        """Largest popularity of the next block when b are placed: the M - b that follow are no less popular."""
        return min(self.num_clients, (self.total - used) // (self.num_blocks - b))

    def last_used(self, b: int, p: int) -> int:
        """Largest u at b placed blocks if those have popularity <= p and the others >= p."""
        return min(b * p, self.total - (self.num_blocks - b) * p)

    @cached_property
    def num_states(self) -> int:
        """How many numbers a table holds."""
        widths = 0
        for b in range(self.num_blocks):
            p = np.arange(self.floor, self.last_popularity(b) + 1)
            widths += int(np.maximum(0, np.minimum(b * p, self.total - (self.num_blocks - b) * p) + 1).sum())
        return (self.num_clients + 1) * widths


class DualTable:
    """Least cost to go for one price mu: ``values[b][p][n, u]`` with b blocks placed, the next of popularity >= p.

    O(M N P T) numbers, P popularities; 20 to 35 ms at N=50, M=12 and 0.1 s at N=50, M=24 on one core.
    """

    def __init__(self, instance: PermissionInstance, mu: float, deadline: float) -> None:
        self.instance, self.mu = instance, mu
        M, N, T = instance.num_blocks, instance.num_clients, instance.total
        n_column, used = np.arange(N + 1)[:, None], np.arange(T + 1)
        end = np.full((N + 1, T + 1), np.inf)
        end[N] = mu * (used - int(instance.budget_N.sum()))
        if instance.exactly:
            end[N, :T] = np.inf
        self.values: list[dict[int, NDArray[np.float64]]] = [{} for _ in range(M + 1)]
        after: dict[int, NDArray[np.float64]] = {p: end for p in range(instance.floor, N + 1)}
        self.values[M] = after
        for b in range(M - 1, -1, -1):
            check_deadline(deadline)
            allowed = (used <= instance.room[b][:, None]) & (N - n_column <= T - used)
            barrier = np.where(allowed, 0.0, np.inf)
            above: NDArray[np.float64] | None = None
            for p in range(instance.last_popularity(b), instance.floor - 1, -1):
                width = instance.last_used(b, p) + 1
                here = self._place(b, p, after[p][:, p : p + width])
                if above is not None:
                    shared = min(width, above.shape[1])
                    np.minimum(here[:, :shared], above[:, :shared], out=here[:, :shared])
                here += barrier[:, :width]
                self.values[b][p] = above = here
            after = self.values[b]

    @property
    def bound(self) -> float:
        """L(mu), a lower bound on Lambda; infinite if no sequence meets the conditions."""
        return float(self.values[0][self.instance.floor][0, 0])

    def price(self, b: int, p: int) -> NDArray[np.float64]:
        """[n]: cost of having the n largest clients admitted by a block of popularity p when b are placed."""
        instance = self.instance
        return np.arange(instance.num_clients + 1) / (p * p) + self.mu * instance.waste_before[b]

    def to_go(self, b: int, n: int, p: int, used: int) -> NDArray[np.float64]:
        """[n' - n]: cost to go after block b is placed with popularity p and n' >= n clients, without their price."""
        return self.values[b + 1][p][n:, used + p]

    def best_path(self) -> tuple[Path, int]:
        """A path of cost L(mu) and the slope of L there, waste + used - sum of budgets."""
        instance = self.instance
        n, least, used, waste, path = 0, instance.floor, 0, 0, []
        for b in range(instance.num_blocks):
            best = (np.inf, least, n)
            for p in range(least, instance.last_popularity(b, used) + 1):
                price = self.price(b, p)
                first = max(n, p)
                cost = self.to_go(b, first, p, used) + (price[first:] - price[n])
                at = int(cost.argmin())
                if cost[at] < best[0]:
                    best = (float(cost[at]), p, first + at)
            _, least, reached = best
            waste += int(instance.waste_before[b, reached] - instance.waste_before[b, n])
            n, used = reached, used + least
            path.append((least, n))
        return tuple(path), waste + used - int(instance.budget_N.sum())

    def _place(self, b: int, p: int, after: NDArray[np.float64]) -> NDArray[np.float64]:
        """min over n' >= max(n, p) of after[n'] + price[n'] - price[n], for every n."""
        price = self.price(b, p)[:, None]
        best = np.empty(after.shape)
        np.add(after[p:], price[p:], out=best[p:])
        np.minimum.accumulate(best[: p - 1 : -1], axis=0, out=best[: p - 1 : -1])
        best[:p] = best[p]
        best -= price
        return best
