"""Blocks whose weights are kept in 16 bits and computed with in 32: the copies in 32 bits, a block at a time.

A finite difference needs w + mu v to more digits than bfloat16 has: with 8 bits of mantissa, mu v of a thousandth is
not added to most weights at all. So a block that is run is copied to float32, moved there, and the copy is dropped;
the kept bits are never written to, so there is nothing to undo. One pass over a cohort visits a block with many pieces
of rows before the next block: one copy, of the block in use, serves them all, and one buffer is enough.

Shapes: D_m parameters of block m.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

_BUFFERS = 2  # kept for the next copies: the block that is moved, and another one that is run beside it


class WideCopies:
    """The float32 copies of blocks whose kept vectors are ``kept_M``, (D_m,) each, of 16 bits."""

    def __init__(self, blocks: Sequence[nn.Module], kept_M: Sequence[Tensor]) -> None:
        self._parameters_M = [list(block.parameters()) for block in blocks]
        self._kept_M = kept_M
        self._in_use: set[int] = set()  # blocks whose parameters are parts of a copy now
        self._latest: tuple[int, int, Tensor] | None = None  # block, version of its kept vector, and its copy's buffer
        self._buffers: list[Tensor] = []

    @contextlib.contextmanager
    def running(self, block: int) -> Iterator[None]:
        """Within the context the block's parameters are float32. The copy is made anew when the kept bits changed."""
        if block in self._in_use:
            yield
            return
        buffer = self._taken(block)
        try:
            with self._pointed(block, buffer):
                yield
        finally:
            self._give_latest_back()
            self._latest = (block, self._kept_M[block]._version, buffer)

    @contextlib.contextmanager
    def moving(self, blocks: Iterable[int]) -> Iterator[dict[int, Tensor]]:
        """Within the context those blocks compute with the vectors given, float32 copies that may be written to."""
        blocks = [block for block in blocks if block not in self._in_use]
        buffers = [self._taken(block) for block in blocks]
        try:
            with contextlib.ExitStack() as stack:
                for block, buffer in zip(blocks, buffers, strict=True):
                    stack.enter_context(self._pointed(block, buffer))
                yield {m: buffer[: len(self._kept_M[m])] for m, buffer in zip(blocks, buffers, strict=True)}
        finally:
            self._give_back(*buffers)

    def _taken(self, block: int) -> Tensor:
        """A buffer that begins with the block's weights, nobody else's from now on."""
        kept = self._kept_M[block]
        if self._latest is not None:
            latest, version, buffer = self._latest
            self._latest = None
            if (latest, version) == (block, kept._version):
                return buffer
            self._buffers.append(buffer)
        size = max(map(len, self._kept_M))
        buffer = self._buffers.pop() if self._buffers else torch.empty(size, dtype=torch.float32, device=kept.device)
        buffer[: len(kept)].copy_(kept)
        return buffer

    def _give_latest_back(self) -> None:
        if self._latest is not None:
            self._give_back(self._latest[2])
            self._latest = None

    def _give_back(self, *buffers: Tensor) -> None:
        self._buffers = [*self._buffers, *buffers][:_BUFFERS]

    @contextlib.contextmanager
    def _pointed(self, block: int, vector: Tensor) -> Iterator[None]:
        """Within the context the block's parameters are parts of ``vector``; afterwards of the kept one again."""
        self._in_use.add(block)
        try:
            point(self._parameters_M[block], vector)
            yield
        finally:
            point(self._parameters_M[block], self._kept_M[block])
            self._in_use.discard(block)


def point(parameters: Sequence[nn.Parameter], vector_D: Tensor) -> None:
    """Let each parameter be a view of its part of the vector."""
    start = 0
    for parameter in parameters:
        parameter.data = vector_D[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
