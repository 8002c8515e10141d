"""Layers whose backward pass writes each client's own gradient of their parameters.

Known are the layers that act on the last axis alone: linear ones (Hugging Face's ``Conv1D`` too) and norms. A block
with parameters in any other layer is left to autograd, client by client.

Shapes: P positions of all rows, I and O a layer's inputs and outputs, D_m parameters of block m.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers.pytorch_utils import Conv1D


@dataclass(eq=False)
class BlockGradient:
    """One client's gradient of one block, (D_m,). Layers write their parts into it; later rows add to them."""

    values: Tensor
    _written: set[int] = field(default_factory=set)  # starts of the parts that are written

    def part(self, start: int, parameter: Tensor) -> tuple[Tensor, bool]:
        """Where a parameter's gradient belongs, in its shape, and whether there is one to add to."""
        adds = start in self._written
        self._written.add(start)
        return self.values[start : start + parameter.numel()].view(parameter.shape), adds

    def add(self, start: int, parameter: Tensor, gradient: Tensor | None) -> None:
        """No gradient: the loss does not depend on the parameter."""
        view, adds = self.part(start, parameter)
        if not adds:
            view.zero_() if gradient is None else view.copy_(gradient)
        elif gradient is not None:
            view.add_(gradient)

    def add_all(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
        """Of all of the block's parameters, in their order."""
        start = 0
        for parameter, gradient in zip(parameters, gradients, strict=True):
            self.add(start, parameter, gradient)
            start += parameter.numel()


class UnknownLayoutError(Exception):
    """A layer was given positions in an order that is not known here: experts are given those chosen for them."""


@dataclass(frozen=True, eq=False)
class Owners:
    """Whose rows are whose: rows start..stop-1 of ``rows``, of so many positions each."""

    rows: int
    length: int
    of: tuple[tuple[int, int, BlockGradient], ...]

    @property
    def positions(self) -> int:
        return self.rows * self.length

    def places(self, positions: int) -> Iterator[tuple[slice, BlockGradient]]:
        """The same for rows of several positions each, laid out one row after another."""
        each = positions // self.rows
        return ((slice(start * each, stop * each), gradient) for start, stop, gradient in self.of)


class LayerFunctions:
    """The layers of one block, as functions that tell clients apart."""

    def __init__(
        self,
        layers: list[tuple[nn.Module, dict[str, int]]],
        anchor: Tensor,
        products: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._layers, self._anchor, self._products = layers, anchor, products
        self._owners: Owners | None = None

    @classmethod
    def of(
        cls,
        block: nn.Module,
        trained: Iterable[nn.Parameter],
        anchor: Tensor,
        products: Callable[[], AbstractContextManager[None]],
    ) -> LayerFunctions | None:
        """None for a block with a layer that is not known here.

        Args:
            trained: the block's parameters that are trained, in the order of its vector: all, or its adapters'.
            anchor: a number that requires a gradient, so that a layer is differentiated also where its input is not.
            products: the context that products of a backward pass belong in.
        """
        start_of, start = {}, 0
        for parameter in trained:
            start_of[parameter] = start
            start += parameter.numel()
        layers, known = [], True
        for layer in block.modules():
            own = dict(layer.named_parameters(recurse=False))
            if any(parameter in start_of for parameter in own.values()):
                known &= _is_known(layer) and all(parameter in start_of for parameter in own.values())
                layers.append((layer, {name: start_of.get(parameter, -1) for name, parameter in own.items()}))
        return cls(layers, anchor, products) if known else None

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Within the context the layers' ``forward`` is theirs here."""
        before = [vars(layer).get("forward") for layer, _ in self._layers]
        try:
            for layer, starts in self._layers:
                layer.forward = self._function(layer, starts)
            yield
        finally:
            for (layer, _), own in zip(self._layers, before, strict=True):
                del layer.forward
                if own is not None:
                    layer.forward = own

    @contextlib.contextmanager
    def owned_by(self, owners: Owners) -> Iterator[None]:
        """Rows that go through the block within the context belong to these clients."""
        self._owners = owners
        try:
            yield
        finally:
            self._owners = None

    def _function(self, layer: nn.Module, starts: dict[str, int]) -> Callable[[Tensor], Tensor]:
        plain = layer.forward

        def forward(x: Tensor) -> Tensor:
            if self._owners is None or not self._owners.of or not torch.is_grad_enabled():
                return plain(x)
            if not (x.shape[0] == self._owners.rows if x.dim() > 2 else x.shape[0] == self._owners.positions):
                raise UnknownLayoutError
            # The output of two dimensions is no view, whose gradient an activation in place would have copied.
            flat_PI = x.reshape(-1, x.shape[-1])
            if _multiplies(layer):
                y_PO = _Linear.apply(self._anchor, flat_PI, layer, starts, self._owners)
            elif isinstance(layer, nn.LayerNorm) and x.dtype == layer.weight.dtype:
                y_PO = _LayerNorm.apply(self._anchor, flat_PI, layer, starts, self._owners)
            else:
                y_PO = _Repeated.apply(self._anchor, flat_PI, layer, starts, self._owners, plain)
            return y_PO if x.dim() == 2 else y_PO.view(*x.shape[:-1], y_PO.shape[-1])

        return forward


def _multiplies(layer: nn.Module) -> bool:
    """Is it x W^T + b and nothing else?"""
    return type(layer).forward in (nn.Linear.forward, Conv1D.forward)


def _is_known(layer: nn.Module) -> bool:
    if isinstance(layer, nn.LayerNorm):
        return layer.weight is not None and layer.bias is not None and len(layer.normalized_shape) == 1
    return isinstance(layer, nn.Linear | Conv1D) or type(layer).__name__.endswith("RMSNorm")


class _Linear(torch.autograd.Function):
    """y = x W^T + b."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, x_PI: Tensor, layer: nn.Module, starts: dict[str, int], owners: Owners
    ) -> Tensor:
        ctx.save_for_backward(x_PI)
        ctx.layer, ctx.starts, ctx.owners = layer, starts, owners
        if isinstance(layer, Conv1D):
            return torch.addmm(layer.bias, x_PI, layer.weight)
        return F.linear(x_PI, layer.weight, layer.bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_PO: Tensor) -> tuple[Tensor | None, ...]:
        (x_PI,) = ctx.saved_tensors
        layer, transposed = ctx.layer, isinstance(ctx.layer, Conv1D)
        x_PI = x_PI.to(dy_PO.dtype)  # what autocast has rounded
        for here, gradient in ctx.owners.places(len(dy_PO)):
            left, right = (x_PI, dy_PO) if transposed else (dy_PO, x_PI)
            view, adds = gradient.part(ctx.starts["weight"], layer.weight)
            if view.dtype == dy_PO.dtype:
                view.addmm_(left[here].t(), right[here], beta=int(adds))
            else:
                product = left[here].t() @ right[here]
                view.add_(product) if adds else view.copy_(product)
            if layer.bias is not None:
                gradient.add(ctx.starts["bias"], layer.bias, dy_PO[here].sum(dim=0, dtype=view.dtype))
        if not ctx.needs_input_grad[1]:
            return (None,) * 5
        weight = layer.weight.to(dy_PO.dtype)
        return None, dy_PO @ (weight.t() if transposed else weight), None, None, None


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, x_PI: Tensor, layer: nn.LayerNorm, starts: dict[str, int], owners: Owners
    ) -> Tensor:
        y_PI, mean, scale = torch.native_layer_norm(x_PI, layer.normalized_shape, layer.weight, layer.bias, layer.eps)
        ctx.save_for_backward(x_PI, mean, scale)
        ctx.layer, ctx.starts, ctx.owners = layer, starts, owners
        return y_PI

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_PI: Tensor) -> tuple[Tensor | None, ...]:
        layer, saved = ctx.layer, ctx.saved_tensors

        def backward(here: slice, mask: list[bool]) -> tuple[Tensor | None, ...]:
            x, mean, scale = (tensor[here] for tensor in saved)
            return torch.ops.aten.native_layer_norm_backward(
                dy_PI[here], x, layer.normalized_shape, mean, scale, layer.weight, layer.bias, mask
            )

        for here, gradient in ctx.owners.places(len(dy_PI)):
            _, weight, bias = backward(here, [False, True, True])
            gradient.add(ctx.starts["weight"], layer.weight, weight)
            gradient.add(ctx.starts["bias"], layer.bias, bias)
        dx_PI = backward(slice(None), [True, False, False])[0] if ctx.needs_input_grad[1] else None
        return None, dx_PI, None, None, None


class _Repeated(torch.autograd.Function):
    """Any layer: its forward pass is repeated for each client, and differentiated by autograd. For norms, which are
    cheap."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        x_PI: Tensor,
        layer: nn.Module,
        starts: dict[str, int],
        owners: Owners,
        plain: Callable[[Tensor], Tensor],
    ) -> Tensor:
        ctx.save_for_backward(x_PI)
        ctx.layer, ctx.starts, ctx.owners, ctx.plain = layer, starts, owners, plain
        return plain(x_PI)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_PO: Tensor) -> tuple[Tensor | None, ...]:
        (x_PI,) = ctx.saved_tensors
        parameters = dict(ctx.layer.named_parameters(recurse=False))
        for parameter in parameters.values():
            parameter.requires_grad_(True)
        try:
            dx_PI = None
            for here, gradient in ctx.owners.places(len(dy_PO)):
                with torch.enable_grad():
                    y_PO = ctx.plain(x_PI[here])
                wanted = torch.autograd.grad(y_PO, list(parameters.values()), dy_PO[here])
                for (name, parameter), part in zip(parameters.items(), wanted, strict=True):
                    gradient.add(ctx.starts[name], parameter, part)
        finally:
            for parameter in parameters.values():
                parameter.requires_grad_(False)
        if ctx.needs_input_grad[1]:
            with torch.enable_grad():
                x_PI = x_PI.detach().requires_grad_(True)
                dx_PI = torch.autograd.grad(ctx.plain(x_PI), x_PI, dy_PO)[0]
        return None, dx_PI, None, None, None, None
