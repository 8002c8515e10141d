"""Root-mean-square norms in float64.

Hugging Face's compute in float32 whatever the dtype. That is right for 16 bits, and leaves a float64 network no more
exact than a float32 one: derivatives then agree to 1e-7 where all else agrees to 1e-14. In every other dtype these are
Hugging Face's own.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

_DONE = "_zorba_keeps_float64"  # of a kind of norm that does already


def keep_float64(model: nn.Module) -> None:
    """Make the model's root-mean-square norms compute in float64 what they are given in it."""
    for norm in model.modules():
        kind = type(norm)
        if not kind.__name__.endswith("RMSNorm") or getattr(norm, "weight", None) is None or hasattr(kind, _DONE):
            continue
        if (shift := _shift(kind)) is not None:
            norm.__class__ = _whole(kind, shift)


@functools.cache
def _shift(kind: type[nn.Module]) -> int | None:
    """What is added to the weights: Gemma adds 1. None for a norm of another kind. Weights of 0 of our own show it: a
    model's may still lie in its files, and new parameters are what the context makes of them."""
    norm = kind.__new__(kind)
    nn.Module.__init__(norm)
    with torch.no_grad():
        vars(norm).update(weight=torch.zeros(8, device="cpu"), variance_epsilon=0.0, eps=0.0)
        try:
            added = kind.forward(norm, torch.ones(8, device="cpu"))
        except (TypeError, AttributeError):  # needs more than these
            return None
        return next((shift for shift in (0, 1) if torch.equal(added, torch.full_like(added, shift))), None)


@functools.cache
def _whole(kind: type[nn.Module], shift: int) -> type[nn.Module]:
    def forward(self: nn.Module, hidden_states: Tensor) -> Tensor:
        if hidden_states.dtype != torch.float64:
            return kind.forward(self, hidden_states)
        epsilon = getattr(self, "variance_epsilon", getattr(self, "eps", None))
        scale = torch.rsqrt(hidden_states.pow(2).mean(-1, keepdim=True) + epsilon)
        return hidden_states * scale * (self.weight + shift)

    return type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__, _DONE: True})
