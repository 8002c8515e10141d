"""Algorithm 1 as a story: the matrix and the candidate sets before and after each step, to look at one at a time.

Shapes: M blocks, N clients, S steps. ``A_MN`` bool; ``budget_N``, ``room_N`` int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import Allocation, Problem
from zorba_core.allocation.measures import least_popularity, popularity
from zorba_core.allocation.solvers.lexicographic import GreedyStep, greedy_update, initial_matrix
from zorba_core.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class GreedyState:
    """Where Algorithm 1 stands after some of its steps."""

    A_MN: NDArray[np.bool_]
    low_blocks: tuple[int, ...]  # L: blocks still at gamma*
    low_clients: tuple[int, ...]  # F: clients whose least popularity is still gamma*
    room_N: NDArray[np.int64]  # r_n: blocks that each client can still take
    gains: dict[int, int]  # the candidates C: clients of F for which each is a bottleneck; empty at the end

    @cached_property
    def allocation(self) -> Allocation:
        return Allocation(self.A_MN)


@dataclass(frozen=True, eq=False)
class GreedyReplay:
    """A run of Dinic's flow and Algorithm 1 on one budget vector, recorded."""

    budget_N: NDArray[np.int64]
    initial_MN: NDArray[np.bool_]
    gamma_star: int
    steps: tuple[GreedyStep, ...]

    def state(self, after: int) -> GreedyState:
        """What stands after ``after`` steps, 0 for Dinic's matrix, ``len(steps)`` for the result. O(M N).

        Raises:
            InvalidInputError: fewer than 0 or more than ``len(steps)``.
        """
        if not 0 <= after <= len(self.steps):
            raise InvalidInputError(
                f"after {after} steps: Algorithm 1 took {len(self.steps)} here; choose 0 to that many"
            )
        A_MN = self.initial_MN.copy()
        for step in self.steps[:after]:
            A_MN[step.block, step.client] = True
        if after:
            last = self.steps[after - 1]
            low_blocks, low_clients = last.low_blocks, last.low_clients
        else:
            low_blocks = tuple(np.flatnonzero(popularity(A_MN) == self.gamma_star).tolist())
            low_clients = tuple(np.flatnonzero(least_popularity(A_MN) == self.gamma_star).tolist())
        room_N = self.budget_N - A_MN.sum(axis=0)
        # A block of L has not been given out yet, so who holds it now held it in Dinic's matrix.
        takers_MN = ~A_MN & (room_N > 0)
        gains = {
            block: int(A_MN[block, list(low_clients)].sum())
            for block in low_blocks
            if low_clients and takers_MN[block].any()
        }
        return GreedyState(A_MN, low_blocks, low_clients, room_N, gains)

    def takers(self, step: int) -> NDArray[np.int64]:
        """The clients among which step number ``step`` (from 0) drew the one that takes its block."""
        before = self.state(step)
        return np.flatnonzero(~before.A_MN[self.steps[step].block] & (before.room_N > 0))


def replay_greedy(problem: Problem, seed: int | Sequence[int] = 0) -> GreedyReplay:
    """Run the paper's solver on the problem's budgets and keep every step; the last state's matrix is the one that
    ``solve(problem, "lexicographic", seed=seed)`` returns. A total in the problem is not looked at."""
    initial_MN = initial_matrix(problem.usable_N, problem.num_blocks)
    rng = np.random.default_rng(seed)
    steps = tuple(greedy_update(initial_MN, problem.usable_N, rng))
    return GreedyReplay(problem.usable_N, initial_MN, int(popularity(initial_MN).min()), steps)
