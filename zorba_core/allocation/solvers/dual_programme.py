"""Two dynamic programmes over permissions that bound Lambda from below. They price the conditions that their states
leave out (Lagrangian relaxation).

:class:`DualTable`, which also guides the exact search, has states (b, n, p, u) with u blocks used. They meet every
condition of :mod:`~zorba_core.allocation.solvers.permissions` but the last one. For every mu >= 0,
L(mu) = min cost + mu (waste + used - sum of budgets) is a lower bound on Lambda. It is concave in mu, and its slope is
waste + used - sum of budgets of the minimising path. On realistic fleets the bound is up to 15 % below the optimum with
mu = 0, and 0 to 0.7 % with the best mu.

:class:`PricedTable` is for fleets that are too large for totals in the states. It has states (b, n, p), with prices
alpha of ``used - T`` and mu of ``waste + used - sum of budgets``. Cutting planes maximise L(alpha, mu). The condition
on totals remains for the first level, where it matters most: g blocks of popularity p on n clients need
g p <= sum_{i<=n} min(budget_i, g). The bound is within 1 % of the best known Lambda at N=200 and N=1000, and the
closed-form bound 7 to 24 % away.

Shapes: M blocks, N clients, P popularities, C cutting planes. Axis n has N + 1 entries, axis u of a
:class:`DualTable` 1 + (largest u reachable at (b, p)); ``PricedTable.values[b]`` is (P_b, N + 1), p rising from the
floor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.solvers.permissions import Best, Instance, Path, check_deadline

MAX_STATES = 48_000_000  # numbers of 8 bytes in one DualTable
_STATES_HELD = 50_000_000  # in all DualTables together, but there are always two tables
MAX_PRICED = 60_000_000  # M N^2 of a PricedTable
_MAX_PRICES, _MAX_CUTS = 8, 25
_GOOD_ENOUGH = 0.002  # largest improvement, relative to the value, that is not worth another cutting plane
# The first price in units of Lambda / sum of budgets. The best price of realistic fleets is 0.8 to 2 times the first.
_FIRST_PRICE = 1.2


class DualTable:
    """Least cost to go for one price mu: ``values[b][p][n, u]`` after b blocks, if the next has popularity >= p.

    O(M N P T) numbers, P popularities.
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
        """[n' - n]: cost to go after block b with popularity p and n' >= n clients, without block b's own cost."""
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
    """The number of states of a :class:`DualTable`."""
    M = instance.num_blocks
    widths = [_width(instance, b, np.arange(instance.floor, instance.last_popularity(b) + 1)) for b in range(M)]
    return (instance.num_clients + 1) * int(sum(np.maximum(0, width).sum() for width in widths))


def raise_price(best: Best, deadline: float) -> list[DualTable]:
    """Maximise the concave L(mu): the next mu is where the tangents on both sides of the maximum meet. Returns the
    tables of the highest bounds.

    Raises:
        OutOfTime: the deadline passed; ``best`` remains valid.
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
        if right is None:  # L <= Lambda <= value, so the maximum is before the tangent reaches ``value``
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
    """Entries of axis u: 1 + the most that b blocks of popularity <= p use if the others have popularity >= p."""
    return np.minimum(b * p, instance.total - (instance.num_blocks - b) * p) + 1


def raise_two_prices(best: Best, deadline: float) -> None:
    """Maximise the concave L(alpha, mu) by cutting planes, and offer the minimising paths to ``best``.

    Raises:
        OutOfTime: the deadline passed; ``best`` remains valid.
    """
    from scipy.optimize import linprog  # slow to import, and other solvers do not need it

    instance, value = best.instance, best.value
    most = 4 * value / instance.num_blocks  # far above any useful price
    least_alpha = -most if instance.exactly else 0.0  # the price of "exactly T" may have either sign
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
        # Maximise t with t <= offset + slope . prices for every cut.
        planes = np.column_stack((np.ones(len(slope_C)), -np.array(slope_C)))
        result = linprog([-1, 0, 0], planes, offset_C, bounds=[(None, value), (least_alpha, most), (0, most)])
        if not result.success or -result.fun - highest <= _GOOD_ENOUGH * value:
            return
        prices = result.x[1:]


class PricedTable:
    """Least cost to go at prices (alpha, mu), without totals in the states. O(M N P) numbers."""

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
            # Popularity never falls, and directly after the first level it rises by at least one.
            lowest = least + (b == g) - instance.floor
            cost = self._cost(b, self.values[b + 1])
            cost = (cost - instance.admission(b, self._popularities(b), self.mu)[:, n : n + 1])[lowest:, n:]
            row, column = divmod(int(cost.argmin()), cost.shape[1])
            least, n = instance.floor + lowest + row, n + column
            path.append((least, n))
        return tuple(path)

    def _popularities(self, b: int) -> NDArray[np.int64]:
        """[p, 1]: the possible popularities of block b."""
        rows = max(0, self.instance.last_popularity(b) - self.instance.floor + 1)
        return self.instance.floor + np.arange(rows)[:, None]

    def _cost(self, b: int, after: NDArray[np.float64]) -> NDArray[np.float64]:
        """[p, n]: cost of block b with popularity p <= n, plus the cost to go."""
        p = self._popularities(b)
        cost = after[: len(p)] + self.instance.admission(b, p, self.mu)
        cost += self.per_block * p
        cost[np.arange(self.instance.num_clients + 1) < p] = np.inf
        return cost

    def _first_level(self, g: int) -> tuple[float, int, int]:
        """(cost, p, n) of the best first level of g blocks, if all later blocks are more popular."""
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
