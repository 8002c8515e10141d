"""The precision of matrix products in forward passes. Weights, hidden states between blocks and norms always have the
run's dtype, and the label head is in float64. The evaluations in the log have the precision ``highest``.

- ``highest``: products in the run's dtype.
- ``bf16``: factors rounded to bfloat16 (8 bits of mantissa), sums in float32, within each block (autocast). This is
  three times as fast as float32 on a processor with AMX with blocks as wide as OPT-125M's. The relative error of rho, a
  difference of two losses over mu, is then about 2e-4 / mu; preflight measures it.
- ``tf32``: factors rounded to 11 bits, on CUDA devices.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from zorba_core.errors import InvalidInputError

_AMPERE = (8, 0)


def check_capability(precision: str, capability: tuple[int, int]) -> None:
    """Check that a GPU of this compute capability has the precision in hardware.

    Raises:
        InvalidInputError: the GPU is older than Ampere.
    """
    if capability < _AMPERE:
        raise InvalidInputError(
            f"precision is {precision!r} and the GPU has compute capability {capability[0]}.{capability[1]}; "
            f"it needs {_AMPERE[0]}.{_AMPERE[1]}, so use highest"
        )


def products_in(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Context manager: matrix products on ``device`` in this precision."""
    if precision == "bf16":
        # The cache is for weights that need gradients; these weights need none, and they change.
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
