"""Counter-based noise: the number at (seed, block, element) is a function of those three and of nothing else.

So every client, device, thread count, order of blocks and slice of a block sees the same bits. The bits are those of
Philox4x64-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), which passes
BigCrush: key = (seed, block), counter = (1 + element // elements per counter, kind, 0, 0), four 64-bit words a counter,
least significant bits first. NumPy's compiled Philox draws them on the CPU, and on a CUDA device a Triton kernel
(:mod:`zorba_core.engine.noise_triton`); for any other device they are drawn on the CPU and copied.

From bits to numbers there is a table look-up and no floating-point arithmetic, so nothing depends on how a device
rounds a logarithm:

- ``signs``: one bit an element, -1 or +1. Mean 0, variance 1, and a vector of d of them has norm sqrt(d) exactly.
- ``normals``: 16 bits an element pick one of 65,536 values, the mean of the standard normal distribution within each
  of as many equally likely slices, scaled to variance 1 and rounded to a multiple of 2**-20. A normal distribution in
  steps and without its far tails: odd moments 0 exactly, variance 1 (within 1e-7), fourth moment 2.9998 (3), sixth
  14.991 (15), eighth 104.66 (105), largest value 4.388; the distribution function is within 1e-5 of the normal one.

Shapes: E elements of a slice of a block, W words.
"""

from __future__ import annotations

import functools
import importlib
import math
import threading
from statistics import NormalDist
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

SIGNS, NORMALS = 0, 1  # second word of the counter: the kinds share no bits
NORMAL_STEP = 2.0**-20  # every normal is a whole number of these: sums of squares can be exact, in any order
_WORDS, _COUNTER_BITS, _LEVEL_BITS = 4, 256, 16
_KERNEL = "zorba_core.engine.noise_triton"
_OF_THREAD = threading.local()


def signs(seed: int, block: int, start: int, stop: int, device: torch.device | str = "cpu") -> Tensor:
    """Elements start..stop-1 of the block's signs: float32, shape (stop - start,)."""
    if kernel := triton_on(str(device)):
        return kernel.draw("signs", seed, block, start, stop, device)
    first, last = start // 8, -(-stop // 8)  # bytes
    bytes_E8 = _bits(seed, block, SIGNS, first * 8, last * 8).view(np.uint8)
    skipped = first % (_COUNTER_BITS // 8)
    # A row of eight signs for each byte: three times as fast as shifting out one bit after another.
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
    """:mod:`zorba_core.engine.noise_triton` where it can be used: on a CUDA device, with Triton, and if it gives the
    CPU's bits there."""
    if not device.startswith("cuda"):
        return None
    try:
        kernel = importlib.import_module(_KERNEL)  # it imports this module
    except ImportError:
        return None
    return kernel if kernel.works_on(device) else None


def as_int64(unsigned: int) -> int:
    """The signed number with the same low 64 bits."""
    unsigned &= 2**64 - 1
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned


def _bits(seed: int, block: int, kind: int, first_bit: int, last_bit: int) -> np.ndarray:
    """Words of all counters that hold bits first_bit..last_bit-1: uint64, shape (W,)."""
    first, last = first_bit // _COUNTER_BITS, -(-last_bit // _COUNTER_BITS)
    generator, state = _philox()
    # NumPy steps the counter before it draws, hence the numbering from 1.
    state["state"]["key"][:] = seed, block
    state["state"]["counter"][:] = first, kind, 0, 0
    generator.state = state
    return generator.random_raw((last - first) * _WORDS)


def _philox() -> tuple[np.random.Philox, dict[str, Any]]:
    """This thread's generator, and a state of it to be given a key and a counter: a new generator takes as long as
    thousands of numbers, since it first asks the system for a seed."""
    if not hasattr(_OF_THREAD, "philox"):
        generator = np.random.Philox(key=0)
        _OF_THREAD.philox = generator, generator.state
    return _OF_THREAD.philox


@functools.cache
def _signs_of_byte() -> np.ndarray:
    """float32, shape (256, 8): bit 0 of the byte first; a set bit is +1."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return bits.astype(np.float32) * 2 - 1


@functools.cache
def normal_levels() -> np.ndarray:
    """float32, shape (65536,), rising. Made in double precision on the CPU, so that every device looks up one table."""
    half = 2 ** (_LEVEL_BITS - 1)
    standard = NormalDist()
    edges = [standard.inv_cdf(0.5 + i / (2 * half)) for i in range(half)]
    # Mean of the slice between two edges: (density at the lower - density at the upper) / probability.
    densities = np.array([math.exp(-edge * edge / 2) for edge in edges] + [0.0]) / math.sqrt(2 * math.pi)
    upper = (densities[:-1] - densities[1:]) * (2 * half)
    upper = np.round(upper / math.sqrt(float(np.square(upper).mean())) / NORMAL_STEP) * NORMAL_STEP
    return np.concatenate([-upper[::-1], upper]).astype(np.float32)
