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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.pytorch_utils import Conv1D

from zorba_core.engine import products


@dataclass(eq=False)
class BlockGradient:
    """One client's gradient of one block: a row of a table that some clients have together. Layers write their parts
    into it; later rows of the client add to them."""

    table_CD: Tensor
    row: int
    written: set[int] = field(default_factory=set)  # starts of the parts that are written

    def begins(self, start: int) -> bool:
        """Whether nothing was written of the part yet; from now on there is something to add to."""
        first = start not in self.written
        self.written.add(start)
        return first

    def complete(self, parameters: Sequence[Tensor]) -> None:
        """After a backward pass: zero for parameters that the loss did not depend on."""
        if len(self.written) < len(parameters):
            self.written = set(self.written)  # neighbours may have the same one
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
    alone: bool = True  # no other neighbours among the rows have one of these gradients

    def part(self, start: int, parameter: Tensor) -> tuple[Tensor, bool]:
        """Where their gradients of a parameter belong, (C, *its shape), and whether there are some to add to: all of
        them have, or none."""
        part = self._rows_CD.narrow(1, start, parameter.numel()).view(-1, *parameter.shape)
        if self._written_by_all is not None:
            some = start in self._written_by_all
            self._written_by_all.add(start)
            return part, some
        adds = [not gradient.begins(start) for gradient in self.gradients]
        some = any(adds)
        if some and not all(adds):
            part[torch.tensor([not each for each in adds])] = 0
        return part, some

    @functools.cached_property
    def _written_by_all(self) -> set[int] | None:
        """Where these are everyone's first rows, all of them write the same parts: one set serves all. Clients with
        earlier rows, whose neighbours then may have been others, have a set each again."""
        shared = set[int]() if self.alone and not any(gradient.written for gradient in self.gradients) else None
        for gradient in self.gradients:
            gradient.written = set(gradient.written) if shared is None else shared
        return shared

    @functools.cached_property
    def _rows_CD(self) -> Tensor:
        first = self.gradients[0]
        return first.table_CD[first.row : first.row + len(self.gradients)]

    def add(self, start: int, parameter: Tensor, gradient_C: Tensor) -> None:
        part, adds = self.part(start, parameter)
        part.add_(gradient_C) if adds else part.copy_(gradient_C)


_MADE_BY = "_zorba_norm"  # of a tensor that a norm has made
_PRODUCTS = tuple(kind.forward for kind in (nn.Linear, products.FastLinear, Conv1D, products.FastConv1D))
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
        owned = [gradient for group in groups for gradient in group.gradients]
        if len(set(owned)) < len(owned):  # a client with two parts
            groups = [replace(group, alone=False) for group in groups]
        return cls(rows, length, tuple(groups))

    def split(self, *x_PI: Tensor) -> Iterator[tuple[Neighbours, *tuple[Tensor, ...]]]:
        """Of positions that are laid out row after row, those of each client, of every tensor: (C, P, I)."""
        each = x_PI[0].shape[0] // self.rows
        for group in self.of:
            count, positions = len(group.gradients), group.rows * each
            first, last = group.start * each, group.start * each + count * positions
            own = x_PI if count * group.rows == self.rows else [x[first:last] for x in x_PI]
            yield group, *[x.view(count, positions, -1) for x in own]


class LayerFunctions:
    """The layers of one block, as functions that tell clients apart."""

    def __init__(
        self,
        layers: list[tuple[nn.Module, dict[str, int]]],
        anchor: Tensor,
        products: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.layers, self._anchor, self._products = layers, anchor, products
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
        before = [vars(layer).get("forward") for layer, _ in self.layers]
        try:
            for layer, starts in self.layers:
                layer.forward = self._function(layer, starts)
            yield
        finally:
            for (layer, _), own in zip(self.layers, before, strict=True):
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
            shape = x.shape
            if self._owners is None or not self._owners.of or not torch.is_grad_enabled():
                return plain(x)
            if x.shape[0] != self._owners.rows * (1 if x.dim() > 2 else self._owners.length):
                raise UnknownLayoutError
            if _multiplies(layer):
                whole, norm = _goes_into_memory(x, layer), _norm_of(x)
                x = x if whole else x.flatten(0, -2)
                y = _Linear.apply(self._anchor, x, LinearLayer(layer, starts), self._owners, whole, norm)
                return y if whole else y.view(*shape[:-1], -1)
            if type(layer).forward is nn.LayerNorm.forward and x.dtype == layer.weight.dtype:
                norm = _Norm(x, partial(_layer_norm, layer))
                y = _LayerNorm.apply(self._anchor, x, layer, starts, self._owners, norm)
            else:
                norm = _Norm(x, lambda x: (plain(x),))
                y = _Repeated.apply(self._anchor, x, layer, starts, self._owners, norm)
            setattr(y, _MADE_BY, (norm, y._version))
            return y

        return forward


def _multiplies(layer: nn.Module) -> bool:
    """Is it x W^T + b and nothing else?"""
    return type(layer).forward in _PRODUCTS


def _goes_into_memory(x: Tensor, layer: nn.Module) -> bool:
    """Whether its product can be written into memory of ours; else PyTorch's may be a view, unless x is flat."""
    return x.device.type == "cpu" and x.dtype == layer.weight.dtype and not torch.is_autocast_enabled("cpu")


def _norm_of(x: Tensor) -> _Norm | None:
    """The norm that made x, unless x was written to since."""
    norm, version = getattr(x, _MADE_BY, (None, None))
    return norm if version == x._version else None


def _is_known(layer: nn.Module) -> bool:
    if isinstance(layer, nn.LayerNorm):
        return layer.weight is not None and layer.bias is not None and len(layer.normalized_shape) == 1
    return isinstance(layer, nn.Linear | Conv1D) or type(layer).__name__.endswith("RMSNorm")


class _Norm:
    """A norm of x. The layers that read it do not keep what it makes: the backward pass makes it again. It is a sixth
    of what a block would keep, and takes a hundredth of a pass.

    ``make`` gives it, and what else the norm's own backward pass needs.
    """

    def __init__(self, x: Tensor, make: Callable[[Tensor], tuple[Tensor, ...]]) -> None:
        self.x, self._make = x.detach(), make
        self._readers, self._y, self._rest = 0, None, None

    def of(self, x: Tensor) -> Tensor:
        """Of another x."""
        return self._make(x)[0]

    def first(self) -> Tensor:
        """In the forward pass. The room of a tensor that comes after others of its size serves again when it is freed,
        if there is some behind it: the norm's own memory comes last here, and is given back."""
        x, (y, *_) = self.x, self._make(self.x)
        can = x.device.type == "cpu" and x.dtype == y.dtype and x.shape == y.shape and x.is_contiguous()
        return _with_room_behind(x, x.shape[-1]).copy_(y) if can else y

    def will_be_read(self) -> None:
        """Once more, in the backward pass."""
        self._readers += 1

    def read(self) -> Tensor:
        """(P, I); the last reader gives it up."""
        if self._y is None:
            self._make_again()
        y = self._y
        self._readers -= 1
        if self._readers <= 0:
            self._y = None
        return y.flatten(0, -2)

    def rest(self) -> tuple[Tensor, ...]:
        """What else ``make`` gave."""
        if self._rest is None:
            self._make_again()
            self._y = None
        return self._rest

    def _make_again(self) -> None:
        self._y, *rest = self._make(self.x)
        self._rest = tuple(rest)


def _layer_norm(layer: nn.LayerNorm, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The norm; mean and 1/deviation at each position."""
    return torch.native_layer_norm(x, layer.normalized_shape, layer.weight, layer.bias, layer.eps)


class LinearLayer:
    """A layer that multiplies, and where its parameters stand in the block's vector."""

    def __init__(self, module: nn.Module, starts: Mapping[str, int]) -> None:
        self.starts = starts
        self.transposed = isinstance(module, Conv1D)  # do its weights stand the other way round?
        self.weight, self.bias = module.weight, module.bias
        self.outputs = module.weight.shape[1 if self.transposed else 0]

    @property
    def weight_OI(self) -> Tensor:
        return self.weight.t() if self.transposed else self.weight


def put_linear_gradients(owners: Owners, layers: Sequence[LinearLayer], dy_PO: Tensor, x_PI: Tensor) -> None:
    """What each client wants of layers that read one x; their outputs stand side by side in dy."""
    weight, bias = layers[0].weight, layers[0].bias
    for group, dy_CPO, x_CPI in owners.split(dy_PO, x_PI):
        left, right = (x_CPI, dy_CPO) if layers[0].transposed else (dy_CPO, x_CPI)
        if weight.dtype == dy_PO.dtype:
            parts = [group.part(layer.starts["weight"], layer.weight) for layer in layers]
            products.put_products(parts, left, right)
        else:  # one layer's, which autocast has rounded
            group.add(layers[0].starts["weight"], weight, left.transpose(1, 2) @ right)
        if bias is not None:
            sum_CO = dy_CPO.sum(dim=1, dtype=bias.dtype)
            own_CO = sum_CO.split_with_sizes([layer.outputs for layer in layers], 1)
            for layer, gradient_CO in zip(layers, own_CO, strict=True):
                group.add(layer.starts["bias"], layer.bias, gradient_CO)


class _Linear(torch.autograd.Function):
    """y = x W^T + b. It is no view of another tensor, whose gradient an activation in place would have copied."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, x: Tensor, layer: LinearLayer, owners: Owners, into_memory: bool, norm: _Norm | None
    ) -> Tensor:
        x_PI = x.flatten(0, -2)
        if norm is None:
            ctx.save_for_backward(x_PI)
        else:
            norm.will_be_read()
        ctx.norm, ctx.layer, ctx.owners, ctx.shape = norm, layer, owners, x.shape
        if not into_memory:
            return F.linear(x, layer.weight_OI, layer.bias)
        y = _with_room_behind(x, layer.outputs)
        products.put_linear(y.flatten(0, -2), x_PI, layer.weight_OI, layer.bias)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x_PI, dy_PO = ctx.saved_tensors[0] if ctx.norm is None else ctx.norm.read(), dy.flatten(0, -2)
        put_linear_gradients(ctx.owners, [ctx.layer], dy_PO, x_PI.to(dy_PO.dtype))  # what autocast has rounded
        if not ctx.needs_input_grad[1]:
            return (None,) * 6
        dx_PI = products.linear(dy_PO, ctx.layer.weight_OI.to(dy_PO.dtype).t())
        return None, dx_PI.view(ctx.shape), None, None, None, None


def _with_room_behind(x: Tensor, outputs: int) -> Tensor:
    """Memory for a layer's outputs at each position of x that serves again for tensors of this size after it was freed.

    Many outputs are freed at once, between others that the backward pass needs. glibc before 2.38 does not put a tensor
    where one of the same size was, since it looks for room to align it in: a quarter of the memory would lie idle.
    """
    shape = (*x.shape[:-1], outputs)
    numbers = x.new_empty(math.prod(shape) + _ROOM_BEHIND)
    return x.new_empty(0).set_(numbers.untyped_storage(), 0, shape)


class _Normed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, x: Tensor, layer: nn.Module, starts: dict[str, int], owners: Owners, norm: _Norm
    ) -> Tensor:
        ctx.layer, ctx.starts, ctx.owners, ctx.norm = layer, starts, owners, norm
        return norm.first()


class _LayerNorm(_Normed):
    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        layer, x_PI, dy_PI = ctx.layer, ctx.norm.x.flatten(0, -2), dy.flatten(0, -2)
        mean_P1, scale_P1 = (each.flatten(0, -2) for each in ctx.norm.rest())
        put_norm_gradients(ctx.owners, layer, ctx.starts, dy_PI, (x_PI - mean_P1).mul_(scale_P1))
        dx_PI = None
        if ctx.needs_input_grad[1]:
            dx_PI = torch.ops.aten.native_layer_norm_backward(
                dy_PI, x_PI, layer.normalized_shape, mean_P1, scale_P1, layer.weight, layer.bias, [True, False, False]
            )[0].view(dy.shape)
        return None, dx_PI, None, None, None, None


def put_norm_gradients(
    owners: Owners, norm: nn.LayerNorm, starts: Mapping[str, int], dy_PI: Tensor, scaled_PI: Tensor
) -> None:
    """What each client wants of a norm; ``scaled_PI`` is what its weight multiplies, and is used up."""
    for group, dy_CPI, along_CPI in owners.split(dy_PI, scaled_PI.mul_(dy_PI)):
        group.add(starts["weight"], norm.weight, along_CPI.sum(dim=1))
        group.add(starts["bias"], norm.bias, dy_CPI.sum(dim=1))


class _Repeated(_Normed):
    """Any norm: its forward pass is repeated for each client, and differentiated by autograd, which is cheap."""

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x_PI, dy_PO = ctx.norm.x.flatten(0, -2), dy.flatten(0, -2)
        parameters = dict(ctx.layer.named_parameters(recurse=False))
        for parameter in parameters.values():
            parameter.requires_grad_(True)
        try:
            dx_PI = None
            for group, dy_CPO, x_CPI in ctx.owners.split(dy_PO, x_PI):
                with torch.enable_grad():
                    y_C = [ctx.norm.of(own_PI) for own_PI in x_CPI]
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
                dx_PI = torch.autograd.grad(ctx.norm.of(x_PI), x_PI, dy_PO)[0].view(ctx.norm.x.shape)
        return None, dx_PI, None, None, None, None
