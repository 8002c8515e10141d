"""Shared random directions: (seed, block) -> v_m, the same numbers for every client, on every device.

Each number is a function of its seed, block and place in the block (:mod:`zorba_core.engine.noise`), so any part can
be drawn, in any order, without the rest. Numbers are drawn in float32 on the device that needs them and converted, so
a float64 run perturbs along the directions of a float32 run.

Shapes: M blocks, D_m parameters of block m, d = sum of D_m (embeddings and head are never perturbed), r rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zorba_core.engine import noise
from zorba_core.engine.direction_kinds import DIRECTIONS
from zorba_core.engine.low_rank import DrawnPart, Factors, Shape, parts_of
from zorba_core.registry import imported

if TYPE_CHECKING:
    from zorba_core.engine.blocks import Blocks
    from zorba_core.engine.settings import Settings
# Elements drawn at a time: what stays in a core's cache; elsewhere fewer, larger kernels (2**21 squares fit 64 bits).
PIECE_CPU, PIECE_ELSEWHERE = 2**17, 2**21
# Directions side by side: of those that are looked up, in small pieces, and of others.
MOST_TOGETHER, DIRECTIONS_AT_ONCE = 128, 16
# Numbers of such directions that are looked up at a time on the CPU: a product of fewer costs more than it holds.
PIECE_TOGETHER = 3 * 2**18
Pieces = Iterator[tuple[int, int, Tensor]]  # of elements from the first to the last of a block


class Directions:
    """The perturbation directions of one model, of a kind of :mod:`zorba_core.engine.direction_kinds`.

    A kind with a norm is scaled by the norm over **all** blocks, also for a client that perturbs only some of them:
    all clients and the server then hold one v_q, as the aggregation needs, and a client with k of d parameters active
    moves along the part of v_q that lies in its blocks, of norm about sqrt(k/d) of the whole. The price is that a
    seed's first use draws every block once to learn that norm; it is remembered from then on.

    Args:
        shapes_M: for each block the shapes of its parameters, in the order in which they stand in its vector, or the
            number of its parameters where none of them is to be taken for a matrix.
        rank: of the products that a low-rank kind makes of its numbers; r.

    Raises:
        InvalidInputError: no such kind.
    """

    def __init__(
        self,
        kind: str,
        shapes_M: Sequence[int | Sequence[Shape]],
        *,
        rank: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.kind = DIRECTIONS.get_part(kind)
        self._draw = imported(self.kind.draw)
        shapes = [((int(block),),) if isinstance(block, Integral) else tuple(block) for block in shapes_M]
        self.sizes_M = tuple(sum(map(math.prod, block)) for block in shapes)
        self.rank = rank
        self._parts_M = tuple(parts_of(block, rank) for block in shapes) if self.kind.low_rank else ()
        self.dtype = dtype
        self.device = torch.device(device)
        self._step = PIECE_CPU if self.device.type == "cpu" else PIECE_ELSEWHERE
        self._scale_by_seed: dict[int, float] = {}

    def block(self, seed: int, block: int) -> Tensor:
        """v_m for this seed and block: shape (D_m,), this model's dtype and device."""
        values = torch.empty(self.sizes_M[block], dtype=self.dtype, device=self.device)
        for start, stop, piece in self.drawn(seed, block):
            values[start:stop] = piece
        return values

    def add_to(self, weights: Tensor, seed: int, block: int, scale: float) -> None:
        """weights += scale * v_m, in place, bit for bit as with :meth:`block` but without holding all of v_m."""
        if self._added_by_kernel(weights, seed, block, scale):
            return
        for start, stop, values in self.drawn(seed, block):
            if self.kind.signs:  # the product is exact: fusing changes no bit
                weights[start:stop].add_(values, alpha=scale)
            else:  # multiplied, then added: some devices would round a fused multiply-add once, others twice
                weights[start:stop].add_(values.mul_(scale))

    def _added_by_kernel(self, weights: Tensor, seed: int, block: int, scale: float) -> bool:
        """Add it by one kernel, if there is one: a product and a sum that are rounded one after the other."""
        kernel = noise.triton_on(str(weights.device))
        kind = {noise.normals: "normals", noise.signs: "signs"}.get(self._draw)
        plain = self.kind.norm is None and not self.kind.low_rank
        if kernel is None or kind is None or weights.dtype != torch.float32 or not plain:
            return False
        kernel.add_to(kind, weights, scale, seed, block, 0, self.sizes_M[block])
        return True

    def sum_into(self, step: Tensor, seed: int, block: int, weight: float) -> None:
        """step += weight * v_m, in place, as a term of a sum over directions, without holding all of v_m."""
        if self.kind.signs and self._added_by_kernel(step, seed, block, weight):  # the product with a sign is exact
            return
        for start, stop, values in self.drawn(seed, block):
            step[start:stop].add_(values, alpha=weight)

    def _factors(self, seed: int, block: int, part: DrawnPart) -> Factors | Tensor:
        numbers = self._draw(seed, block, part.drawn, part.drawn + part.numbers(self.rank), self.device)
        numbers = numbers.to(self.dtype)
        if part.matrix is None:
            return numbers
        rows, columns = part.matrix
        u_mr, z_nr = numbers.split([rows * self.rank, columns * self.rank])
        if self.rank > 1:
            u_mr = u_mr.div(u_mr.new_tensor(math.sqrt(self.rank)))  # by a number, a GPU multiplies with its inverse
        return Factors(u_mr.view(rows, self.rank), z_nr.view(columns, self.rank))

    def drawn(self, seed: int, block: int) -> Iterator[tuple[int, int, Tensor]]:
        """v_m piece by piece: where each stands in the block's vector, and its numbers, which are the caller's."""
        if not self.kind.low_rank:
            for start, stop in self._pieces(block):
                yield start, stop, self._piece(seed, block, start, stop)
            return
        for part in self._parts_M[block]:
            drawn = self._factors(seed, block, part)
            if isinstance(drawn, Tensor):
                yield part.start, part.stop, drawn
            else:
                for first, last, values in drawn.pieces(self._step):
                    yield part.start + first, part.start + last, values

    @property
    def together(self) -> int:
        """How many seeds go side by side: where pieces of them cannot be made small, few."""
        return MOST_TOGETHER if self.can_look_up else DIRECTIONS_AT_ONCE

    @property
    def can_look_up(self) -> bool:
        """Are random bits drawn first, and numbers looked up by them piece by piece?"""
        plain = self._draw in (noise.signs, noise.normals) and not self.kind.low_rank
        return plain and self.dtype == torch.float32 and self.device.type == "cpu"

    def side_by_side(self, seeds_K: Sequence[int], block: int) -> Pieces:
        """v_m of several seeds piece by piece, (K, S), a row each: there until the next piece."""
        if self.can_look_up:
            yield from self._looked_up(seeds_K, block)
            return
        for pieces_K in zip(*(self.drawn(seed, block) for seed in seeds_K), strict=True):  # all in the same pieces
            start, stop, _ = pieces_K[0]
            yield start, stop, torch.stack([piece for _, _, piece in pieces_K])

    def _looked_up(self, seeds_K: Sequence[int], block: int) -> Pieces:
        """In pieces that a core's cache keeps."""
        count, size = len(seeds_K), self.sizes_M[block]
        step = max(8, PIECE_TOGETHER // count // 8 * 8)
        buffer = torch.empty(count * min(step, -(-size // 8) * 8))
        scale_K = None if self.kind.norm is None else torch.tensor([self._scale(seed) for seed in seeds_K])
        whole = noise.SideBySide.elements(self._draw, count)
        for first in range(0, size, whole):
            last = min(first + whole, size)
            drawn = noise.SideBySide(self._draw, seeds_K, block, first, last)
            for start in range(first, last, step):
                v_KS = drawn.look_up(start, min(start + step, last), buffer)
                yield start, start + v_KS.shape[1], v_KS if scale_K is None else v_KS.mul_(scale_K[:, None])

    def _pieces(self, block: int) -> Iterator[tuple[int, int]]:
        size, step = self.sizes_M[block], self._step
        return ((start, min(start + step, size)) for start in range(0, size, step))

    def _piece(self, seed: int, block: int, start: int, stop: int) -> Tensor:
        values = self._draw(seed, block, start, stop, self.device).to(self.dtype)
        return values if self.kind.norm is None else values.mul_(self._scale(seed))

    def _scale(self, seed: int) -> float:
        if seed not in self._scale_by_seed:
            # In whole numbers, so that no order of summation on any device changes the result.
            squares = 0
            for m in range(len(self.sizes_M)):
                for start, stop in self._pieces(m):
                    steps = (self._draw(seed, m, start, stop, self.device) / noise.NORMAL_STEP).long()
                    squares += int(steps.square_().sum())
            norm = math.sqrt(squares) * noise.NORMAL_STEP
            self._scale_by_seed[seed] = self.kind.norm(sum(self.sizes_M)) / norm
        return self._scale_by_seed[seed]


def directions_of(network: Blocks, settings: Settings) -> Directions:
    """The shared directions of a run, for its network."""
    return Directions(
        settings.direction,
        network.shapes_M,
        rank=settings.rank,
        dtype=network.dtype,
        device=network.device,
    )
