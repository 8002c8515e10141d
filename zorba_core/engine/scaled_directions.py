"""Directions whose numbers are scaled, weight by weight: the same scale for every client, from what all of them know.

A scale is a vector for each block. It may be fixed, a mask for instance, or learned from the steps that the weights
make: :meth:`ScaledDirections.learn` sees each block's step after it was made. A replica that applies the same steps
learns the same scale, to the same bits, whether it takes part, joins late or replays a log.

Shapes: M blocks, D_m parameters of block m.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from zorba_core.engine.directions import Directions

Learn = Callable[[Tensor, Tensor], None]  # moves a block's scale, in place, by the block's step


class ScaledDirections(Directions):
    """``plain``'s directions times ``scale_M``.

    Args:
        scale_M: (D_m,) for each block, of the directions' dtype and device; taken over.
        learn: called with a block's scale and its step (before the learning rate), once a round.
    """

    def __init__(self, plain: Directions, scale_M: list[Tensor], name: str, learn: Learn | None = None) -> None:
        self.__dict__.update(plain.__dict__)
        self.scale_M, self._name, self._learn = scale_M, name, learn

    @property
    def identity(self) -> str:
        return f"{self._name} {super().identity}"

    def drawn(self, seed: int, block: int) -> Iterator[tuple[int, int, Tensor]]:
        for start, stop, values in super().drawn(seed, block):
            yield start, stop, values.mul_(self.scale_M[block][start:stop])

    def _looked_up(self, seeds_K: Sequence[int], block: int) -> Iterator[tuple[int, int, Tensor]]:
        for start, stop, values_KS in super()._looked_up(seeds_K, block):
            yield start, stop, values_KS.mul_(self.scale_M[block][start:stop])

    def add_to(self, weights: Tensor, seed: int, block: int, scale: float) -> None:
        for start, stop, values in self.drawn(seed, block):
            weights[start:stop].add_(values.mul_(scale))

    @property
    def learned_M(self) -> list[Tensor]:
        return self.scale_M if self._learn is not None else []

    @torch.no_grad()
    def learn(self, block: int, step: Tensor) -> None:
        if self._learn is not None:
            self._learn(self.scale_M[block], step)
