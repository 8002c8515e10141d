"""Root-mean-square norms in float64.

Hugging Face's compute in float32 whatever the dtype. That is right for 16 bits, and leaves a float64 network no more
exact than a float32 one: derivatives then agree to 1e-7 where all else agrees to 1e-14. In every other dtype these are
Hugging Face's own.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn


def keep_float64(model: nn.Module) -> None:
    """Make the model's root-mean-square norms compute in float64 what they are given in it."""
    for norm in model.modules():
        shift = _shift(norm) if type(norm).__name__.endswith("RMSNorm") else None
        if shift is not None:
            norm.__class__ = _whole(type(norm), shift)


def _shift(norm: nn.Module) -> int | None:
    """What is added to the weights: Gemma adds 1. None for a norm of another kind."""
    weight, eps = getattr(norm, "weight", None), _epsilon(norm)
    if weight is None or weight.dim() != 1 or eps is None or type(weight.data) is not Tensor or weight.is_meta:
        return None
    with torch.no_grad():
        ones = torch.ones_like(weight, dtype=torch.float32)
        added = norm(ones).float() * (1 + eps) ** 0.5 - weight.float()
    shift = round(float(added.mean()))
    return shift if shift in (0, 1) and torch.allclose(added, ones * shift, atol=1e-2) else None


def _epsilon(norm: nn.Module) -> float | None:
    return getattr(norm, "variance_epsilon", getattr(norm, "eps", None))


@functools.cache
def _whole(kind: type[nn.Module], shift: int) -> type[nn.Module]:
    def forward(self: nn.Module, hidden_states: Tensor) -> Tensor:
        if hidden_states.dtype != torch.float64:
            return kind.forward(self, hidden_states)
        mean_square = hidden_states.pow(2).mean(-1, keepdim=True)
        return hidden_states * torch.rsqrt(mean_square + _epsilon(self)) * (self.weight + shift)

    return type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
