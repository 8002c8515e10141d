"""Two-level allocations in closed form: g hub blocks for all clients, and M - g blocks for the largest budgets only.

Hub blocks have popularity v1, the others v2 <= v1, and only the n2 clients of largest budget use the others, so
Lambda <= (N - n2)/v1^2 + n2/v2^2. With D = (M - g) v2, a choice (g, n2, v1, v2) is feasible iff

    v2 <= n2,  D <= sum_{i<=n2} min(budget_i, M - g),
    g v1 <= sum_i min(budget_i, g) - max(0, D - sum_{i<=n2} max(0, budget_i - g)),
    g v1 + D <= T (total mode eq: the clients' blocks, N - n2 of them hub only, can reach T),
    N - n2 <= g v1,  N <= g v1 + D,

which is Hoffman's condition for the flow from clients to the two groups. Within a group the blocks are wrapped around
the clients. The conditions need only the histogram of budgets and its prefix sums, so a million clients are fast.

Shapes: M blocks, N clients, G values of g. ``budget_N`` int64, falling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.measures import Allocation
from zorba_core.allocation.problem import Problem
from zorba_core.allocation.solution import Options, solver
from zorba_core.allocation.solvers.balanced import balanced, water_filled_budgets, wrapped

# Number of values of n2 and of v2 in a grid. For more values, finer grids around the best points follow.
_GRID = 64
_REFINED_GROUPS = 6


class TwoLevel(NamedTuple):
    """A choice of the closed form. ``bias_lambda`` is exact unless one of the n2 clients has only hub blocks."""

    hub_blocks: int  # g
    hub_popularity: int  # v1
    top_clients: int  # n2
    top_popularity: int  # v2
    bias_lambda: float


def closest_two_level(problem: Problem, target: float = 0.0) -> Allocation:
    """The best of the two-level choices and the balanced allocation: of least Lambda, or closest to a ``target``.

    Equals the optimum for most totals of realistic fleets. If N <= 64 every (g, n2, v2) is tried, else a grid over n2
    and v2 with finer grids around its best points.
    """
    even = balanced(problem)
    choice = best_two_level(problem, target)
    if choice is None:
        return even
    carried_out = _carry_out(problem, choice)
    return min((even, carried_out), key=lambda allocation: abs(allocation.bias_lambda - target))


def best_two_level(problem: Problem, target: float = 0.0) -> TwoLevel | None:
    """The feasible choice whose closed-form Lambda is closest to ``target``, or None."""

    def distance(choice: TwoLevel) -> float:
        return abs(choice.bias_lambda - target)

    form = _ClosedForm(problem)
    N, floor = problem.num_clients, problem.min_popularity
    groups = np.arange(1, problem.num_blocks)
    n2, v2 = _grid(1, N), _grid(floor, N)
    step = max(int(np.diff(grid).max(initial=1)) for grid in (n2, v2))
    best: TwoLevel | None = None
    windows = [(groups, n2, v2)]
    while windows and len(groups):
        choices = [choice for window in windows for choice in form.best_per_group(*window, target)]
        choices.sort(key=distance)
        best = min((choice for choice in (best, *choices[:1]) if choice is not None), key=distance, default=None)
        if step <= 1:
            break
        half, step = 2 * step, max(1, 4 * step // _GRID)
        windows = [
            (
                np.array([choice.hub_blocks]),
                _around(choice.top_clients, half, step, 1, N),
                _around(choice.top_popularity, half, step, floor, N),
            )
            for choice in choices[:_REFINED_GROUPS]
        ]
    return best


class _ClosedForm:
    """Lambda of (g, n2, v2), arrays that are broadcast, from prefix sums of the sorted budgets."""

    def __init__(self, problem: Problem) -> None:
        budget_N = problem.usable_N[problem.by_falling_budget_N]
        self.M, self.N = problem.num_blocks, problem.num_clients
        self.total, self.exactly = problem.most_blocks, problem.total_mode == "eq"
        self.prefix = np.concatenate(([0], np.cumsum(budget_N)))
        # larger[k]: clients with budget > k
        self.larger = self.N - np.cumsum(np.bincount(budget_N, minlength=self.M + 1))

    def capped(self, first: NDArray[np.int64], cap: NDArray[np.int64]) -> NDArray[np.int64]:
        """sum over the ``first`` largest budgets of min(budget, cap)."""
        cut = np.minimum(first, self.larger[cap])
        return cap * cut + self.prefix[first] - self.prefix[cut]

    def best_per_group(
        self, groups: NDArray[np.int64], n2: NDArray[np.int64], v2: NDArray[np.int64], target: float
    ) -> list[TwoLevel]:
        """For each g, the pair (n2, v2) whose Lambda is closest to ``target``."""
        value, v1 = self.evaluate(groups[:, None, None], n2[None, :, None], v2[None, None, :])
        flat = value.reshape(len(groups), -1)
        best_G = np.abs(flat - target).argmin(axis=1)
        choices = []
        for row, at in enumerate(best_G.tolist()):
            if np.isfinite(flat[row, at]):
                a, b = divmod(at, len(v2))
                numbers = map(int, (groups[row], v1[row, a, b], n2[a], v2[b]))
                choices.append(TwoLevel(*numbers, float(flat[row, at])))
        return choices

    def evaluate(
        self, g: NDArray[np.int64], n2: NDArray[np.int64], v2: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Lambda, infinite for a choice that is not feasible, and the largest v1."""
        M, N = self.M, self.N
        demand = (M - g) * v2
        top = self.capped(n2, np.full_like(n2, M))
        spare = top - self.capped(n2, g)
        hub = self.capped(np.full_like(g, N), g)
        room = np.minimum(hub - np.maximum(0, demand - spare), self.total - demand)
        v1 = np.minimum(room // g, N)
        fits = (v2 <= n2) & (demand <= self.capped(n2, M - g)) & (v1 >= v2)
        fits &= (g * v1 >= N - n2) & (g * v1 + demand >= N)
        if self.exactly:
            fits = fits & (hub + spare >= self.total)
        safe = np.maximum(v1, 1).astype(float)
        value = (N - n2) / (safe * safe) + n2 / (v2 * v2).astype(float)
        return np.where(fits, value, np.inf), v1


def _carry_out(problem: Problem, choice: TwoLevel) -> Allocation:
    """The matrix of a choice: the number of blocks of each client in each group, then wrapped around."""
    M, N, g, n2 = problem.num_blocks, problem.num_clients, choice.hub_blocks, choice.top_clients
    order_N = problem.by_falling_budget_N
    budget_N = problem.usable_N[order_N]
    demand, hub_total = (M - g) * choice.top_popularity, g * choice.hub_popularity
    top_room = np.where(np.arange(N) < n2, np.minimum(budget_N, M - g), 0)
    spare = np.minimum(np.maximum(budget_N - g, 0), top_room)  # budget that hub blocks cannot use
    from_spare = water_filled_budgets(spare, min(demand, int(spare.sum())))
    top_N = from_spare + water_filled_budgets(top_room - from_spare, demand - int(from_spare.sum()))
    _serve_every_client(top_N, top_room, hub_total)
    if problem.total_mode == "eq":
        left = problem.most_blocks - demand - hub_total
        hub_room = int(np.minimum(budget_N - top_N, g).sum()) - hub_total
        extra = water_filled_budgets(spare - np.minimum(spare, top_N), max(0, left - hub_room))
        top_N, hub_total = top_N + extra, hub_total + min(left, hub_room)
    must_N = (top_N == 0).astype(np.int64)
    hub_N = must_N + water_filled_budgets(np.minimum(budget_N - top_N, g) - must_N, hub_total - int(must_N.sum()))
    held = np.empty((2, N), np.int64)
    held[:, order_N] = hub_N, top_N
    # Hub last: most clients have hub blocks only, and can skip the blocks before their first active one.
    return Allocation(np.concatenate((wrapped(M - g, held[1]), wrapped(g, held[0]))))


def _serve_every_client(top_N: NDArray[np.int64], top_room: NDArray[np.int64], hub_total: int) -> None:
    """If the hub has too few places for the clients without a top block, give some of those clients a top block, in
    place, from clients with several."""
    missing = int((top_N == 0).sum()) - hub_total
    if missing <= 0:
        return
    top_N[np.flatnonzero((top_N == 0) & (top_room > 0))[:missing]] = 1
    excess = np.maximum(top_N - 1, 0)
    top_N -= water_filled_budgets(excess, missing)


def _grid(first: int, last: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(first, last, min(_GRID, last - first + 1)).round().astype(np.int64))


def _around(centre: int, half: int, step: int, first: int, last: int) -> NDArray[np.int64]:
    points = np.arange(centre - half, centre + half + 1, step)
    return points[(points >= first) & (points <= last)]


@solver(
    "two-level",
    title="Two-level",
    help="a lower Λ, at a higher V",
)
def two_level(problem: Problem, options: Options) -> Allocation:
    """The better of the two-level choices and the balanced allocation."""
    return closest_two_level(problem)
