"""The precision in which forward passes multiply matrices. Weights, what is added to them, hidden states between
blocks, norms and the label head keep the run's dtype whatever is chosen; evaluation always multiplies in it too.

- ``highest``: products in the run's dtype.
- ``bf16``: factors rounded to bfloat16 (8 bits of mantissa), sums in float32, within each block (autocast). Three times
  as fast as float32 where a processor has AMX and blocks are as wide as OPT-125M's. rho, a difference of two losses
  over mu, is then off by roughly 2e-4 / mu of itself: preflight measures by how much.
- ``tf32``: factors rounded to 11 bits; CUDA devices have it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch

from zorba_core.errors import InvalidInputError

_AMPERE = (8, 0)


def check_capability(precision: str, capability: tuple[int, int]) -> None:
    """Refuse a precision that a GPU of this compute capability can only imitate.

    Raises:
        InvalidInputError: it is older than Ampere.
    """
    if capability < _AMPERE:
        raise InvalidInputError(
            f"precision is {precision!r} and the GPU is of compute capability {capability[0]}.{capability[1]}; "
            f"it takes {_AMPERE[0]}.{_AMPERE[1]}, so use highest"
        )


def products_in(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """Within the context, matrix products of ``device`` in that precision."""
    if precision == "bf16":
        # The cache keeps weights alone that ask for gradients, and these are views that move: nothing to keep.
        return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)
    return _tf32() if precision == "tf32" else contextlib.nullcontext()


@contextlib.contextmanager
def _tf32() -> Iterator[None]:
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        yield
    finally:
        matmul.fp32_precision = before
