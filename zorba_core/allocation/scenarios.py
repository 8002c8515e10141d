"""Matrices with an exact total and a given Lambda: the paper's SC1, SC2, SC3 and any other pair (total, Lambda).

The paper's solver cannot reach SC2 and SC3: at 0.86 of the VRAM its Lambda is near 0.1. This module starts at a matrix
with nearly the right Lambda, and moves single activated blocks to other cells until Lambda is within the tolerance.

Shapes: M blocks, N clients, K moves tried at once. ``A_MN`` bool; ``room_N`` int64.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.bounds import water_filled_bound
from zorba_core.allocation.measures import Allocation, bias_lambda
from zorba_core.allocation.problem import Problem
from zorba_core.allocation.solution import Solution, Status, problem_of, solve
from zorba_core.allocation.solvers.balanced import water_filled_budgets, wrapped
from zorba_core.allocation.solvers.two_level import closest_two_level
from zorba_core.errors import InfeasibleError, InvalidInputError
from zorba_core.fleet import Fleet

_MOVES_AT_ONCE = 64
_STEPS = 300
_POPULARITIES_TRIED = 6
_HEATS = (0.01, 0.1, 0.03)  # starting temperatures of the walk, relative to the target
_COOLING = 0.98


class PaperScenario(NamedTuple):
    """A point of the paper's Fig. 4(a): used fraction of all VRAM, and Lambda."""

    vram_ratio: float
    bias_lambda: float


PAPER_SCENARIOS: Mapping[str, PaperScenario] = {
    "SC1": PaperScenario(0.71, 0.50),
    "SC2": PaperScenario(0.86, 0.50),
    "SC3": PaperScenario(0.86, 0.95),
}


def solve_scenario(
    request: Fleet | Problem,
    target_lambda: float,
    tolerance: float = 1e-3,
    *,
    seed: int = 0,
    time_limit: float = 10.0,
    **limits: Any,
) -> Solution:
    """A matrix with exactly ``total`` blocks and abs(Lambda - target) <= tolerance.

    Args:
        time_limit: seconds for the search and, if it fails, for the bounds in the error.
        limits: as for :func:`~zorba_core.allocation.solution.solve`; with the total, unless the problem has one.

    Raises:
        InvalidInputError: no total, or a target or tolerance that is not positive.
        InfeasibleError: no such matrix exists, or the search did not succeed; the message has the possible interval of
            Lambda, or the closest value.
    """
    problem = problem_of(request, **limits)
    if problem.total is None:
        raise InvalidInputError("a scenario needs a total: the exact number of activated blocks")
    for what, value in (("target Lambda", target_lambda), ("tolerance", tolerance), ("time limit", time_limit)):
        if not 0 < value < np.inf:
            raise InvalidInputError(f"{what} is {value}; it must be a finite number above 0")
    started = time.perf_counter()
    deadline = started + time_limit / 2
    problem = replace(problem, total_mode="eq")
    lower, upper = water_filled_bound(problem), _upper_bound(problem)
    if not lower - tolerance <= target_lambda <= upper + tolerance:
        _refuse(problem, target_lambda, None, time_limit)
    rng, closest = np.random.default_rng(seed), np.inf
    for heat, start_MN in itertools.product(_HEATS, _starts(problem, target_lambda)):
        A_MN = _walk(problem, start_MN, (target_lambda, tolerance), heat * target_lambda, deadline, rng)
        value = bias_lambda(A_MN)
        if abs(value - target_lambda) <= tolerance:
            return Solution(
                allocation=Allocation(A_MN),
                value=value,
                lower_bound=min(lower, value),
                status=Status.ON_TARGET,
                solver="scenario",
                seconds=time.perf_counter() - started,
                problem=problem,
                fleet=request if isinstance(request, Fleet) else None,
            )
        if abs(value - target_lambda) < abs(closest - target_lambda):
            closest = value
        if time.perf_counter() > deadline:
            break
    _refuse(problem, target_lambda, closest, time_limit / 2)


def _starts(problem: Problem, target: float) -> list[NDArray[np.bool_]]:
    """Starting matrices, those of closest Lambda first. For a high target some have starved (unpopular) blocks."""
    balanced = solve(problem).allocation
    low = solve(problem, "two-level").allocation
    starts = [balanced.A_MN, low.A_MN, closest_two_level(problem, target).A_MN]
    if target > balanced.bias_lambda:
        starts = [_starved_towards(problem, target, beyond) for beyond in (False, True)] + starts
    if target < low.bias_lambda:
        starts.append(solve(problem, "exact", time_limit=2.0).allocation.A_MN)
    return sorted(starts, key=lambda A_MN: abs(bias_lambda(A_MN) - target))


def _starved_towards(problem: Problem, target: float, beyond: bool) -> NDArray[np.bool_]:
    """Starve one block after another, to bring Lambda closer to the target: a block of v clients that share no other
    starved block adds about 1/v. ``beyond`` allows the last one to exceed the target."""
    best_MN = solve(problem).allocation.A_MN
    starved: list[int] = []
    while len(starved) < problem.num_blocks - 1:
        missing = target - bias_lambda(best_MN)
        if missing <= 0:
            break
        first = max(problem.min_popularity, int(1 / missing))
        for popularity in range(first, min(first + _POPULARITIES_TRIED, problem.num_clients) + 1):
            A_MN = _with_starved(problem, [*starved, popularity])
            value = bias_lambda(A_MN) if A_MN is not None else np.inf
            if abs(value - target) < missing and (beyond or value <= target):
                best_MN, starved = A_MN, [*starved, popularity]
                break
        else:
            break
    return best_MN


def _with_starved(problem: Problem, popularities: list[int]) -> NDArray[np.bool_] | None:
    """Starved blocks of the given popularities, each on different clients, those with the largest budgets first. The
    other blocks are wrapped around the clients (``solvers.balanced``). None if the total is then out of reach."""
    M, N, count = problem.num_blocks, problem.num_clients, len(popularities)
    if sum(popularities) > N:
        return None
    order_N = problem.by_falling_budget_N
    A_MN = np.zeros((M, N), bool)
    A_MN[np.repeat(np.arange(M - count, M), popularities), order_N[: sum(popularities)]] = True
    rest_N = np.minimum(problem.usable_N - A_MN.sum(axis=0), M - count)
    must_N = (~A_MN.any(axis=0)).astype(np.int64)
    left = problem.most_blocks - sum(popularities)
    if not int(must_N.sum()) <= left <= int(rest_N.sum()) or left < (M - count) * problem.min_popularity:
        return None
    held_N = must_N + water_filled_budgets(rest_N - must_N, left - int(must_N.sum()))
    A_MN[: M - count] = wrapped(M - count, held_N)
    return A_MN


def _walk(
    problem: Problem,
    start_MN: NDArray[np.bool_],
    aim: tuple[float, float],
    heat: float,
    deadline: float,
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    """The matrix closest to ``aim`` (target, tolerance) on a random walk from ``start_MN``. A step is the best of K
    random moves, accepted as in simulated annealing."""
    target, tolerance = aim
    A_MN, best_MN, distance = start_MN.copy(), start_MN, abs(bias_lambda(start_MN) - target)
    best = distance
    for _ in range(_STEPS):
        if best <= tolerance or time.perf_counter() > deadline:
            break
        source_K, goal_K, lambda_K = _random_moves(problem, A_MN, rng)
        distance_K = np.abs(lambda_K - target)
        at = int(distance_K.argmin())
        if distance_K[at] < distance - heat * np.log(rng.random()):
            A_MN.flat[source_K[at]], A_MN.flat[goal_K[at]] = False, True
            distance = float(distance_K[at])
            if distance < best:
                best_MN, best = A_MN.copy(), distance
        heat *= _COOLING
    return best_MN


def _random_moves(
    problem: Problem, A_MN: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """K moves (flat index of the cell to empty, of the cell to fill) and Lambda after each move, infinite if the move
    breaks a constraint. Half of the moves stay within a client, which is possible with a full budget too."""
    M, N, K = problem.num_blocks, problem.num_clients, _MOVES_AT_ONCE
    source_K = rng.choice(np.flatnonzero(A_MN), K)
    m, n = np.divmod(source_K, N)
    m2, n2 = rng.integers(M, size=K), np.where(np.arange(K) % 2, n, rng.integers(N, size=K))
    popularity_M, held_N = A_MN.sum(axis=1), A_MN.sum(axis=0)
    allowed = ~A_MN[m2, n2]
    allowed &= (n == n2) | ((held_N[n] > 1) & (held_N[n2] < problem.usable_N[n2]))
    allowed &= (m == m2) | (popularity_M[m] > problem.min_popularity)
    each = np.arange(K)
    popularity_KM = np.tile(popularity_M, (K, 1))
    popularity_KM[each, m] -= 1
    popularity_KM[each, m2] += 1
    A_KMN = np.tile(A_MN, (K, 1, 1))
    A_KMN[each, m, n], A_KMN[each, m2, n2] = False, True
    least_KN = np.where(A_KMN, popularity_KM[:, :, None], N + 1).min(axis=1)
    lambda_K = (1.0 / np.maximum(least_KN, 1) ** 2.0).sum(axis=1)
    return source_K, m2 * N + n2, np.where(allowed, lambda_K, np.inf)


def _upper_bound(problem: Problem) -> float:
    """Lambda <= sum_m 1/c_m, because at most c_m clients have block m as their least popular one.

    In every matrix the s least popular blocks have together at least B_s = max(s c_min, T - sum_n min(budget_n, M - s))
    activations, because the other blocks have no room for more. B is convex in s, so c_s = B_s - B_{s-1} rises. It
    majorises every possible sequence of popularities, so the convex sum of 1/c is largest there.
    """
    size_M = np.arange(problem.num_blocks + 1)
    room_M = np.array([np.minimum(problem.usable_N, problem.num_blocks - s).sum() for s in size_M])
    popularity_M = np.diff(np.maximum(size_M * problem.min_popularity, problem.most_blocks - room_M))
    most = problem.num_clients / problem.min_popularity**2
    return min(most, float((1.0 / popularity_M).sum())) * (1 + 1e-12)


def _refuse(problem: Problem, target: float, closest: float | None, time_limit: float) -> NoReturn:
    """
    Raises:
        InfeasibleError: always; with the possible interval of Lambda.
    """
    lowest = solve(problem, "exact", time_limit=max(time_limit, 0.1))
    upper, total = _upper_bound(problem), problem.total
    proven = "proven" if lowest.optimal else f"bound {lowest.lower_bound:.6g}"
    interval = f"{lowest.value:.6g} ({proven}) to at most {upper:.6g}"
    if closest is None or target < lowest.lower_bound:
        raise InfeasibleError(
            f"Lambda {target:g} is out of reach with exactly {total} blocks: within these budgets it ranges from "
            f"{interval}; change the target or the total"
        )
    raise InfeasibleError(
        f"no matrix with exactly {total} blocks and Lambda {target:g} was found; the closest has {closest:.6g} and the "
        f"interval is {interval}; widen the tolerance or change the total"
    )
