"""Counter-based noise: a number depends on (seed, block, element) and on nothing else.

So the bits are the same for every client, device, number of threads, order of blocks and slice of a block. They come
from Philox4x64-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), which passes
BigCrush: key = (seed, block), counter = (1 + element // elements per counter, kind, 0, 0), four 64-bit words a counter,
least significant bits first. The CPU uses NumPy's compiled Philox, and CUDA devices a Triton kernel
(:mod:`zorba_core.engine.noise_triton`). For other devices the numbers are drawn on the CPU and copied.

Bits become numbers by a table look-up, without floating-point arithmetic, so a device's rounding has no effect:

- ``signs``: one bit an element, -1 or +1. The mean is 0, the variance 1, and the norm of d signs exactly sqrt(d).
- ``normals``: 16 bits an element choose one of 65,536 values: the means of the standard normal distribution in 65,536
  equally likely slices, scaled to variance 1 and rounded to multiples of 2**-20. This is a normal distribution in steps
  and without far tails:

      odd moments               exactly 0            eighth moment    104.66 (normal: 105)
      variance                  1 within 1e-7        largest value    4.388
      fourth moment             2.9998 (normal: 3)   error of the distribution function: below 1e-5
      sixth moment              14.991 (normal: 15)

Shapes: E elements of a slice of a block, W words.
"""

from __future__ import annotations

import functools
import importlib
import math
import threading
from statistics import NormalDist
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

SIGNS, NORMALS = 0, 1  # second word of the counter, so that the kinds share no bits
NORMAL_STEP = 2.0**-20  # every normal is a multiple of it, so integer sums of squares are exact
_WORDS, _COUNTER_BITS, _LEVEL_BITS = 4, 256, 16
_OF_THREAD = threading.local()


def signs(seed: int, block: int, start: int, stop: int, device: torch.device | str = "cpu") -> Tensor:
    """Elements start..stop-1 of the block's signs: float32, shape (stop - start,)."""
    if kernel := triton_on(str(device)):
        return kernel.draw("signs", seed, block, start, stop, device)
    first, last = start // 8, -(-stop // 8)  # bytes
    bytes_E8 = _bits(seed, block, SIGNS, first * 8, last * 8).view(np.uint8)
    skipped = first % (_COUNTER_BITS // 8)
    # A table of eight signs for each byte is three times as fast as shifts of single bits.
    values = _signs_of_byte().take(bytes_E8[skipped : skipped + last - first], axis=0).reshape(-1)
    return torch.from_numpy(values[start - first * 8 :][: stop - start]).to(device)


def normals(seed: int, block: int, start: int, stop: int, device: torch.device | str = "cpu") -> Tensor:
    """Elements start..stop-1 of the block's normals: float32, shape (stop - start,)."""
    if kernel := triton_on(str(device)):
        return kernel.draw("normals", seed, block, start, stop, device)
    levels_E = _bits(seed, block, NORMALS, start * _LEVEL_BITS, stop * _LEVEL_BITS).view(np.uint16)
    skipped = start % (_COUNTER_BITS // _LEVEL_BITS)
    return torch.from_numpy(normal_levels().take(levels_E[skipped : skipped + stop - start])).to(device)


@functools.cache
def triton_on(device: str) -> ModuleType | None:
    """:mod:`zorba_core.engine.noise_triton` on CUDA devices where Triton works and gives the CPU's bits, else None."""
    if not device.startswith("cuda"):
        return None
    try:
        kernel = importlib.import_module("zorba_core.engine.noise_triton")  # not at the top: it imports this module
    except ImportError:
        return None
    return kernel if kernel.works_on(device) else None


def _bits(seed: int, block: int, kind: int, first_bit: int, last_bit: int) -> np.ndarray:
    """The words of all counters with the bits first_bit..last_bit-1: uint64, shape (W,)."""
    first, last = first_bit // _COUNTER_BITS, -(-last_bit // _COUNTER_BITS)
    if not hasattr(_OF_THREAD, "philox"):
        # Reused, because a new generator reads a seed from the system, which takes as long as thousands of numbers.
        generator = np.random.Philox(key=0)
        _OF_THREAD.philox = generator, generator.state
    generator, state = _OF_THREAD.philox
    # NumPy increments the counter before it draws, so the first counter is 1.
    state["state"]["key"][:] = seed, block
    state["state"]["counter"][:] = first, kind, 0, 0
    generator.state = state
    return generator.random_raw((last - first) * _WORDS)


@functools.cache
def _signs_of_byte() -> np.ndarray:
    """float32, shape (256, 8): bit 0 of the byte first; a set bit is +1."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return bits.astype(np.float32) * 2 - 1


@functools.cache
def normal_levels() -> np.ndarray:
    """The values of ``normals``: float32, shape (65536,), ascending. Computed in double precision on the CPU, so that
    all devices have the same table."""
    half = 2 ** (_LEVEL_BITS - 1)
    standard = NormalDist()
    edges = [standard.inv_cdf(0.5 + i / (2 * half)) for i in range(half)]
    # Mean of the slice between two edges: (density at the lower - density at the upper) / probability.
    densities = np.array([math.exp(-edge * edge / 2) for edge in edges] + [0.0]) / math.sqrt(2 * math.pi)
    upper = (densities[:-1] - densities[1:]) * (2 * half)
    upper = np.round(upper / math.sqrt(float(np.square(upper).mean())) / NORMAL_STEP) * NORMAL_STEP
    return np.concatenate([-upper[::-1], upper]).astype(np.float32)
