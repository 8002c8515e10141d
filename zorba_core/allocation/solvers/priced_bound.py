"""The dual programme for fleets too large to keep totals in its states: both the total and the budgets are priced.

States are (b, n, p) as in ``dual_programme``; prices alpha on ``used - T`` and mu on ``waste + used - sum of budgets``
give L(alpha, mu) <= Lambda, concave, maximised by cutting planes. What is lost with the totals is kept for the first
level, where it matters most: g blocks of popularity p on n clients need g p <= sum_{i<=n} min(budget_i, g).

Within 1 % of the best known Lambda at N=200 (0.3 s) and N=1000 (1 s a programme), where the closed-form bound is 7 to
24 % away.

Shapes: M blocks, N clients, P popularities, C cutting planes. ``values[b]`` is (P_b, N + 1), p rising from the floor.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.solvers.dual_programme import Path, PermissionInstance, check_deadline

MAX_NUMBERS = 60_000_000
_MAX_CUTS = 25
_GOOD_ENOUGH = 0.002  # stop when cutting planes leave no more than this to gain, relative to the value


def fits(instance: PermissionInstance) -> bool:
    """Whether a table is small enough to build."""
    return instance.num_blocks * instance.num_clients**2 <= MAX_NUMBERS


def rising_bounds(instance: PermissionInstance, value: float, deadline: float) -> Iterator[tuple[float, Path]]:
    """Valid lower bounds on Lambda, each with the path that attains its relaxation. ``value`` is a known Lambda.

    Raises:
        OutOfTime: the deadline passed; bounds yielded before stay valid.
    """
    most = 4 * value / instance.num_blocks  # far beyond any price that binds
    prices = np.array([value / instance.total, value / (8 * max(instance.budget_N.sum() / instance.total, 1.0))])
    from scipy.optimize import linprog  # takes long to load, and other solvers do without

    prices[1] /= instance.num_blocks
    best, offset_C, slope_C = -np.inf, [], []
    for _ in range(_MAX_CUTS):
        table = PricedTable(instance, float(prices[0]), float(prices[1]), deadline)
        if not np.isfinite(table.bound):
            return
        path, slope = table.best_path()
        yield table.bound, path
        best = max(best, table.bound)
        offset_C.append(table.bound - slope @ prices)
        slope_C.append(slope)
        # max t with t <= offset + slope . prices for every cut; "exactly T" may be priced either way.
        planes = np.column_stack((np.ones(len(slope_C)), -np.array(slope_C)))
        least_alpha = -most if instance.exactly else 0.0
        result = linprog([-1, 0, 0], planes, offset_C, bounds=[(None, value), (least_alpha, most), (0, most)])
        if not result.success or -result.fun - best <= _GOOD_ENOUGH * value:
            return
        prices = result.x[1:]


class PricedTable:
    """Least cost to go at prices (alpha, mu). O(M N P) numbers, 20 ms at N=200, M=12."""

    def __init__(self, instance: PermissionInstance, alpha: float, mu: float, deadline: float) -> None:
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
            cost -= self._admission(b, len(cost))
            np.minimum.accumulate(cost[::-1], axis=0, out=cost[::-1])
            self.values[b] = cost
        self.first = min(((*self._first_level(g), g) for g in range(1, M + 1)), key=lambda level: level[0])
        constant = alpha * instance.total + mu * int(instance.budget_N.sum())
        self.bound = float(self.first[0] - constant) * (1 - 1e-12) - 1e-15

    def best_path(self) -> tuple[Path, NDArray[np.float64]]:
        """The minimising path and the slope of L there: (used - T, waste + used - sum of budgets)."""
        instance = self.instance
        _, least, n, g = self.first
        path = [(least, n)] * g
        waste = int(instance.waste_before[0, n])
        for b in range(g, instance.num_blocks):
            # At least one more than the first level's popularity directly after it, else at least the last one's.
            lowest = least + (b == g) - instance.floor
            cost = self._cost(b, self.values[b + 1])
            cost = (cost - self._admission(b, len(cost))[:, n : n + 1])[lowest:, n:]
            row, column = divmod(int(cost.argmin()), cost.shape[1])
            least, reached = instance.floor + lowest + row, n + column
            waste += int(instance.waste_before[b, reached] - instance.waste_before[b, n])
            n = reached
            path.append((least, n))
        used = sum(p for p, _ in path)
        return tuple(path), np.array([used - instance.total, waste + used - instance.budget_N.sum()], float)

    def _admission(self, b: int, rows: int) -> NDArray[np.float64]:
        """[p, n]: cost of having the n largest clients admitted by block b at popularity p."""
        p = self.instance.floor + np.arange(rows)[:, None]
        return np.arange(self.instance.num_clients + 1) / (p * p) + self.mu * self.instance.waste_before[b]

    def _cost(self, b: int, after: NDArray[np.float64]) -> NDArray[np.float64]:
        """[p, n]: block b at popularity p <= n, then the cost to go."""
        rows = max(0, self.instance.last_popularity(b) - self.instance.floor + 1)
        p = self.instance.floor + np.arange(rows)[:, None]
        cost = after[:rows] + self._admission(b, rows)
        cost += self.per_block * p
        cost[np.arange(self.instance.num_clients + 1) < p] = np.inf
        return cost

    def _first_level(self, g: int) -> tuple[float, int, int]:
        """(cost, p, n) of the best first level of g blocks, everything after it strictly more popular."""
        instance = self.instance
        rows = max(0, instance.last_popularity(0) - instance.floor + 1)
        p = instance.floor + np.arange(rows)[:, None]
        cost = self._admission(0, rows) + g * self.per_block * p
        if g < instance.num_blocks:
            after = self.values[g][1 : rows + 1]
            cost[: len(after)] += after
            cost[len(after) :] = np.inf
        else:
            cost[:, :-1] = np.inf
        n = np.arange(instance.num_clients + 1)
        cost[(n < p) | (g * p > instance.room[g])] = np.inf
        row, column = divmod(int(cost.argmin()), cost.shape[1])
        return float(cost[row, column]), instance.floor + row, column
