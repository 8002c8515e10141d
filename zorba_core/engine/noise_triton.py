"""A Triton kernel for CUDA devices that draws, multiplies and adds the numbers of :mod:`zorba_core.engine.noise`.

With PyTorch's integer operations, ten rounds of Philox would be hundreds of kernels that each read and write memory.
Here a program draws its counters' four words in registers, turns them into normals or signs, multiplies, and adds them
to each weight once. The bits are those of the CPU: the same integers, the same table, and separate rounding of product
and sum (``enable_fp_fusion=False``).

``noise`` and ``Directions`` use the kernel if Triton is installed and :func:`works_on` the device. The tests without a
GPU set ``TRITON_INTERPRET=1``, which runs it in Triton's interpreter on the CPU.

Shapes: K counters of a program, W words of 64 bits, S elements a counter (16 normals, 256 signs).
"""

from __future__ import annotations

import functools
import logging

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from zorba_core.engine import noise

_COUNTERS = {"normals": 64, "signs": 8}  # counters of one program: 1,024 normals, 2,048 signs
_KINDS = {"normals": noise.NORMALS, "signs": noise.SIGNS}
_ELEMENTS = {"normals": 16, "signs": 256}  # elements of a counter
_CHECKED = 5000  # elements that works_on compares


@triton.jit
def _written(word_K, word: tl.constexpr, element_K, weights, table, scale, start, stop, ADD: tl.constexpr, BITS: tl.constexpr):  # fmt: skip # noqa: E501
    """Write, or add to ``weights``, the numbers of one word of each counter: (K, 64 / BITS), 16 bits a normal, one a
    sign."""
    part_J = tl.arange(0, 64 // BITS)
    bits_KJ = (word_K[:, None] >> (part_J * BITS).to(tl.uint64)[None, :]) & ((1 << BITS) - 1)  # pyright: ignore[reportOperatorIssue] - a constant of the compiler is an int
    element_KJ = element_K[:, None] + (word * (64 // BITS) + part_J).to(tl.int64)[None, :]
    inside_KJ = (element_KJ >= start) & (element_KJ < stop)
    if BITS == 1:  # noqa: SIM108 - a constant of the compiler
        value_KJ = bits_KJ.to(tl.int32).to(tl.float32) * 2 - 1
    else:
        value_KJ = tl.load(table + bits_KJ.to(tl.int32))
    where_KJ = weights + (element_KJ - start)
    if ADD:
        value_KJ = tl.load(where_KJ, mask=inside_KJ, other=0.0) + value_KJ * scale
    tl.store(where_KJ, value_KJ, mask=inside_KJ)


@triton.jit(do_not_specialize=["scale", "seed", "block", "start", "stop"])
def _kernel(weights, table, scale, seed, block, start, stop, KIND: tl.constexpr, ADD: tl.constexpr, COUNTERS: tl.constexpr, BITS: tl.constexpr):  # fmt: skip # noqa: E501
    """Philox4x64-10: counter (1 + index, kind, 0, 0), key (seed, block). ``start`` and ``stop`` are elements."""
    per_counter: tl.constexpr = 256 // BITS
    index_K = (start // per_counter).to(tl.int64) + tl.program_id(0) * COUNTERS + tl.arange(0, COUNTERS)
    zero_K = tl.zeros((COUNTERS,), tl.uint64)
    first, second = zero_K + 0xD2E7470EE14C6C93, zero_K + 0xCA5A826395121157
    c0, c1, c2, c3 = (index_K + 1).to(tl.uint64), zero_K + KIND, zero_K, zero_K
    k0, k1 = zero_K + seed.to(tl.int64).to(tl.uint64), zero_K + block.to(tl.int64).to(tl.uint64)
    for _ in tl.static_range(10):
        high0, low0 = tl.umulhi(c0, first), c0 * first
        high1, low1 = tl.umulhi(c2, second), c2 * second
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + 0x9E3779B97F4A7C15, k1 + 0xBB67AE8584CAA73B
    element_K = index_K * per_counter
    _written(c0, 0, element_K, weights, table, scale, start, stop, ADD, BITS)
    _written(c1, 1, element_K, weights, table, scale, start, stop, ADD, BITS)
    _written(c2, 2, element_K, weights, table, scale, start, stop, ADD, BITS)
    _written(c3, 3, element_K, weights, table, scale, start, stop, ADD, BITS)


def draw(kind: str, seed: int, block: int, start: int, stop: int, device: torch.device | str) -> Tensor:
    """``noise.normals`` or ``noise.signs``: float32, (stop - start,)."""
    values = torch.empty(stop - start, device=device)
    _launch(kind, values, 1.0, seed, block, start, stop, add=False)
    return values


def add_to(kind: str, weights: Tensor, scale: float, seed: int, block: int, start: int, stop: int) -> None:
    """weights += scale * (elements start..stop-1), in place; float32, product and sum rounded separately."""
    _launch(kind, weights, scale, seed, block, start, stop, add=True)


@functools.cache
def _levels(device: str) -> Tensor:
    return torch.from_numpy(noise.normal_levels()).to(device)


def _launch(
    kind: str, weights: Tensor, scale: float, seed: int, block: int, start: int, stop: int, *, add: bool
) -> None:
    if stop <= start:
        return
    per_counter, counters = _ELEMENTS[kind], _COUNTERS[kind]
    programs = -(-(-(-stop // per_counter) - start // per_counter) // counters)
    _kernel[(programs,)](
        weights, _levels(str(weights.device)), scale, int(np.uint64(seed).view(np.int64)), block,
        start, stop, KIND=_KINDS[kind], ADD=add, COUNTERS=counters, BITS=256 // per_counter,
        enable_fp_fusion=False,  # pyright: ignore[reportCallIssue] - an option of the compiler, not of the kernel
    )  # fmt: skip


@functools.cache
def works_on(device: str) -> bool:
    """Whether the kernel compiles for the device and gives the CPU's bits. If not, logs one warning with the reason."""
    try:
        for kind, plain in (("normals", noise.normals), ("signs", noise.signs)):
            expected = plain(2**32 - 5, 7, 3, 3 + _CHECKED)
            moved, drawn = torch.ones(_CHECKED, device=device), draw(kind, 2**32 - 5, 7, 3, 3 + _CHECKED, device)
            add_to(kind, moved, 1e-3, 2**32 - 5, 7, 3, 3 + _CHECKED)
            if not torch.equal(drawn.cpu(), expected) or not torch.equal(moved.cpu(), 1 + expected * 1e-3):
                raise ArithmeticError(f"its {kind} differ from the CPU's")
    except Exception as error:  # a compiler can fail in many ways, and the CPU can draw the numbers
        reason = (str(error).splitlines() or [""])[0]
        logging.getLogger(__name__).warning(
            "the Triton kernel for noise is not used on %s (%s: %s)", device, type(error).__name__, reason
        )
        return False
    return True
