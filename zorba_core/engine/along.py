"""A block computes along low-rank directions and its weights stay where they are, several directions in one batch.

    (W + mu sum_k u_k z_k^T) x = W x + mu sum_k u_k (z_k^T x)

So a product with a moved matrix is the plain product and two narrow ones beside it; vectors, few numbers, are moved by
themselves. Within :func:`along` the rows of hidden states are G groups of equal size, one direction each: the wide
product is one for all of them.

In float64 the result is that of moved weights to 1e-10 of rho. In float32 it is another way to round: rho, a difference
of two losses over mu, is then apart by about 1e-7 / mu of the loss, as far as either is from exact. A row's bits do not
depend on the rows beside it, nor on how many directions are in the batch: like a wide product, a narrow one of 16 rows
and 2 columns or more rounds a row the same in any company (MKL), so fewer are filled up with zeros.

Shapes: G directions, R rows of a group, P = R times positions, I inputs and O outputs of a matrix, r rank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.pytorch_utils import Conv1D

from zorba_core.engine.directions import Directions
from zorba_core.engine.low_rank import Factors
from zorba_core.engine.network import SAME_BITS_ROWS, BlockNetwork

# Narrower blocks are cheaper to move on a CPU: for opt-mini's 96 a narrow product costs as much as half of a wide one
# (artifacts/benchmarks/low-rank.json). The width alone decides, so that a client computes alike in any company.
LEAST_WIDTH_CPU = 256
LEAST_COLUMNS = 2  # of a narrow product


def supports(network: BlockNetwork, directions: Directions) -> bool:
    """Are the directions products of factors, is it worth while, and is every matrix of the blocks a linear layer's?"""
    if not directions.kind.low_rank:
        return False
    if network.device.type == "cpu" and network.model.config.hidden_size < LEAST_WIDTH_CPU:
        return False
    return all(
        isinstance(module, (nn.Linear, Conv1D)) or all(own.ndim == 1 for own in module.parameters(recurse=False))
        for m in range(network.num_blocks)
        for module in network.block_module(m).modules()
    )


@contextlib.contextmanager
def along(
    network: BlockNetwork, block: int, directions: Directions, seeds_G: Sequence[int], mu: float
) -> Iterator[None]:
    """Within the context, the block takes hidden states of G groups of rows; group g goes through w_m + mu v_g,m."""
    root = network.block_module(block)
    drawn_G = [directions.factors(int(seed), block) for seed in seeds_G]
    shift_by_parameter = {id(own): [drawn[i] for drawn in drawn_G] for i, own in enumerate(root.parameters())}
    changed: list[nn.Module] = []
    try:
        for module in root.modules():
            own = {name: shift_by_parameter[id(part)] for name, part in module.named_parameters(recurse=False)}
            if own:
                kind = _Matrix if isinstance(module, (nn.Linear, Conv1D)) else _Vectors
                module.forward = kind(module, own, mu, network.dtype)
                changed.append(module)
        yield
    finally:
        for module in changed:
            del module.forward


class _Matrix:
    """The forward pass of a linear layer, along each group's direction."""

    def __init__(self, module: nn.Module, shift_by_name: dict[str, list], mu: float, dtype: torch.dtype) -> None:
        self._plain: Callable[..., Tensor] = module.forward
        self._dtype = dtype
        factors_G: list[Factors] = shift_by_name["weight"]
        # A matrix stands as (O, I) in a linear layer and as (I, O) in GPT-2's.
        pairs = [(f.u_mr, f.z_nr) if isinstance(module, Conv1D) else (f.z_nr, f.u_mr) for f in factors_G]
        self._rank = pairs[0][0].shape[1]
        self._biased = "bias" in shift_by_name
        columns = max(LEAST_COLUMNS, self._rank + self._biased)
        self._in_GIk = torch.stack([F.pad(inner, (0, columns - self._rank)) for inner, _ in pairs])
        out_GkO = torch.stack([F.pad(outer, (0, columns - self._rank)) for _, outer in pairs]).transpose(1, 2)
        self._out_GkO = out_GkO.mul(mu)
        if self._biased:  # multiplied by a one in the middle
            self._out_GkO[:, self._rank] = torch.stack(shift_by_name["bias"]).mul(mu)

    def __call__(self, x: Tensor) -> Tensor:
        y = self._plain(x).to(self._dtype)
        with torch.autocast(x.device.type, enabled=False):
            return self._moved(x.to(self._dtype), y)

    def _moved(self, x: Tensor, y: Tensor) -> Tensor:
        groups = len(self._in_GIk)
        x_GPI, y_GPO = x.reshape(groups, -1, x.shape[-1]), y.view(groups, -1, y.shape[-1])
        missing = SAME_BITS_ROWS - x_GPI.shape[1]
        if missing > 0:
            padded = self._added(F.pad(x_GPI, (0, 0, 0, missing)), F.pad(y_GPO, (0, 0, 0, missing)))
            return padded[:, :-missing].reshape(y.shape)
        return self._added(x_GPI, y_GPO).view(y.shape)

    def _added(self, x_GPI: Tensor, y_GPO: Tensor) -> Tensor:
        middle_GPk = torch.bmm(x_GPI, self._in_GIk)
        if self._biased:
            middle_GPk[..., self._rank] = 1
        return y_GPO.baddbmm_(middle_GPk, self._out_GkO)


class _Vectors:
    """The forward pass of a module whose parameters are vectors, such as a norm, group after group."""

    def __init__(self, module: nn.Module, shift_by_name: dict[str, list], mu: float, dtype: torch.dtype) -> None:
        self._module, self._plain = module, module.forward
        self._moved_G = [
            {
                name: getattr(module, name).detach().to(dtype).add(shifts[g].mul(mu))
                for name, shifts in shift_by_name.items()
            }
            for g in range(len(next(iter(shift_by_name.values()))))
        ]

    def __call__(self, x: Tensor, *arguments: Any, **named: Any) -> Tensor:
        parameters = self._module._parameters
        before = dict(parameters)
        try:
            parts = []
            for moved, rows in zip(self._moved_G, x.chunk(len(self._moved_G)), strict=True):
                parameters.update(moved)
                parts.append(self._plain(rows, *arguments, **named))
            return parts[0] if len(parts) == 1 else torch.cat(parts)
        finally:
            parameters.update(before)
