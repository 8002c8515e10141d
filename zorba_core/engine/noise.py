"""Counter-based noise: the number at (seed, block, element) is a function of those three and of nothing else.

So every client, device, thread count, order of blocks and slice of a block sees the same bits. The bits are those of
Philox4x64-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), which passes
BigCrush: key = (seed, block), counter = (1 + element // elements per counter, kind, 0, 0), four 64-bit words a counter,
least significant bits first. On the CPU NumPy's compiled Philox draws them, on a CUDA device with Triton a kernel of
ours (:mod:`zorba_core.engine.noise_triton`); on any other device the same integers come from PyTorch's 64-bit integer
operations, which wrap around as unsigned ones do.

From bits to numbers there is a table look-up and no floating-point arithmetic, so nothing depends on how a device
rounds a logarithm:

- ``signs``: one bit an element, -1 or +1. Mean 0, variance 1, and a vector of d of them has norm sqrt(d) exactly.
- ``normals``: 16 bits an element pick one of 65,536 values, the mean of the standard normal distribution within each
  of as many equally likely slices, scaled to variance 1 and rounded to a multiple of 2**-20. A normal distribution in
  steps and without its far tails: odd moments 0 exactly, variance 1 (within 1e-7), fourth moment 2.9998 (3), sixth
  14.991 (15), eighth 104.66 (105), largest value 4.388; the distribution function is within 1e-5 of the normal one.

Shapes: E elements of a slice of a block, K counters, W words.
"""

from __future__ import annotations

import functools
import importlib
import math
import threading
from collections.abc import Callable, Sequence
from statistics import NormalDist
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

_SIGNS, _NORMALS = 0, 1  # second word of the counter: the kinds share no bits
_WORDS, _WORD_BITS = 4, 64
_ROUNDS = 10
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_LOW = 0xFFFFFFFF
_LEVEL_BITS = 16
_BITS_TOGETHER = 2**24  # that are drawn side by side, at most: 2 MiB
_INDICES_TOGETHER = 2**15  # that NumPy widens to 64 bits at a time: what a core's cache keeps
_KERNEL = "zorba_core.engine.noise_triton"
_OF_THREAD = threading.local()
NORMAL_STEP = 2.0**-20  # every normal is a whole number of these: sums of squares can be exact, in any order


def signs(seed: int, block: int, start: int, stop: int, device: torch.device | str = "cpu") -> Tensor:
    """Elements start..stop-1 of the block's signs: float32, shape (stop - start,)."""
    kernel = triton_on(str(device))
    if kernel is not None:
        return kernel.draw("signs", seed, block, start, stop, device)
    bytes_first, bytes_last = start // 8, -(-stop // 8)
    bytes_E8 = _bits(seed, block, _SIGNS, bytes_first * 8, bytes_last * 8, torch.device(device)).view(torch.uint8)
    skipped = bytes_first - start // 256 * 32
    bytes_E8 = bytes_E8[skipped : skipped + bytes_last - bytes_first]
    # A row of eight signs for each byte: three times as fast as shifting out one bit after another.
    values = _look_up(_signs_of_byte(str(device)), bytes_E8).view(-1)
    return values[start - bytes_first * 8 :][: stop - start]


def normals(seed: int, block: int, start: int, stop: int, device: torch.device | str = "cpu") -> Tensor:
    """Elements start..stop-1 of the block's normals: float32, shape (stop - start,)."""
    kernel = triton_on(str(device))
    if kernel is not None:
        return kernel.draw("normals", seed, block, start, stop, device)
    return _look_up(_normal_levels(str(device)), _sixteen_bits(seed, block, _NORMALS, start, stop, device))


def drawn_together(
    draw: Callable[..., Tensor], seeds_K: Sequence[int], block: int, count: int, device: torch.device | str = "cpu"
) -> Tensor:
    """The first ``count`` numbers of a block for each of K seeds: float32, (K, count)."""
    if torch.device(device).type == "cpu" and draw in (signs, normals) and count:
        room = torch.empty(len(seeds_K) * -(-count // 8) * 8)
        return SideBySide(draw, seeds_K, block, 0, count).look_up(0, count, room)
    return torch.stack([draw(seed, block, 0, count, device) for seed in seeds_K])


class SideBySide:
    """Signs or normals of K seeds, bit for bit those of :func:`signs` and :func:`normals`, of elements start..stop-1 of
    a block on the CPU: their random bits are drawn at once, and looked up a slice at a time.

    ``draw`` is one of the two functions; ``start`` is a multiple of 256.
    """

    def __init__(self, draw: Callable[..., Tensor], seeds_K: Sequence[int], block: int, start: int, stop: int) -> None:
        kind, bits_each, self._table = (
            (_SIGNS, 1, _signs_of_byte("cpu")) if draw is signs else (_NORMALS, _LEVEL_BITS, _normal_levels("cpu"))
        )
        first, last = start * bits_each // (_WORDS * _WORD_BITS), -(-stop * bits_each // (_WORDS * _WORD_BITS))
        words_KW = np.empty((len(seeds_K), (last - first) * _WORDS), dtype=np.int64)
        for words_W, seed in zip(words_KW, seeds_K, strict=True):
            words_W[:] = _raw_words(seed, block, kind, first, last)
        self._start = start
        self._index_KI = words_KW.view(np.uint8 if draw is signs else np.uint16)
        self._together = 8 if draw is signs else 1  # numbers that one index gives

    @staticmethod
    def elements(draw: Callable[..., Tensor], count: int) -> int:
        """Of so many seeds, how many at a time: a multiple of 256."""
        return max(256, _BITS_TOGETHER // ((1 if draw is signs else _LEVEL_BITS) * count) // 256 * 256)

    def look_up(self, start: int, stop: int, out: Tensor) -> Tensor:
        """Their elements start..stop-1, (K, stop - start), in the memory of ``out``: a vector with room for them, each
        seed's rounded up to a multiple of 8. ``start`` is a multiple of 8."""
        each = self._together
        index_KI = self._index_KI[:, (start - self._start) // each : -((self._start - stop) // each)]
        values = out.numpy()[: index_KI.size * each].reshape(*index_KI.shape, *self._table.shape[1:])
        rows = max(1, _INDICES_TOGETHER // index_KI.shape[1])
        for first in range(0, len(index_KI), rows):
            own = slice(first, first + rows)
            self._table.numpy().take(index_KI[own], axis=0, out=values[own], mode="clip")  # no index is outside
        return torch.from_numpy(values.reshape(len(index_KI), -1)[:, : stop - start])


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


def _sixteen_bits(seed: int, block: int, kind: int, start: int, stop: int, device: torch.device | str) -> Tensor:
    """16 bits an element, of elements start..stop-1: int16."""
    bits_E = _bits(seed, block, kind, start * 16, stop * 16, torch.device(device)).view(torch.int16)
    skipped = start - start // 16 * 16
    return bits_E[skipped : skipped + stop - start]


def _look_up(table: Tensor, index_E: Tensor) -> Tensor:
    """The table's rows at the indices, whose bits are unsigned numbers."""
    size = index_E.element_size()
    if table.device.type == "cpu":  # half as fast again as index_select, which wants wider indices
        return torch.from_numpy(table.numpy().take(index_E.numpy().view(f"u{size}"), axis=0))
    return table.index_select(0, index_E.int().bitwise_and_(2 ** (8 * size) - 1))


def _bits(seed: int, block: int, kind: int, first_bit: int, last_bit: int, device: torch.device) -> Tensor:
    """Words of all counters that hold bits first_bit..last_bit-1: int64, shape (4 K,)."""
    per_counter = _WORDS * _WORD_BITS
    first, last = first_bit // per_counter, -(-last_bit // per_counter)
    if device.type == "cpu":
        return torch.from_numpy(_raw_words(seed, block, kind, first, last))
    return _words_by_torch(seed, block, kind, first, last, device)


def _raw_words(seed: int, block: int, kind: int, first: int, last: int) -> np.ndarray:
    generator, state = _philox()
    # NumPy steps the counter before it draws, hence the numbering from 1.
    state["state"]["key"][:] = seed, block
    state["state"]["counter"][:] = first, kind, 0, 0
    generator.state = state
    return generator.random_raw((last - first) * _WORDS).view(np.int64)


def _philox() -> tuple[np.random.Philox, dict[str, Any]]:
    """This thread's generator, and a state of it to be given a key and a counter: a new generator takes as long as
    thousands of numbers, since it first asks the system for a seed."""
    if not hasattr(_OF_THREAD, "philox"):
        generator = np.random.Philox(key=0)
        _OF_THREAD.philox = generator, generator.state
    return _OF_THREAD.philox


def _words_by_torch(
    seed: int, block: int, kind: int, first: int, last: int, device: torch.device | str = "cpu"
) -> Tensor:
    index_K = torch.arange(first + 1, last + 1, device=device)
    zero_K = torch.zeros_like(index_K)
    return philox4x64((index_K, zero_K + kind, zero_K, zero_K), (seed, block)).view(-1)


def philox4x64(counter_4K: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]) -> Tensor:
    """Philox4x64-10 in PyTorch integer operations, on any device.

    Args:
        counter_4K: the four words of K counters, int64 (the bits of unsigned numbers), each of shape (K,).
        key: two unsigned 64-bit numbers.

    Returns:
        int64, shape (K, 4).
    """
    c0, c1, c2, c3 = counter_4K
    k0, k1 = key
    for _ in range(_ROUNDS):
        high0, low0 = _wide_product(_MULTIPLIERS[0], c0)
        high1, low1 = _wide_product(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ _as_int64(k0), low1, high0 ^ c3 ^ _as_int64(k1), low0
        k0, k1 = k0 + _KEY_STEPS[0], k1 + _KEY_STEPS[1]
    return torch.stack((c0, c1, c2, c3), dim=1)


def _wide_product(factor: int, x_K: Tensor) -> tuple[Tensor, Tensor]:
    """High and low 64 bits of an unsigned 128-bit product, by 32-bit halves."""
    factor_high, factor_low = factor >> 32, factor & _LOW
    x_high, x_low = (x_K >> 32) & _LOW, x_K & _LOW  # the shift keeps the sign; the mask drops it
    middle = x_high * factor_low + ((x_low * factor_low >> 32) & _LOW)
    cross = x_low * factor_high + (middle & _LOW)
    high = x_high * factor_high + ((middle >> 32) & _LOW) + ((cross >> 32) & _LOW)
    return high, x_K * _as_int64(factor)


def _as_int64(unsigned: int) -> int:
    """The signed number with the same low 64 bits."""
    unsigned &= 2**64 - 1
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned


@functools.lru_cache(maxsize=16)
def _signs_of_byte(device: str) -> Tensor:
    """float32, shape (256, 8): bit 0 of the byte first; a set bit is +1."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return torch.from_numpy(bits.astype(np.float32) * 2 - 1).to(device)


@functools.lru_cache(maxsize=16)
def _normal_levels(device: str) -> Tensor:
    """float32, shape (65536,), rising. Made in double precision on the CPU, so that every device looks up one table."""
    half = 2 ** (_LEVEL_BITS - 1)
    standard = NormalDist()
    edges = [standard.inv_cdf(0.5 + i / (2 * half)) for i in range(half)]
    # Mean of the slice between two edges: (density at the lower - density at the upper) / probability.
    densities = np.array([math.exp(-edge * edge / 2) for edge in edges] + [0.0]) / math.sqrt(2 * math.pi)
    upper = (densities[:-1] - densities[1:]) * (2 * half)
    upper = np.round(upper / math.sqrt(float(np.square(upper).mean())) / NORMAL_STEP) * NORMAL_STEP
    return torch.from_numpy(np.concatenate([-upper[::-1], upper]).astype(np.float32)).to(device)
