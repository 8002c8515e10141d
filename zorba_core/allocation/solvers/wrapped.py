"""Allocations that wrap around groups of blocks, stored as two numbers per client and group instead of a matrix.

In a group of g blocks, client n takes its next ``held_N[n]`` blocks modulo g, starting where the client before it
stopped. With a million clients popularity, Lambda and block counts take milliseconds; the matrix comes on demand.

Shapes: M blocks, N clients. ``held_N``, ``start_N`` int64; ``A_MN`` bool.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.measures import Allocation


@dataclass(frozen=True, eq=False)
class WrappedGroup:
    """Blocks ``first_block .. first_block + num_blocks - 1``; client n takes ``held_N[n]`` in a row, cyclically.

    Popularities are ``low`` or ``low + 1``; the blocks ``< num_high`` of the group have the larger one.
    """

    first_block: int
    num_blocks: int
    held_N: NDArray[np.int64]

    @cached_property
    def start_N(self) -> NDArray[np.int64]:
        return (np.cumsum(self.held_N) - self.held_N) % self.num_blocks

    @cached_property
    def levels(self) -> tuple[int, int]:
        """(low, num_high): total = low * num_blocks + num_high."""
        return divmod(int(self.held_N.sum()), self.num_blocks)

    @property
    def popularity(self) -> NDArray[np.int64]:
        low, num_high = self.levels
        return low + (np.arange(self.num_blocks) < num_high)

    @cached_property
    def high_held_N(self) -> NDArray[np.int64]:
        """How many of each client's blocks have the larger popularity."""
        if self.levels[1] == 0:
            return np.zeros_like(self.held_N)
        return high_blocks_held(self.start_N, self.held_N, self.levels[1], self.num_blocks)


def high_blocks_held(
    start: NDArray[np.int64], held: NDArray[np.int64], num_high: int | NDArray[np.int64], num_blocks: int
) -> NDArray[np.int64]:
    """Overlap of the cyclic run [start, start + held) with [0, num_high), all modulo ``num_blocks``; broadcasts."""
    end = start + held
    straight = np.maximum(np.minimum(end, num_high) - start, 0)
    return straight + np.clip(end - num_blocks, 0, num_high)


@dataclass(frozen=True, eq=False)
class WrappedAllocation(Allocation):
    """A matrix made of wrapped groups that together cover blocks 0..M-1, once each."""

    groups: tuple[WrappedGroup, ...]

    @property
    def num_blocks(self) -> int:
        return sum(group.num_blocks for group in self.groups)

    @cached_property
    def popularity_M(self) -> NDArray[np.int64]:
        return np.concatenate([group.popularity for group in self.groups])

    @cached_property
    def blocks_held_N(self) -> NDArray[np.int64]:
        return np.sum([group.held_N for group in self.groups], axis=0)

    @cached_property
    def least_popularity_N(self) -> NDArray[np.int64]:
        infinite = np.iinfo(np.int64).max
        least_N = np.full(len(self.groups[0].held_N), infinite)
        for group in self.groups:
            here_N = group.levels[0] + (group.high_held_N == group.held_N)
            least_N = np.minimum(least_N, np.where(group.held_N > 0, here_N, infinite))
        return np.where(least_N == infinite, 0, least_N)

    @cached_property
    def influence_N(self) -> NDArray[np.float64]:
        total_N = np.zeros(len(self.groups[0].held_N))
        for group in self.groups:
            low, num_high = group.levels
            if low:
                total_N += (group.held_N - group.high_held_N) / low
            if num_high:
                total_N += group.high_held_N / (low + 1)
        return total_N / self.num_blocks

    @cached_property
    def A_MN(self) -> NDArray[np.bool_]:
        """The dense matrix, built on first use: M * N bytes."""
        rows = []
        for group in self.groups:
            block_G = np.arange(group.num_blocks)[:, None]
            rows.append((block_G - group.start_N) % group.num_blocks < group.held_N)
        A_MN = np.concatenate(rows)
        A_MN.setflags(write=False)
        return A_MN
