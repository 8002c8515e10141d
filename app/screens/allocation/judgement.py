"""How good a matrix made by hand is: who cannot run it, and what the solver does with as many blocks.

Shapes: M blocks, N clients. ``A_MN`` bool; ``budget_N``, ``most_N`` int64, whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from app.shared.scenario import WITHOUT_TOTAL
from zorba_core.allocation import Allocation, Problem, Solution, solve
from zorba_core.errors import InfeasibleError

_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Judgement:
    """A matrix against what its clients can hold, and against the solver."""

    allocation: Allocation
    budget_N: NDArray[np.int64]  # blocks after the selected point's reduction
    most_N: NDArray[np.int64]  # blocks that all of a client's VRAM can hold
    rival: Solution | None  # the solver with the same total and room; None while the matrix is incomplete

    @cached_property
    def untrained_blocks(self) -> list[int]:
        return np.flatnonzero(self.allocation.popularity_M == 0).tolist()

    @cached_property
    def idle_clients(self) -> list[int]:
        return np.flatnonzero(self.allocation.blocks_held_N == 0).tolist()

    @cached_property
    def too_full_clients(self) -> list[int]:
        """Clients whose blocks do not fit into their VRAM."""
        return np.flatnonzero(self.allocation.blocks_held_N > self.most_N).tolist()

    @cached_property
    def beyond_reduction(self) -> list[int]:
        """Clients that use VRAM which the selected point leaves free; they can, but the comparison must allow it."""
        held_N = self.allocation.blocks_held_N
        return np.flatnonzero((held_N > self.budget_N) & (held_N <= self.most_N)).tolist()

    @property
    def is_feasible(self) -> bool:
        return not (self.untrained_blocks or self.idle_clients or self.too_full_clients)

    @property
    def lead(self) -> float | None:
        """By what share Lambda lies below the solver's; negative when the solver is ahead, 0 when they are level."""
        if self.rival is None:
            return None
        theirs = self.rival.allocation.bias_lambda
        lead = 1.0 - self.allocation.bias_lambda / theirs
        return 0.0 if abs(lead) < _SAME else lead

    @property
    def left_to_gain(self) -> float | None:
        """The most by which any matrix with this total and room could lower Lambda further."""
        if self.rival is None:
            return None
        left = 1.0 - self.rival.lower_bound / self.allocation.bias_lambda
        return left if left > _SAME else 0.0


def judge(
    allocation: Allocation,
    budget_N: NDArray[np.int64],
    most_N: NDArray[np.int64],
    *,
    solver: str,
    seed: int | Sequence[int] = 0,
) -> Judgement:
    """Compare with ``solver`` given the same total and, where the matrix goes beyond the point's budgets, that room."""
    rival = None
    if allocation.is_complete:
        rival = rival_solution(allocation, budget_N, solver=solver, seed=seed)
    return Judgement(allocation, budget_N, most_N, rival)


def rival_solution(
    allocation: Allocation,
    budget_N: NDArray[np.int64],
    *,
    solver: str,
    seed: int | Sequence[int] = 0,
    time_limit: float = 10.0,
) -> Solution | None:
    """What a solver does with at most the allocation's blocks. One that honours no total gets the
    allocation's own numbers of blocks per client as budgets. None where no matrix has so few blocks."""
    held_N, M = allocation.blocks_held_N, allocation.num_blocks
    try:
        if solver == WITHOUT_TOTAL:
            problem = Problem(held_N, M)
        else:
            problem = Problem(np.maximum(budget_N, held_N), M, total=allocation.total_blocks)
    except InfeasibleError:
        return None
    return solve(problem, solver, seed=seed, objective="lambda", time_limit=time_limit)
