"""Shared random directions: (seed, block) -> v_m, the same numbers for every client, on every device.

Each number is a function of its seed, block and place in the block (:mod:`zorba_core.engine.noise`), so any part can
be drawn, in any order, without the rest. Numbers are drawn in float32 on the device that needs them and converted, so
a float64 run perturbs along the directions of a float32 run.

Shapes: M blocks, D_m parameters of block m, d = sum of D_m (embeddings and head are never perturbed), Q or K seeds, C
clients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine import noise
from zorba_core.engine.direction_kinds import DIRECTIONS
from zorba_core.engine.low_rank import Factors, Shape, factors_of, parts_of, with_exact_sums
from zorba_core.engine.products import put_product
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

    Raises:
        InvalidInputError: no such kind.
    """

    def __init__(
        self,
        kind: str,
        shapes_M: Sequence[int | Sequence[Shape]],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.kind = DIRECTIONS.get_part(kind)
        self._draw = imported(self.kind.draw)
        shapes = [((int(block),),) if isinstance(block, Integral) else tuple(block) for block in shapes_M]
        self.sizes_M = tuple(sum(map(math.prod, block)) for block in shapes)
        self._parts_M = tuple(map(parts_of, shapes)) if self.kind.low_rank else ()
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
        if self.kind.low_rank:
            for part, u_1m, z_1n in self._factors([seed], block):
                weights[part.start : part.stop].view(part.rows, part.columns).addr_(u_1m[0], z_1n[0], alpha=scale)
            return
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

    def step(self, rho_Q: np.ndarray, seeds_Q: Sequence[int], block: int) -> Tensor:
        """sum_q rho[q] v_q,m, (D_m,), of this model's dtype and device: the same bits wherever it is computed."""
        total = torch.zeros(self.sizes_M[block], dtype=self.dtype, device=self.device)
        used_Q = np.flatnonzero(rho_Q)
        if not self.kind.low_rank:
            for q in used_Q:
                self._sum_into(total, int(seeds_Q[q]), block, float(rho_Q[q]))
            return total
        rounded_Q = torch.from_numpy(with_exact_sums(np.asarray(rho_Q, float), self.dtype)).to(total)
        for at in range(0, len(used_Q), MOST_TOGETHER):
            chosen_K = used_Q[at : at + MOST_TOGETHER]
            rho_K1 = rounded_Q[torch.from_numpy(chosen_K).to(self.device), None]
            for part, u_Km, z_Kn in self._factors([int(seeds_Q[q]) for q in chosen_K], block):
                put_product(total[part.start : part.stop].view(part.rows, part.columns), u_Km * rho_K1, z_Kn)
        return total

    def _sum_into(self, total: Tensor, seed: int, block: int, weight: float) -> None:
        """total += weight * v_m, in place, without holding all of v_m."""
        if self.kind.signs and self._added_by_kernel(total, seed, block, weight):  # the product with a sign is exact
            return
        for start, stop, values in self.drawn(seed, block):
            total[start:stop].add_(values, alpha=weight)

    def scalars(self, gradient_CD: Tensor, seeds_Q: Sequence[int], block: int) -> Tensor:
        """<g_c, v_q,m> of C gradients of a block and all directions: (C, Q), float64."""
        total_CQ = gradient_CD.new_zeros(len(gradient_CD), len(seeds_Q), dtype=torch.float64)
        for at in range(0, len(seeds_Q), self.together):
            seeds_K = [int(seed) for seed in seeds_Q[at : at + self.together]]
            total_CK = total_CQ[:, at : at + len(seeds_K)]
            if self.kind.low_rank:
                for part, u_Km, z_Kn in self._factors(seeds_K, block):
                    g_Cmn = gradient_CD[:, part.start : part.stop].view(-1, part.rows, part.columns)
                    total_CK += ((u_Km @ g_Cmn) * z_Kn).sum(dim=2)
            else:
                for start, stop, v_KS in self.side_by_side(seeds_K, block):
                    total_CK += gradient_CD[:, start:stop] @ v_KS.t()
        return total_CQ

    def factors(self, seeds_Q: Sequence[int], block: int) -> dict[int, Factors]:
        """Of a low-rank kind: u_q and z_q of each parameter of the block, by where it starts in the block's vector."""
        return {factors.part.start: factors for factors in self._factors([int(seed) for seed in seeds_Q], block)}

    def _factors(self, seeds_Q: Sequence[int], block: int) -> list[Factors]:
        parts = self._parts_M[block]
        count = parts[-1].drawn + parts[-1].numbers if parts else 0
        signs_QS = noise.drawn_together(self._draw, seeds_Q, block, count, self.device).to(self.dtype)
        return [factors_of(part, signs_QS) for part in parts]

    def drawn(self, seed: int, block: int) -> Iterator[tuple[int, int, Tensor]]:
        """v_m piece by piece: where each stands in the block's vector, and its numbers, which are the caller's."""
        if self.kind.low_rank:
            for part, u_1m, z_1n in self._factors([seed], block):
                yield part.start, part.stop, torch.outer(u_1m[0], z_1n[0]).view(-1)
        else:
            for start, stop in self._pieces(block):
                yield start, stop, self._piece(seed, block, start, stop)

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
        dtype=network.dtype,
        device=network.device,
    )
