"""Shared random directions: (seed, block) -> v_m, the same numbers for every client, on every device.

Each number is a function of its seed, block and index in the block (:mod:`zorba_core.engine.noise`), so any part can
be drawn without the rest. Numbers are drawn in float32 on the device that needs them and then converted, so a float64
run has the directions of a float32 run. To save memory, most functions draw a direction piece by piece.

Shapes: M blocks, D_m parameters of block m, d = sum of D_m (embeddings and head are never perturbed), Q or K seeds, C
clients, S elements of a piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
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
# Elements drawn at a time: a piece fits in a core's cache; GPUs need fewer, larger kernels (2**21 squares fit 64 bits).
PIECE_CPU, PIECE_ELSEWHERE = 2**17, 2**21
AT_ONCE, LOW_RANK_AT_ONCE = 16, 128  # directions in one matrix product


class Directions:
    """The perturbation directions of one model, of one kind (:mod:`zorba_core.engine.parts`).

    A kind with a norm scales v_q by its norm over **all** blocks, even for a client that perturbs only some of them, so
    that all clients and the server have the same v_q. For a client with k of d parameters active, the norm of its part
    of v_q is about sqrt(k/d) of the whole. To compute the norm, the first use of a seed draws every block once; the
    norm is then cached.

    Args:
        shapes_M: for each block the shapes of its parameters, in their order in the block's vector; or a number of
            parameters, which then count as one vector.

    Raises:
        InvalidInputError: the kind is unknown.
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
        shapes = [tuple(block) if isinstance(block, Sequence) else ((int(block),),) for block in shapes_M]
        self.sizes_M = tuple(sum(map(math.prod, block)) for block in shapes)
        self._parts_M = tuple(map(parts_of, shapes))
        self.dtype, self.device = dtype, torch.device(device)
        self._scale_by_seed: dict[int, float] = {}

    def block(self, seed: int, block: int) -> Tensor:
        """v_m for this seed and block: shape (D_m,), the model's dtype and device."""
        values = torch.empty(self.sizes_M[block], dtype=self.dtype, device=self.device)
        for start, stop, piece in self._drawn(seed, block):
            values[start:stop] = piece
        return values

    def add_to(self, weights: Tensor, seed: int, block: int, scale: float) -> None:
        """weights += scale * v_m, in place, with the bits of :meth:`block` but without all of v_m in memory."""
        if self.kind.low_rank:
            for part, u_1m, z_1n in self.factors([seed], block):
                part.of(weights).addr_(u_1m[0], z_1n[0], alpha=scale)
        elif not self._added_by_kernel(weights, seed, block, scale):
            for start, stop, values in self._drawn(seed, block):
                if self.kind.signs:  # the product is exact, so a fused multiply-add gives the same bits
                    weights[start:stop].add_(values, alpha=scale)
                else:  # product, then sum: devices differ in whether they round a fused multiply-add once or twice
                    weights[start:stop].add_(values.mul_(scale))

    def step(self, rho_Q: np.ndarray, seeds_Q: Sequence[int] | np.ndarray, block: int) -> Tensor:
        """sum_q rho[q] v_q,m, (D_m,), of the model's dtype and device; the same bits on every device."""
        total = torch.zeros(self.sizes_M[block], dtype=self.dtype, device=self.device)
        used_Q = np.flatnonzero(rho_Q)
        if self.kind.low_rank:
            rounded_Q = torch.from_numpy(with_exact_sums(np.asarray(rho_Q, float), self.dtype)).to(total)
            for chosen_K in (used_Q[at : at + LOW_RANK_AT_ONCE] for at in range(0, len(used_Q), LOW_RANK_AT_ONCE)):
                rho_K1 = rounded_Q[torch.from_numpy(chosen_K).to(self.device), None]
                for part, u_Km, z_Kn in self.factors([int(seeds_Q[q]) for q in chosen_K.tolist()], block):
                    part.of(total).addmm_((u_Km * rho_K1).t(), z_Kn)
            return total
        for q in used_Q.tolist():
            seed, rho = int(seeds_Q[q]), float(rho_Q[q])
            if not (self.kind.signs and self._added_by_kernel(total, seed, block, rho)):  # signs: exact products
                for start, stop, values in self._drawn(seed, block):
                    total[start:stop].add_(values, alpha=rho)
        return total

    def scalars(self, gradient_CD: Tensor, seeds_Q: Sequence[int] | np.ndarray, block: int) -> Tensor:
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

    def factors(self, seeds_Q: Sequence[int] | np.ndarray, block: int) -> list[Factors]:
        """u_q and z_q of each parameter of the block, for a low-rank kind."""
        parts = self._parts_M[block]
        count = parts[-1].first_sign + parts[-1].numbers if parts else 0
        signs_Q = [self._draw(int(seed), block, 0, count, self.device) for seed in seeds_Q]
        signs_QS = torch.stack(signs_Q).to(self.dtype)
        return [factors_of(part, signs_QS) for part in parts]

    def _drawn(self, seed: int, block: int) -> Iterator[tuple[int, int, Tensor]]:
        """Yield v_m in pieces: start and stop in the block's vector, and new numbers, which the caller may change."""
        if self.kind.low_rank:
            for part, u_1m, z_1n in self.factors([seed], block):
                yield part.start, part.stop, torch.outer(u_1m[0], z_1n[0]).view(-1)
            return
        for start, stop, values in self._as_drawn(seed, block):
            values, norm = values.to(self.dtype), self.kind.norm
            yield start, stop, values if norm is None else values.mul_(self._scale(seed, norm))

    def _as_drawn(self, seed: int, block: int) -> Iterator[tuple[int, int, Tensor]]:
        size, step = self.sizes_M[block], PIECE_CPU if self.device.type == "cpu" else PIECE_ELSEWHERE
        for start in range(0, size, step):
            stop = min(start + step, size)
            yield start, stop, self._draw(seed, block, start, stop, self.device)

    def _added_by_kernel(self, weights: Tensor, seed: int, block: int, scale: float) -> bool:
        """Add scale * v_m by one Triton kernel, which rounds the product and then the sum; False if it cannot."""
        kernel = noise.triton_on(str(weights.device))
        kind = {noise.normals: "normals", noise.signs: "signs"}.get(self._draw)
        if kernel is None or kind is None or weights.dtype != torch.float32 or self.kind.norm is not None:
            return False
        kernel.add_to(kind, weights, scale, seed, block, 0, self.sizes_M[block])
        return True

    def _scale(self, seed: int, norm_of: Callable[[int], float]) -> float:
        if seed not in self._scale_by_seed:
            # A sum of integers, so the order of summation does not matter.
            squares = 0
            for m in range(len(self.sizes_M)):
                for _, _, values in self._as_drawn(seed, m):
                    squares += int((values / noise.NORMAL_STEP).long().square_().sum())
            norm = math.sqrt(squares) * noise.NORMAL_STEP
            self._scale_by_seed[seed] = norm_of(sum(self.sizes_M)) / norm
        return self._scale_by_seed[seed]


def directions_of(network: Blocks, settings: Settings) -> Directions:
    """The shared directions of a run."""
    return Directions(settings.direction, network.shapes_M, dtype=network.dtype, device=network.device)
