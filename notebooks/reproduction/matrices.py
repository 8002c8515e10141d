"""The activation matrices of the experiments.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import Allocation, Problem, solve
from zorba_core.allocation.scenarios import PAPER_SCENARIOS, solve_scenario
from zorba_core.files import read_json
from zorba_core.fleet import Fleet
from zorba_core.vram import ModelSpec

SMALL, REAL = "opt-mini", "smollm2-135m"
BLOCKS_OF = {SMALL: 12, REAL: 30}

Matrix = Callable[[int], Allocation]


def permuted(make: Callable[[], Allocation], salt: int = 0) -> Matrix:
    """The allocation with its blocks in an order that the seed decides. No measure of an allocation changes."""

    def by_seed(seed: int) -> Allocation:
        A_MN = make().A_MN
        return Allocation(A_MN[np.random.default_rng([seed, salt]).permutation(len(A_MN))])

    return by_seed


@functools.cache
def balanced(M: int, N: int, blocks: int) -> Allocation:
    """Every client activates ``blocks`` blocks, every block has nearly the same number of clients."""
    return Allocation(solve(Problem(np.full(N, blocks), M)).allocation.A_MN)


@functools.cache
def scenario(name: str, base: str = "opt-125m") -> Allocation:
    """The matrix of SC1, SC2 or SC3: 50 clients of draw 0, the blocks of ``base``, the printed ratio and Lambda. It is
    stored, because a search with a time limit need not end in the same matrix on another machine, and the runs of an
    experiment have to share theirs."""
    return Allocation.from_blocks(_stored_scenarios()[base][name], BLOCKS_OF.get(base, 12))


@functools.cache
def _stored_scenarios() -> dict[str, dict[str, list[list[int]]]]:
    return read_json(Path(__file__).with_name("scenarios.json"))


def solved_scenario(name: str, base: str = "opt-125m") -> Allocation:
    """:func:`scenario` from the solver, as it was made."""
    model: str | ModelSpec = base
    if base == REAL:
        from zorba_core.runs.load import read_spec

        model = read_spec(base)
    fleet, asked = Fleet.uniform(model, 50, seed=0), PAPER_SCENARIOS[name]
    problem = Problem(fleet.budget_N, fleet.num_blocks, fleet.total_at_ratio(asked.vram_ratio), "eq")
    return Allocation(solve_scenario(problem, asked.bias_lambda, time_limit=600.0).allocation.A_MN)


def only(M: int, N: int, blocks: Sequence[int]) -> Matrix:
    """Every client activates the same blocks; the others are never trained. The same for every seed."""
    return lambda seed: Allocation.from_blocks([list(blocks)] * N, M)


@functools.cache
def dealt(popularity_M: tuple[int, ...], N: int, piled: bool = False) -> Allocation:
    """Give block m to ``popularity_M[m]`` clients: to those with the fewest blocks so far. ``piled``: all blocks that
    are scarcer than the mean go to the same first clients."""
    A_MN = np.zeros((len(popularity_M), N), bool)
    for m in np.argsort(popularity_M, kind="stable"):
        count = popularity_M[m]
        on_first = piled and count < np.mean(popularity_M)
        held_N = np.arange(N) if on_first else A_MN.sum(axis=0)
        A_MN[m, np.argsort(held_N, kind="stable")[:count]] = True
    return Allocation(A_MN)


class Dealt(NamedTuple):
    """An allocation of :func:`dealt` by its popularities; its name is its key in a table."""

    scarce: int  # blocks that only ``level`` clients have
    level: int
    hubs: int  # blocks that all clients have
    piled: bool

    @property
    def name(self) -> str:
        hubs = f", {self.hubs} on all" if self.hubs else ""
        if not self.scarce:
            return f"even{hubs}{', piled' if self.piled else ''}"
        return f"{self.scarce} at {self.level}{hubs}{', piled' if self.piled else ''}"

    def popularity_M(self, M: int, N: int, total: int) -> tuple[int, ...]:
        """The other blocks share what is left; empty if that is impossible, or leaves one of them as scarce."""
        others, left = M - self.scarce - self.hubs, total - self.scarce * self.level - self.hubs * N
        if others < 1 or not self.level < left / others <= N:
            return ()
        even, more = divmod(left, others)
        return (*[self.level] * self.scarce, *[even] * (others - more), *[even + 1] * more, *[N] * self.hubs)

    def allocation(self, M: int = 12, N: int = 20, total: int = 80) -> Allocation:
        return dealt(self.popularity_M(M, N, total), N, self.piled)


EVEN = Dealt(0, 1, 0, False)


class Family(NamedTuple):
    """Allocations of one total over the whole range of Lambda, and the pairs among them that differ in one measure."""

    members: tuple[Dealt, ...]
    same_v: tuple[tuple[Dealt, Dealt], ...]  # equal popularities, hence V; the first has the lower Lambda
    same_lambda: tuple[tuple[Dealt, Dealt], ...]  # Lambda within 2 %; the first has the lower V


@functools.cache
def family(M: int = 12, N: int = 20, total: int = 80, size: int = 40, pairs: int = 5) -> Family:
    """``size`` allocations, spread over log Lambda and log V. Each next one is the farthest from those chosen so far;
    first come the even one, the pairs that differ most in the other measure, and both ends of Lambda."""
    asked = (Dealt(*each) for each in itertools.product(range(9), range(1, 7), range(4), (False, True)))
    pool: dict[tuple, Dealt] = {}
    for each in asked:
        if (each.scarce or each.level == 1) and each.popularity_M(M, N, total):
            allocation = each.allocation(M, N, total)
            pool.setdefault((allocation.A_MN.tobytes(),), each)
    kinds = list(pool.values())
    log_K2 = np.log([[a.bias_lambda, a.mean_inverse_popularity] for a in (k.allocation(M, N, total) for k in kinds)])
    same_v = _pairs(kinds, log_K2[:, 1], log_K2[:, 0], 1e-9, pairs)
    same_lambda = _pairs(kinds, log_K2[:, 0], log_K2[:, 1], 0.02, pairs)
    ends = int(log_K2[:, 0].argmin()), int(log_K2[:, 0].argmax())
    chosen = list(dict.fromkeys([kinds.index(EVEN), *(i for pair in same_v + same_lambda for i in pair), *ends]))
    scaled_K2 = log_K2 / log_K2.std(axis=0)
    while len(chosen) < size:
        distance_K = np.linalg.norm(scaled_K2[:, None] - scaled_K2[chosen], axis=2).min(axis=1)
        chosen.append(int(distance_K.argmax()))
    return Family(
        tuple(kinds[i] for i in chosen),
        tuple((kinds[i], kinds[j]) for i, j in same_v),
        tuple((kinds[i], kinds[j]) for i, j in same_lambda),
    )


def _pairs(
    kinds: Sequence[Dealt], same_K: NDArray, other_K: NDArray, tolerance: float, count: int
) -> list[tuple[int, int]]:
    """``count`` pairs that are equal in one measure and differ most in the other, the lower one first; no two of them
    have the same scarce blocks."""
    ways = [
        (other_K[j] - other_K[i], i, j)
        for i, j in itertools.permutations(range(len(kinds)), 2)
        if abs(same_K[i] - same_K[j]) <= tolerance and other_K[j] - other_K[i] > 0.2
    ]
    taken: set[tuple[int, int]] = set()
    pairs: list[tuple[int, int]] = []
    for _, i, j in sorted(ways, key=lambda way: (-way[0], way[1:])):
        scarce = {kinds[k][:2] for k in (i, j)}
        if len(pairs) < count and not scarce & taken:
            taken |= scarce
            pairs.append((i, j))
    return pairs
