"""Products of float32 matrices on the CPU, by the library that is fast there.

PyTorch multiplies them with Intel's MKL, whose kernels for processors of other makers use half of an AVX-512 unit: on
an AMD EPYC (Zen 5) 92 GFLOP/s a core. There oneDNN, which PyTorch has too, multiplies: 200 GFLOP/s. Elsewhere, and in
every other dtype, it is PyTorch's own product. Which of the two is a matter of the machine alone, so that one machine
gives one set of bits.

Shapes: P positions, I inputs, O outputs.
"""

from __future__ import annotations

import functools
import itertools
import math
import platform
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from transformers.pytorch_utils import Conv1D

_INTEL = "GenuineIntel"
ONEDNN_KERNELS = "AVX512 of AuthenticAMD"  # the :func:`cpu_kernels` of machines that multiply by oneDNN
# oneDNN writes a program for every number of positions that it is given (0.5 MB, 1 ms): so it is given few of them.
_SMALL, _STEP, _MOST = (16, 32, 64, 128), 128, 2048
_MOST_PADDED, _PIECE = 1.15, 512  # times the positions that are asked for; positions of a piece
ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


@functools.cache
def cpu_maker() -> str:
    """``GenuineIntel``, ``AuthenticAMD``; what the platform says where there is no list of processors."""
    facts = _cpu_facts()
    return platform.processor() if facts is None else facts.get("vendor_id", "")


@functools.cache
def _cpu_facts() -> dict[str, str] | None:
    """What Linux says of the first processor; None where there is no list of processors."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    first = itertools.takewhile(str.strip, lines)
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first)}


@functools.cache
def cpu_kernels() -> str:
    """What decides the last bits of products on this CPU: ``AVX512``, or ``AVX512 of AuthenticAMD``."""
    capability = torch.backends.cpu.get_cpu_capability()
    return capability if cpu_maker() in ("", _INTEL) else f"{capability} of {cpu_maker()}"


class _LinearOfInput(torch.autograd.Function):
    """x W^T + b, differentiable by x alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.weight_OI = weight_OI
        return _linear_of_any(x, weight_OI, bias_O)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None]:
        return _linear_of_any(dy, ctx.weight_OI.t().contiguous(), None), None, None


class FastLinear(nn.Linear):
    """A linear layer that takes oneDNN's product unless its own weights are differentiated."""

    def forward(self, input: Tensor) -> Tensor:
        if _suits_onednn(input) and not _is_watched(input, self.weight):
            return _product(input, self.weight, self.bias)
        return super().forward(input)


class FastConv1D(Conv1D):
    """GPT-2's linear layer, whose weights stand the other way round, likewise."""

    def forward(self, x: Tensor) -> Tensor:
        if _suits_onednn(x) and not _is_watched(x, self.weight):
            return _product(x, self.weight.t(), self.bias)
        return super().forward(x)


def speed_up(block: nn.Module) -> None:
    """Make the block's linear layers the fast ones, on a machine that has them."""
    if _onednn_is_faster():
        for module in block.modules():
            module.__class__ = {nn.Linear: FastLinear, Conv1D: FastConv1D}.get(type(module), type(module))


def linear(x_PI: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """x W^T + b, (P, O), outside of autograd.

    By oneDNN a row has the same bits in any company: so zeros may stand behind the rows where few are enough and
    copying the inputs costs less than the outputs, and else the last piece may begin within the one before.
    """
    if not _suits_onednn(x_PI):
        return F.linear(x_PI, weight_OI, bias_O)
    (positions, inputs), whole, start = x_PI.shape, _whole(x_PI.shape[0]), 0
    few_zeros = whole <= _MOST_PADDED * positions and inputs <= weight_OI.shape[0]
    if whole <= _MOST and (few_zeros or whole in (positions, *_SMALL)):
        padded_PI = F.pad(x_PI, (0, 0, 0, whole - positions)) if whole > positions else x_PI
        return _onednn_linear(padded_PI, weight_OI, bias_O)[:positions]
    out_PO = x_PI.new_empty(positions, len(weight_OI))
    while start < positions:
        left = positions - start
        size = min(left // _STEP * _STEP, _PIECE) or _whole(left)
        start = min(start, positions - size)
        out_PO[start : start + size] = _onednn_linear(x_PI[start : start + size], weight_OI, bias_O)
        start += size
    return out_PO


def _whole(positions: int) -> int:
    """The next number of positions that oneDNN is given."""
    return next((small for small in _SMALL if small >= positions), -(-positions // _STEP) * _STEP)


def rows_of_a_step(length: int) -> int:
    """How few rows of that length have a number of positions that oneDNN is given."""
    return _STEP // math.gcd(_STEP, length)


def put_product(out_OI: Tensor, left_PO: Tensor, right_PI: Tensor) -> None:
    """out += left^T right, outside of autograd: the gradient of a linear layer's weights."""
    if _suits_onednn(left_PO):
        out_OI.add_(_onednn_linear(left_PO.t().contiguous(), right_PI.t(), None))
    else:
        out_OI.addmm_(left_PO.t(), right_PI)


def _product(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    of_any = _LinearOfInput.apply if torch.is_grad_enabled() and x.requires_grad else _linear_of_any
    return of_any(x, weight_OI, bias_O)


def _linear_of_any(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    """(..., I) -> (..., O), no view of another tensor: an activation may write over it where gradients are hooked."""
    product_PO = linear(x.reshape(-1, x.shape[-1]), weight_OI, bias_O)
    return torch.ops.aten._unsafe_view(product_PO, [*x.shape[:-1], len(weight_OI)])


def _is_watched(x: Tensor, weight: Tensor) -> bool:
    """Whether autograd has to see the weights, or autocast, forward mode or a fake mode the product."""
    if torch.is_grad_enabled() and weight.requires_grad:
        return True
    if torch.is_autocast_enabled("cpu") or type(x) is not Tensor:
        return True
    return forward_ad._current_level >= 0  # dual numbers are plain tensors to look at


def _suits_onednn(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu" and _onednn_is_faster()


@functools.cache
def _onednn_is_faster() -> bool:
    known = ONEDNN is not None and torch.backends.mkldnn.is_available()
    return known and torch.backends.mkl.is_available() and cpu_kernels() == ONEDNN_KERNELS


def _onednn_linear(x_PI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    return ONEDNN(x_PI, weight_OI, bias_O, "none", [], "")
