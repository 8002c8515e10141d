"""Shared random directions: (seed, block) -> v_m, the same numbers for every client, on every device.

Each number is a function of its seed, block and place in the block (:mod:`zorba_core.engine.noise`), so any part can
be drawn, in any order, without the rest. Numbers are drawn in float32 on the device that needs them and converted, so
a float64 run perturbs along the directions of a float32 run. No direction is held whole where a piece is enough.

Shapes: M blocks, D_m parameters of block m, d = sum of D_m (embeddings and head are never perturbed), Q or K seeds, C
clients, S elements of a piece.
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
from zorba_core.engine.low_rank import Factors, Shape, factors_of, parts_of, with_exact_sums
from zorba_core.engine.parts import DIRECTIONS
from zorba_core.registry import imported

if TYPE_CHECKING:
    from zorba_core.engine.blocks import Blocks
    from zorba_core.engine.settings import Settings
# Elements drawn at a time: what stays in a core's cache; elsewhere fewer, larger kernels (2**21 squares fit 64 bits).
PIECE_CPU, PIECE_ELSEWHERE = 2**17, 2**21
AT_ONCE, LOW_RANK_AT_ONCE = 16, 128  # directions of one product


class Directions:
    """The perturbation directions of one model, of a kind of :mod:`zorba_core.engine.parts`.

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
        self._parts_M = tuple(map(parts_of, shapes))
        self.dtype, self.device = dtype, torch.device(device)
        self._scale_by_seed: dict[int, float] = {}

    def block(self, seed: int, block: int) -> Tensor:
        """v_m for this seed and block: shape (D_m,), this model's dtype and device."""
        values = torch.empty(self.sizes_M[block], dtype=self.dtype, device=self.device)
        for start, stop, piece in self._drawn(seed, block):
            values[start:stop] = piece
        return values

    def add_to(self, weights: Tensor, seed: int, block: int, scale: float) -> None:
        """weights += scale * v_m, in place, bit for bit as with :meth:`block` but without holding all of v_m."""
        if self.kind.low_rank:
            for part, u_1m, z_1n in self.factors([seed], block):
                part.of(weights).addr_(u_1m[0], z_1n[0], alpha=scale)
        elif not self._added_by_kernel(weights, seed, block, scale):
            for start, stop, values in self._drawn(seed, block):
                if self.kind.signs:  # the product is exact: fusing changes no bit
                    weights[start:stop].add_(values, alpha=scale)
                else:  # multiplied, then added: some devices would round a fused multiply-add once, others twice
                    weights[start:stop].add_(values.mul_(scale))

    def step(self, rho_Q: np.ndarray, seeds_Q: Sequence[int], block: int) -> Tensor:
        """sum_q rho[q] v_q,m, (D_m,), of this model's dtype and device: the same bits wherever it is computed."""
        total = torch.zeros(self.sizes_M[block], dtype=self.dtype, device=self.device)
        used_Q = np.flatnonzero(rho_Q)
        if self.kind.low_rank:
            rounded_Q = torch.from_numpy(with_exact_sums(np.asarray(rho_Q, float), self.dtype)).to(total)
            for chosen_K in (used_Q[at : at + LOW_RANK_AT_ONCE] for at in range(0, len(used_Q), LOW_RANK_AT_ONCE)):
                rho_K1 = rounded_Q[torch.from_numpy(chosen_K).to(self.device), None]
                for part, u_Km, z_Kn in self.factors([int(seeds_Q[q]) for q in chosen_K], block):
                    part.of(total).addmm_((u_Km * rho_K1).t(), z_Kn)
            return total
        for q in used_Q:
            seed, rho = int(seeds_Q[q]), float(rho_Q[q])
            if not (self.kind.signs and self._added_by_kernel(total, seed, block, rho)):  # its product is exact
                for start, stop, values in self._drawn(seed, block):
                    total[start:stop].add_(values, alpha=rho)
        return total

    def scalars(self, gradient_CD: Tensor, seeds_Q: Sequence[int], block: int) -> Tensor:
        """<g_c, v_q,m> of C gradients of a block and all directions: (C, Q), float64."""
        total_CQ = gradient_CD.new_zeros(len(gradient_CD), len(seeds_Q), dtype=torch.float64)
        for at in range(0, len(seeds_Q), AT_ONCE):
            seeds_K = [int(seed) for seed in seeds_Q[at : at + AT_ONCE]]
            total_CK = total_CQ[:, at : at + len(seeds_K)]
            if self.kind.low_rank:
                for part, u_Km, z_Kn in self.factors(seeds_K, block):
                    total_CK += ((u_Km @ part.of(gradient_CD)) * z_Kn).sum(dim=2)
            else:
                for pieces_K in zip(*(self._drawn(seed, block) for seed in seeds_K), strict=True):
                    start, stop, _ = pieces_K[0]  # all in the same pieces
                    total_CK += gradient_CD[:, start:stop] @ torch.stack([values for _, _, values in pieces_K]).t()
        return total_CQ

    def factors(self, seeds_Q: Sequence[int], block: int) -> list[Factors]:
        """Of a low-rank kind: u_q and z_q of each parameter of the block."""
        parts = self._parts_M[block]
        count = parts[-1].drawn + parts[-1].numbers if parts else 0
        signs_Q = [self._draw(int(seed), block, 0, count, self.device) for seed in seeds_Q]
        signs_QS = torch.stack(signs_Q).to(self.dtype)
        return [factors_of(part, signs_QS) for part in parts]

    def _drawn(self, seed: int, block: int) -> Iterator[tuple[int, int, Tensor]]:
        """v_m piece by piece: where each stands in the block's vector, and its numbers, which are the caller's."""
        if self.kind.low_rank:
            for part, u_1m, z_1n in self.factors([seed], block):
                yield part.start, part.stop, torch.outer(u_1m[0], z_1n[0]).view(-1)
            return
        for start, stop, values in self._as_drawn(seed, block):
            values = values.to(self.dtype)
            yield start, stop, values if self.kind.norm is None else values.mul_(self._scale(seed))

    def _as_drawn(self, seed: int, block: int) -> Iterator[tuple[int, int, Tensor]]:
        size, step = self.sizes_M[block], PIECE_CPU if self.device.type == "cpu" else PIECE_ELSEWHERE
        for start in range(0, size, step):
            stop = min(start + step, size)
            yield start, stop, self._draw(seed, block, start, stop, self.device)

    def _added_by_kernel(self, weights: Tensor, seed: int, block: int, scale: float) -> bool:
        """Add it by one kernel, if there is one: a product and a sum that are rounded one after the other."""
        kernel = noise.triton_on(str(weights.device))
        kind = {noise.normals: "normals", noise.signs: "signs"}.get(self._draw)
        plain = self.kind.norm is None and not self.kind.low_rank
        if kernel is None or kind is None or weights.dtype != torch.float32 or not plain:
            return False
        kernel.add_to(kind, weights, scale, seed, block, 0, self.sizes_M[block])
        return True

    def _scale(self, seed: int) -> float:
        if seed not in self._scale_by_seed:
            # In whole numbers, so that no order of summation on any device changes the result.
            squares = 0
            for m in range(len(self.sizes_M)):
                for _, _, values in self._as_drawn(seed, m):
                    squares += int((values / noise.NORMAL_STEP).long().square_().sum())
            norm = math.sqrt(squares) * noise.NORMAL_STEP
            self._scale_by_seed[seed] = self.kind.norm(sum(self.sizes_M)) / norm
        return self._scale_by_seed[seed]


def directions_of(network: Blocks, settings: Settings) -> Directions:
    """The shared directions of a run, for its network."""
    return Directions(settings.direction, network.shapes_M, dtype=network.dtype, device=network.device)
