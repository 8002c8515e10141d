"""Shared random directions: (seed, block) -> v_m, the same numbers for every client, on every device.

Each number is a function of its seed, block and place in the block (:mod:`zorba_core.engine.noise`), so any part can
be drawn, in any order, without the rest. Numbers are drawn in float32 on the device that needs them and converted, so
a float64 run perturbs along the directions of a float32 run.

Shapes: M blocks, D_m parameters of block m, d = sum of D_m (embeddings and head are never perturbed).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zorba_core.engine import noise
from zorba_core.engine.direction_kinds import DIRECTIONS
from zorba_core.registry import imported

if TYPE_CHECKING:
    from zorba_core.engine.network import BlockNetwork
    from zorba_core.engine.settings import TrainSettings
# Elements drawn at a time: what stays in a core's cache; elsewhere fewer, larger kernels (2**21 squares fit 64 bits).
_PIECE_CPU, _PIECE_ELSEWHERE = 2**17, 2**21


class Directions:
    """The perturbation directions of one model, of a kind of :mod:`zorba_core.engine.direction_kinds`.

    A kind with a norm is scaled by the norm over **all** blocks, also for a client that perturbs only some of them:
    all clients and the server then hold one v_q, as the aggregation needs, and a client with k of d parameters active
    moves along the part of v_q that lies in its blocks, of norm about sqrt(k/d) of the whole. The price is that a
    seed's first use draws every block once to learn that norm; it is remembered from then on.

    Raises:
        InvalidInputError: no such kind.
    """

    def __init__(
        self,
        kind: str,
        sizes_M: Sequence[int],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.kind = DIRECTIONS.get_part(kind)
        self._draw = imported(self.kind.draw)
        self.sizes_M = tuple(int(size) for size in sizes_M)
        self.dtype = dtype
        self.device = torch.device(device)
        self._scale_by_seed: dict[int, float] = {}

    def block(self, seed: int, block: int) -> Tensor:
        """v_m for this seed and block: shape (D_m,), this model's dtype and device."""
        values = torch.empty(self.sizes_M[block], dtype=self.dtype, device=self.device)
        for start, stop in self.pieces(block):
            values[start:stop] = self.part(seed, block, start, stop)
        return values

    def add_to(self, weights: Tensor, seed: int, block: int, scale: float) -> None:
        """weights += scale * v_m, in place, bit for bit as with :meth:`block` but without holding all of v_m."""
        for start, stop in self.pieces(block):
            values = self.part(seed, block, start, stop)
            if self.kind.signs:  # the product with a sign is exact, so fusing changes no bit
                weights[start:stop].add_(values, alpha=scale)
            else:  # multiplied, then added: some devices would round a fused multiply-add once, others twice
                weights[start:stop].add_(values.mul_(scale))

    def pieces(self, block: int) -> Iterator[tuple[int, int]]:
        """The block's elements, start to stop - 1, as many at a time as suit the device."""
        size = self.sizes_M[block]
        step = _PIECE_CPU if self.device.type == "cpu" else _PIECE_ELSEWHERE
        return ((start, min(start + step, size)) for start in range(0, size, step))

    def part(self, seed: int, block: int, start: int, stop: int) -> Tensor:
        """Elements start..stop-1 of v_m, as :meth:`block` has them."""
        values = self._draw(seed, block, start, stop, self.device).to(self.dtype)
        return values if self.kind.norm is None else values.mul_(self._scale(seed))

    def _scale(self, seed: int) -> float:
        if seed not in self._scale_by_seed:
            # In whole numbers, so that no order of summation on any device changes the result.
            squares = 0
            for m in range(len(self.sizes_M)):
                for start, stop in self.pieces(m):
                    steps = (self._draw(seed, m, start, stop, self.device) / noise.NORMAL_STEP).long()
                    squares += int(steps.square_().sum())
            norm = math.sqrt(squares) * noise.NORMAL_STEP
            self._scale_by_seed[seed] = self.kind.norm(sum(self.sizes_M)) / norm
        return self._scale_by_seed[seed]


def directions_of(network: BlockNetwork, settings: TrainSettings) -> Directions:
    """The shared directions of a run, for its network."""
    return Directions(settings.direction, network.sizes_M, dtype=network.dtype, device=network.device)
