"""Shared random directions: (seed, block) -> v_m, the same numbers for every client, on every device.

Every block has a stream of its own, so any subset of blocks can be drawn, in any order, without drawing the others.
Numbers are drawn on the CPU in float32 and converted, so a float64 run perturbs along the directions of a float32 run.

Shapes: M blocks, D_m parameters of block m, d = sum of D_m (embeddings and head are never perturbed).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch

from zorba_core.errors import InvalidInputError
from zorba_core.training.randomness import stream

DirectionKind = Literal["gaussian", "sphere", "rademacher", "unit-sphere"]
DIRECTION_KINDS: tuple[str, ...] = get_args(DirectionKind)


class Directions:
    """The perturbation directions of one model.

    Kinds, with their norm over all d parameters:

    - ``gaussian``: independent standard normals; the norm is sqrt(d) on average;
    - ``rademacher``: independent signs; the norm is sqrt(d) exactly;
    - ``sphere``: the Gaussian direction scaled to norm sqrt(d);
    - ``unit-sphere``: the Gaussian direction scaled to norm 1, as the paper prints.

    The two sphere kinds are scaled by the norm over **all** blocks, also for a client that perturbs only some of them:
    all clients and the server then hold one v_q, as the aggregation needs, and a client with k of d parameters active
    moves along the part of v_q that lies in its blocks, of norm about sqrt(k) (or sqrt(k/d)). The price is that a
    seed's first use draws every block once to learn that norm; it is remembered from then on.
    """

    def __init__(
        self,
        kind: DirectionKind,
        sizes_M: Sequence[int],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if kind not in DIRECTION_KINDS:
            raise InvalidInputError(f"unknown direction {kind!r}: choose one of {', '.join(DIRECTION_KINDS)}")
        self.kind = kind
        self.sizes_M = tuple(int(size) for size in sizes_M)
        self.dtype = dtype
        self.device = torch.device(device)
        self._scale_by_seed: dict[int, float] = {}

    def block(self, seed: int, block: int) -> torch.Tensor:
        """v_m for this seed and block: shape (D_m,), this model's dtype and device."""
        values = torch.from_numpy(self._raw(seed, block)).to(device=self.device, dtype=self.dtype)
        if self.kind in ("sphere", "unit-sphere"):
            values *= self._scale(seed)
        return values

    def _raw(self, seed: int, block: int) -> np.ndarray:
        size = self.sizes_M[block]
        if self.kind == "rademacher":
            random_bytes = stream("direction/rademacher", seed, block).bytes(-(-size // 8))
            bits = np.unpackbits(np.frombuffer(random_bytes, dtype=np.uint8), count=size)
            return bits.astype(np.float32) * 2 - 1
        return stream("direction/gaussian", seed, block).standard_normal(size, dtype=np.float32)

    def _scale(self, seed: int) -> float:
        if seed not in self._scale_by_seed:
            # One block at a time, in float64: no more memory than one block, and no dependence on their order.
            squares = [float(np.square(self._raw(seed, m), dtype=np.float64).sum()) for m in range(len(self.sizes_M))]
            norm = math.sqrt(math.fsum(squares))
            wanted = 1.0 if self.kind == "unit-sphere" else math.sqrt(sum(self.sizes_M))
            self._scale_by_seed[seed] = wanted / norm
        return self._scale_by_seed[seed]
