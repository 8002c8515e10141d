"""A dynamic programme over permissions that bounds Lambda from below, and guides the exact search.

States (b, n, p, u), for u blocks used, meet every condition of :mod:`~zorba_core.allocation.solvers.permissions` but
the last, which is priced: L(mu) = min cost + mu (waste + used - sum of budgets) bounds Lambda for every mu >= 0, is
concave in mu, and has its slope at the minimising path. Without a price (mu = 0) the bound is up to 15 % below the
optimum on realistic fleets; with the best mu 0 to 0.7 %.

Shapes: M blocks, N clients. Axis n has N + 1 entries, axis u has 1 + (largest u reachable at (b, p)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.solvers.permissions import Best, Instance, Path, check_deadline

MAX_STATES = 48_000_000  # numbers of 8 bytes in one table
_STATES_HELD = 50_000_000  # in all tables together, but always two tables
_MAX_PRICES = 8
_FIRST_PRICE = 1.2  # of the best Lambda a block of budget: the best price of realistic fleets is 0.8 to 2 times that


class DualTable:
    """Least cost to go for one price mu: ``values[b][p][n, u]`` with b blocks placed, the next of popularity >= p.

    O(M N P T) numbers, P popularities; 20 to 35 ms at N=50, M=12 and 0.1 s at N=50, M=24 on one core.
    """

    def __init__(self, instance: Instance, mu: float, deadline: float) -> None:
        self.instance, self.mu = instance, mu
        M, N, T = instance.num_blocks, instance.num_clients, instance.total
        n_column, used = np.arange(N + 1)[:, None], np.arange(T + 1)
        end = np.full((N + 1, T + 1), np.inf)
        end[N] = mu * (used - instance.all_budgets)
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
                width = _width(instance, b, p)
                here = self._place(b, p, after[p][:, p : p + width])
                if above is not None:
                    shared = min(width, above.shape[1])
                    np.minimum(here[:, :shared], above[:, :shared], out=here[:, :shared])
                here += barrier[:, :width]
                self.values[b][p] = above = here
            after = self.values[b]

    @property
    def bound(self) -> float:
        """L(mu), a lower bound on Lambda; infinite if no path meets the conditions."""
        return float(self.values[0][self.instance.floor][0, 0])

    def to_go(self, b: int, n: int, p: int, used: int) -> NDArray[np.float64]:
        """[n' - n]: cost to go after block b is placed with popularity p and n' >= n clients, without their price."""
        return self.values[b + 1][p][n:, used + p]

    def best_path(self) -> Path:
        """A path of cost L(mu)."""
        instance = self.instance
        n, least, used, path = 0, instance.floor, 0, []
        for b in range(instance.num_blocks):
            best = (np.inf, least, n)
            for p in range(least, instance.last_popularity(b, used) + 1):
                price = instance.admission(b, p, self.mu)
                first = max(n, p)
                cost = self.to_go(b, first, p, used) + (price[first:] - price[n])
                at = int(cost.argmin())
                if cost[at] < best[0]:
                    best = (float(cost[at]), p, first + at)
            _, least, n = best
            used += least
            path.append((least, n))
        return tuple(path)

    def _place(self, b: int, p: int, after: NDArray[np.float64]) -> NDArray[np.float64]:
        """min over n' >= max(n, p) of after[n'] + price[n'] - price[n], for every n."""
        price = self.instance.admission(b, p, self.mu)[:, None]
        best = np.empty(after.shape)
        np.add(after[p:], price[p:], out=best[p:])
        np.minimum.accumulate(best[: p - 1 : -1], axis=0, out=best[: p - 1 : -1])
        best[:p] = best[p]
        best -= price
        return best


def num_states(instance: Instance) -> int:
    """How many numbers a table holds."""
    M = instance.num_blocks
    widths = [_width(instance, b, np.arange(instance.floor, instance.last_popularity(b) + 1)) for b in range(M)]
    return (instance.num_clients + 1) * int(sum(np.maximum(0, width).sum() for width in widths))


def raise_price(best: Best, deadline: float) -> list[DualTable]:
    """Maximise the concave L(mu): try where the tangents on both sides of the maximum meet. Returns the tables of the
    highest bounds.

    Raises:
        OutOfTime: the deadline passed; ``best`` stays valid.
    """
    instance, left, right = best.instance, None, None
    mu = _FIRST_PRICE * best.value / instance.all_budgets
    most = min(3, max(2, _STATES_HELD // max(1, num_states(instance))))
    tables: list[DualTable] = []
    for _ in range(_MAX_PRICES):
        table = DualTable(instance, mu, deadline)
        tables = sorted([*tables, table], key=lambda each: -each.bound)[:most]
        best.raise_bound(table.bound)
        path = table.best_path()
        best.offer(path)
        _, slope = instance.slack(path)
        if best.proven or slope == 0 or (slope < 0 and mu == 0):
            break
        if slope > 0:
            left = (mu, table.bound, slope)
        else:
            right = (mu, table.bound, slope)
        if right is None:  # no matrix is better than ``value``: the maximum lies before the tangent reaches it
            mu = min(2 * mu, left[0] + (best.value - left[1]) / left[2])
            continue
        if left is None:
            mu = mu / 2 if mu > _FIRST_PRICE / 8 * best.value / instance.all_budgets else 0.0
            continue
        mu = (right[1] - left[1] + left[2] * left[0] - right[2] * right[0]) / (left[2] - right[2])
        reach = left[1] + left[2] * (mu - left[0])
        if reach - best.bound <= 0.02 * (best.value - best.bound):
            break
    return tables


def _width(instance: Instance, b: int, p: int | NDArray[np.int64]) -> int | NDArray[np.int64]:
    """Entries of axis u: what b blocks of popularity <= p can have used if the others have popularity >= p."""
    return np.minimum(b * p, instance.total - (instance.num_blocks - b) * p) + 1
