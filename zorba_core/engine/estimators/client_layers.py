"""Layers whose backward pass writes each client's own gradient of their parameters.

Known are the layers that act on the last axis alone: linear ones (Hugging Face's ``Conv1D`` too) and norms. A block
with parameters in any other layer is left to autograd, client by client.

Shapes: P positions of all rows (of each of C clients side by side), I and O a layer's inputs and outputs, D_m
parameters of block m.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers.pytorch_utils import Conv1D

from zorba_core.engine import products


@dataclass(eq=False)
class BlockGradient:
    """One client's gradient of one block: a row of a table that some clients have together. Layers write their parts
    into it; later rows of the client add to them."""

    table_CD: Tensor
    row: int
    _written: set[int] = field(default_factory=set)  # starts of the parts that are written

    def begins(self, start: int) -> bool:
        """Whether nothing was written of the part yet; from now on there is something to add to."""
        first = start not in self._written
        self._written.add(start)
        return first

    def complete(self, parameters: Sequence[Tensor]) -> None:
        """After a backward pass: zero for parameters that the loss did not depend on."""
        if len(self._written) < len(parameters):
            self.add_all(parameters, [None] * len(parameters))

    def add_all(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
        """Gradients of all of the block's parameters, in their order; None where the loss does not depend on one."""
        start = 0
        for parameter, gradient in zip(parameters, gradients, strict=True):
            part = self.table_CD[self.row, start : start + parameter.numel()].view(parameter.shape)
            if self.begins(start):
                part.zero_() if gradient is None else part.copy_(gradient)
            elif gradient is not None:
                part.add_(gradient)
            start += parameter.numel()


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Clients that stand side by side in the table, and among the rows, with as many rows each: C of them."""

    start: int  # of their rows
    rows: int  # of each
    gradients: tuple[BlockGradient, ...]

    def part(self, start: int, parameter: Tensor) -> tuple[Tensor, bool]:
        """Where their gradients of a parameter belong, (C, *its shape), and whether there are some to add to: all of
        them have, or none."""
        adds = [not gradient.begins(start) for gradient in self.gradients]
        part = self._rows_CD[:, start : start + parameter.numel()].view(-1, *parameter.shape)
        some = any(adds)
        if some and not all(adds):
            part[torch.tensor([not each for each in adds])] = 0
        return part, some

    @functools.cached_property
    def _rows_CD(self) -> Tensor:
        first = self.gradients[0]
        return first.table_CD[first.row : first.row + len(self.gradients)]

    def add(self, start: int, parameter: Tensor, gradient_C: Tensor) -> None:
        part, adds = self.part(start, parameter)
        part.add_(gradient_C) if adds else part.copy_(gradient_C)


_ROOM_BEHIND = 32  # numbers: what glibc aligns tensors to, and its own


class UnknownLayoutError(Exception):
    """A layer was given positions in an order that is not known here: experts are given those chosen for them."""


@dataclass(frozen=True, eq=False)
class Owners:
    """Whose rows are whose, of ``rows`` rows of ``length`` positions each."""

    rows: int
    length: int
    of: tuple[Neighbours, ...]

    @classmethod
    def among(cls, rows: int, length: int, placed: Iterable[tuple[int, int, BlockGradient]]) -> Owners:
        """From the first row of each client, how many it has, and its gradient."""
        groups: list[Neighbours] = []
        for start, count, gradient in placed:
            last = groups[-1] if groups else None
            if (
                last is not None
                and count == last.rows
                and start == last.start + last.rows * len(last.gradients)
                and gradient.table_CD is last.gradients[0].table_CD
                and gradient.row == last.gradients[-1].row + 1
            ):
                groups[-1] = replace(last, gradients=(*last.gradients, gradient))
            else:
                groups.append(Neighbours(start, count, (gradient,)))
        return cls(rows, length, tuple(groups))

    @property
    def positions(self) -> int:
        return self.rows * self.length

    def split(self, x_PI: Tensor) -> Iterator[tuple[Neighbours, Tensor]]:
        """Of positions that are laid out row after row, those of each client: (C, P, I)."""
        each = x_PI.shape[0] // self.rows
        for group in self.of:
            count, positions = len(group.gradients), group.rows * each
            first, last = group.start * each, group.start * each + count * positions
            yield group, (x_PI if count * group.rows == self.rows else x_PI[first:last]).view(count, positions, -1)


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
            if _multiplies(layer):
                whole = _goes_into_memory(x, layer)
                y = _Linear.apply(self._anchor, x if whole else x.flatten(0, -2), layer, starts, self._owners)
                return y if whole else y.view(*x.shape[:-1], -1)
            if isinstance(layer, nn.LayerNorm) and x.dtype == layer.weight.dtype:
                return _LayerNorm.apply(self._anchor, x, layer, starts, self._owners)
            return _Repeated.apply(self._anchor, x, layer, starts, self._owners, plain)

        return forward


def _multiplies(layer: nn.Module) -> bool:
    """Is it x W^T + b and nothing else?"""
    return type(layer).forward in (nn.Linear.forward, products.FastLinear.forward, Conv1D.forward)


def _goes_into_memory(x: Tensor, layer: nn.Module) -> bool:
    """Whether its product can be written into memory of ours; else PyTorch's may be a view, unless x is flat."""
    return x.device.type == "cpu" and x.dtype == layer.weight.dtype and not torch.is_autocast_enabled("cpu")


def _is_known(layer: nn.Module) -> bool:
    if isinstance(layer, nn.LayerNorm):
        return layer.weight is not None and layer.bias is not None and len(layer.normalized_shape) == 1
    return isinstance(layer, nn.Linear | Conv1D) or type(layer).__name__.endswith("RMSNorm")


class _Linear(torch.autograd.Function):
    """y = x W^T + b. It is no view of another tensor, whose gradient an activation in place would have copied."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, x: Tensor, layer: nn.Module, starts: dict[str, int], owners: Owners
    ) -> Tensor:
        x_PI = x.flatten(0, -2)
        ctx.save_for_backward(x_PI)
        ctx.layer, ctx.starts, ctx.owners, ctx.shape = layer, starts, owners, x.shape
        weight_OI = layer.weight.t() if isinstance(layer, Conv1D) else layer.weight
        if not _goes_into_memory(x, layer):
            return F.linear(x, weight_OI, layer.bias)
        y = _with_room_behind(x, weight_OI.shape[0])
        products.put_linear(y.flatten(0, -2), x_PI, weight_OI, layer.bias)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x_PI,), dy_PO = ctx.saved_tensors, dy.flatten(0, -2)
        layer, transposed = ctx.layer, isinstance(ctx.layer, Conv1D)
        x_PI = x_PI.to(dy_PO.dtype)  # what autocast has rounded
        for (group, dy_CPO), (_, x_CPI) in zip(ctx.owners.split(dy_PO), ctx.owners.split(x_PI), strict=True):
            left, right = (x_CPI, dy_CPO) if transposed else (dy_CPO, x_CPI)
            part, adds = group.part(ctx.starts["weight"], layer.weight)
            if part.dtype == dy_PO.dtype:
                products.put_products(part, left, right, add=adds)
            else:
                product = left.transpose(1, 2) @ right
                part.add_(product) if adds else part.copy_(product)
            if layer.bias is not None:
                group.add(ctx.starts["bias"], layer.bias, dy_CPO.sum(dim=1, dtype=part.dtype))
        if not ctx.needs_input_grad[1]:
            return (None,) * 5
        weight = layer.weight.to(dy_PO.dtype)
        dx_PI = products.linear(dy_PO, weight if transposed else weight.t())
        return None, dx_PI.view(ctx.shape), None, None, None


def _with_room_behind(x: Tensor, outputs: int) -> Tensor:
    """Memory for a layer's outputs at each position of x that serves again for tensors of this size after it was freed.

    Many outputs are freed at once, between others that the backward pass needs. glibc before 2.38 does not put a tensor
    where one of the same size was, since it looks for room to align it in: a quarter of the memory would lie idle.
    """
    shape = (*x.shape[:-1], outputs)
    numbers = x.new_empty(math.prod(shape) + _ROOM_BEHIND)
    return x.new_empty(0).set_(numbers.untyped_storage(), 0, shape)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, x: Tensor, layer: nn.LayerNorm, starts: dict[str, int], owners: Owners
    ) -> Tensor:
        y, mean, scale = torch.native_layer_norm(x, layer.normalized_shape, layer.weight, layer.bias, layer.eps)
        ctx.save_for_backward(x.flatten(0, -2), mean.flatten(0, -2), scale.flatten(0, -2))
        ctx.layer, ctx.starts, ctx.owners, ctx.shape = layer, starts, owners, x.shape
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        layer, (x_PI, mean_P1, scale_P1), dy_PI = ctx.layer, ctx.saved_tensors, dy.flatten(0, -2)
        along_PI = ((x_PI - mean_P1) * scale_P1).mul_(dy_PI)  # dy times what the weight multiplies
        for (group, dy_CPI), (_, along_CPI) in zip(ctx.owners.split(dy_PI), ctx.owners.split(along_PI), strict=True):
            group.add(ctx.starts["weight"], layer.weight, along_CPI.sum(dim=1))
            group.add(ctx.starts["bias"], layer.bias, dy_CPI.sum(dim=1))
        dx_PI = None
        if ctx.needs_input_grad[1]:
            dx_PI = torch.ops.aten.native_layer_norm_backward(
                dy_PI, x_PI, layer.normalized_shape, mean_P1, scale_P1, layer.weight, layer.bias, [True, False, False]
            )[0].view(ctx.shape)
        return None, dx_PI, None, None, None


class _Repeated(torch.autograd.Function):
    """Any layer: its forward pass is repeated for each client, and differentiated by autograd. For norms, which are
    cheap."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        x: Tensor,
        layer: nn.Module,
        starts: dict[str, int],
        owners: Owners,
        plain: Callable[[Tensor], Tensor],
    ) -> Tensor:
        ctx.save_for_backward(x.flatten(0, -2))
        ctx.layer, ctx.starts, ctx.owners, ctx.plain, ctx.shape = layer, starts, owners, plain, x.shape
        return plain(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x_PI,), dy_PO = ctx.saved_tensors, dy.flatten(0, -2)
        parameters = dict(ctx.layer.named_parameters(recurse=False))
        for parameter in parameters.values():
            parameter.requires_grad_(True)
        try:
            dx_PI = None
            for (group, dy_CPO), (_, x_CPI) in zip(ctx.owners.split(dy_PO), ctx.owners.split(x_PI), strict=True):
                with torch.enable_grad():
                    y_C = [ctx.plain(own_PI) for own_PI in x_CPI]
                wanted_C = [
                    torch.autograd.grad(y_PO, list(parameters.values()), own_PO)
                    for y_PO, own_PO in zip(y_C, dy_CPO, strict=True)
                ]
                for (name, parameter), part_C in zip(parameters.items(), zip(*wanted_C, strict=True), strict=True):
                    group.add(ctx.starts[name], parameter, torch.stack(part_C))
        finally:
            for parameter in parameters.values():
                parameter.requires_grad_(False)
        if ctx.needs_input_grad[1]:
            with torch.enable_grad():
                x_PI = x_PI.detach().requires_grad_(True)
                dx_PI = torch.autograd.grad(ctx.plain(x_PI), x_PI, dy_PO)[0].view(ctx.shape)
        return None, dx_PI, None, None, None, None
