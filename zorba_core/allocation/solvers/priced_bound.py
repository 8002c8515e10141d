"""The dual programme for fleets too large to keep totals in its states: both the total and the budgets are priced.

States are (b, n, p) as in ``dual_programme``; prices alpha on ``used - T`` and mu on ``waste + used - sum of budgets``
give L(alpha, mu) <= Lambda, concave, maximised by cutting planes. The lost condition on totals stays for the first
level, where it matters most: g blocks of popularity p on n clients need g p <= sum_{i<=n} min(budget_i, g).

Within 1 % of the best known Lambda at N=200 (0.3 s) and N=1000 (1 s a programme), where the closed-form bound is 7 to
24 % away.

Shapes: M blocks, N clients, P popularities, C cutting planes. ``values[b]`` is (P_b, N + 1), p rising from the floor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.solvers.permissions import Best, Instance, Path, check_deadline

MAX_NUMBERS = 60_000_000
_MAX_CUTS = 25
_GOOD_ENOUGH = 0.002  # stop when cutting planes leave no more than this to gain, relative to the value


def fits(instance: Instance) -> bool:
    """Whether a table is small enough to build."""
    return instance.num_blocks * instance.num_clients**2 <= MAX_NUMBERS


def raise_prices(best: Best, deadline: float) -> None:
    """Raise the bound, and offer the paths that attain it.

    Raises:
        OutOfTime: the deadline passed; ``best`` stays valid.
    """
    from scipy.optimize import linprog  # takes long to load, and other solvers do without

    instance, value = best.instance, best.value
    most = 4 * value / instance.num_blocks  # far beyond any price that binds
    least_alpha = -most if instance.exactly else 0.0  # "exactly T" may be priced either way
    waste_price = value / (8 * max(instance.all_budgets / instance.total, 1.0)) / instance.num_blocks
    prices, highest = np.array([value / instance.total, waste_price]), -np.inf
    offset_C, slope_C = [], []
    for _ in range(_MAX_CUTS):
        table = PricedTable(instance, *prices.tolist(), deadline)
        if not np.isfinite(table.bound):
            return
        path = table.best_path()
        best.raise_bound(table.bound)
        best.offer(path)
        if best.proven:
            return
        highest = max(highest, table.bound)
        slope = np.array(instance.slack(path), float)
        offset_C.append(table.bound - slope @ prices)
        slope_C.append(slope)
        # max t with t <= offset + slope . prices for every cut
        planes = np.column_stack((np.ones(len(slope_C)), -np.array(slope_C)))
        result = linprog([-1, 0, 0], planes, offset_C, bounds=[(None, value), (least_alpha, most), (0, most)])
        if not result.success or -result.fun - highest <= _GOOD_ENOUGH * value:
            return
        prices = result.x[1:]


class PricedTable:
    """Least cost to go at prices (alpha, mu). O(M N P) numbers, 20 ms at N=200, M=12."""

    def __init__(self, instance: Instance, alpha: float, mu: float, deadline: float) -> None:
        self.instance, self.mu = instance, mu
        self.per_block = alpha + mu  # price of one activated block
        M, N, floor = instance.num_blocks, instance.num_clients, instance.floor
        end = np.full((max(0, N - floor + 1), N + 1), np.inf)
        end[:, N] = 0.0
        self.values: list[NDArray[np.float64]] = [end] * (M + 1)
        for b in range(M - 1, 0, -1):
            check_deadline(deadline)
            cost = self._cost(b, self.values[b + 1])
            np.minimum.accumulate(cost[:, ::-1], axis=1, out=cost[:, ::-1])
            cost -= instance.admission(b, self._popularities(b), mu)
            np.minimum.accumulate(cost[::-1], axis=0, out=cost[::-1])
            self.values[b] = cost
        self.first = min(((*self._first_level(g), g) for g in range(1, M + 1)), key=lambda level: level[0])
        constant = alpha * instance.total + mu * instance.all_budgets
        self.bound = float(self.first[0] - constant)

    def best_path(self) -> Path:
        """The minimising path."""
        instance = self.instance
        _, least, n, g = self.first
        path = [(least, n)] * g
        for b in range(g, instance.num_blocks):
            # At least one more than the first level's popularity directly after it, else at least the last one's.
            lowest = least + (b == g) - instance.floor
            cost = self._cost(b, self.values[b + 1])
            cost = (cost - instance.admission(b, self._popularities(b), self.mu)[:, n : n + 1])[lowest:, n:]
            row, column = divmod(int(cost.argmin()), cost.shape[1])
            least, n = instance.floor + lowest + row, n + column
            path.append((least, n))
        return tuple(path)

    def _popularities(self, b: int) -> NDArray[np.int64]:
        """[p, 1]: of block b."""
        rows = max(0, self.instance.last_popularity(b) - self.instance.floor + 1)
        return self.instance.floor + np.arange(rows)[:, None]

    def _cost(self, b: int, after: NDArray[np.float64]) -> NDArray[np.float64]:
        """[p, n]: block b at popularity p <= n, then the cost to go."""
        p = self._popularities(b)
        cost = after[: len(p)] + self.instance.admission(b, p, self.mu)
        cost += self.per_block * p
        cost[np.arange(self.instance.num_clients + 1) < p] = np.inf
        return cost

    def _first_level(self, g: int) -> tuple[float, int, int]:
        """(cost, p, n) of the best first level of g blocks, everything after it strictly more popular."""
        instance, p = self.instance, self._popularities(0)
        cost = instance.admission(0, p, self.mu) + g * self.per_block * p
        if g < instance.num_blocks:
            after = self.values[g][1 : len(p) + 1]
            cost[: len(after)] += after
            cost[len(after) :] = np.inf
        else:
            cost[:, :-1] = np.inf
        n = np.arange(instance.num_clients + 1)
        cost[(n < p) | (g * p > instance.room[g])] = np.inf
        row, column = divmod(int(cost.argmin()), cost.shape[1])
        return float(cost[row, column]), instance.floor + row, column
