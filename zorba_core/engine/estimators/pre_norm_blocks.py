"""Blocks of two branches with a LayerNorm before each, OPT's and GPT-2's, without autograd.

    x' = x + out(attention(readers(norm(x)))),    y = x' + down(activation(up(norm(x'))))

A fifth of a small model's backward pass is spent between operations: in modules that call modules, and in autograd.
Written out, a block takes thirty operations both ways, what may be overwritten is, and one product gives a client's
gradients of queries, keys and values. Any other block goes through its own modules
(:mod:`zorba_core.engine.estimators.client_layers`), whose layers write the gradients here too.

Shapes: B rows, L positions, P = B L, H hidden size, K heads of D numbers, F width between ``up`` and ``down``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zorba_core.engine import products
from zorba_core.engine.estimators.attention import FlashAttention, causal_attention
from zorba_core.engine.estimators.client_layers import (
    LinearLayer,
    Owners,
    put_linear_gradients,
    put_norm_gradients,
)
from zorba_core.engine.families.activations import OneGelu
from zorba_core.planning.pass_widths import is_written_out

Back = Callable[[Owners, bool, Tensor], Tensor | None]
_ATEN = torch.ops.aten


@dataclass(frozen=True)
class _Roles:
    """Which of a block's modules is what."""

    attention: nn.Module
    norms: tuple[nn.Module, nn.Module]
    readers: tuple[nn.Module, ...]  # queries, keys and values, or one layer of all three
    out: nn.Module
    up: nn.Module
    down: nn.Module
    gelu: bool = False  # else a ReLU


def _opt(block: nn.Module) -> _Roles | None:
    attention, norms = block.self_attn, (block.self_attn_layer_norm, block.final_layer_norm)
    if not (block.do_layer_norm_before and isinstance(block.activation_fn, nn.ReLU)):
        return None
    readers = (attention.q_proj, attention.k_proj, attention.v_proj)
    return _Roles(attention, norms, readers, attention.out_proj, block.fc1, block.fc2)


def _gpt2(block: nn.Module) -> _Roles | None:
    attention, mlp = block.attn, block.mlp
    if not isinstance(mlp.act, OneGelu) or is_written_out(mlp.c_fc.nf):
        return None
    norms, readers = (block.ln_1, block.ln_2), (attention.c_attn,)
    return _Roles(attention, norms, readers, attention.c_proj, mlp.c_fc, mlp.c_proj, gelu=True)


_ROLES = {"OPTDecoderLayer": _opt, "GPT2Block": _gpt2}
# Where the modules of such a block are defined. One of anybody else's may compute something else.
_DEFINED_IN = {
    *(f"transformers.{name}" for name in ("models.opt.modeling_opt", "models.gpt2.modeling_gpt2", "pytorch_utils")),
    *(f"torch.nn.modules.{name}" for name in ("linear", "normalization", "activation", "dropout")),
    *(products.__name__, OneGelu.__module__),
}


class PreNormBlock:
    """A block whose forward pass gives its own backward pass."""

    def __init__(self, roles: _Roles, starts: Mapping[nn.Module, Mapping[str, int]]) -> None:
        self._heads, self._gelu = roles.attention.num_heads, roles.gelu
        self._norms = [(norm, starts[norm]) for norm in roles.norms]
        self._readers = [LinearLayer(layer, starts[layer]) for layer in roles.readers]
        self.can_read = len(self._readers) > 1  # give y at some positions: queries are a layer of their own
        out_up_down = (roles.out, roles.up, roles.down)
        self._out, self._up, self._down = (LinearLayer(layer, starts[layer]) for layer in out_up_down)

    @classmethod
    def of(cls, block: nn.Module, starts: Mapping[nn.Module, Mapping[str, int]]) -> PreNormBlock | None:
        """None for any other block, one with a changed module, and one in which not just all its layers are trained.

        Args:
            starts: for each layer with parameters that are trained, where they stand in the block's vector.
        """
        roles_of = _ROLES.get(type(block).__name__, lambda block: None)
        roles = roles_of(block) if all(map(_is_as_defined, block.modules())) else None
        if roles is None or getattr(roles.attention, "scaling", None) != roles.attention.head_dim**-0.5:
            return None
        all_trained = {*roles.norms, *roles.readers, roles.out, roles.up, roles.down} == set(starts)
        return cls(roles, starts) if all_trained and all(len(places) == 2 for places in starts.values()) else None

    @torch.no_grad()
    def forward(self, x_BLH: Tensor, last_B: Tensor | None = None) -> tuple[Tensor, Back]:
        """Outside of autograd. Returns y, (B, L, H), and the block's backward pass, to be called once: from whose rows
        are whose, whether the gradient of x is wanted, and that of y it writes the clients' gradients, and gives x's.
        With ``last_B``, the position of each row that is read, y is (B, H), and P is B behind attention.
        """
        x_PH, gelu = x_BLH.flatten(0, 1), partial(F.gelu, approximate="tanh")
        normed_PH, first = _normed(*self._norms[0], x_PH)
        if last_B is None:
            attention, read_B = causal_attention(self._heads_of(x_BLH, _product(self._readers, normed_PH))), None
        else:
            place_L = torch.arange(x_BLH.shape[1])
            unseen_BL = x_BLH.new_zeros(x_BLH.shape[:2]).masked_fill_(place_L > last_B[:, None], -torch.inf)
            read_B = torch.arange(len(last_B)) * len(place_L) + last_B
            asking, *answering = self._readers
            q_PH, kv_PH, x_PH = _product([asking], normed_PH[read_B]), _product(answering, normed_PH), x_PH[read_B]
            qkv = [*self._heads_of(x_BLH, q_PH), *self._heads_of(x_BLH, kv_PH)]
            attention = FlashAttention(qkv, is_causal=False, mask=unseen_BL[:, None, None])
        del normed_PH
        middle_PH = _product([self._out], attention.out()).add_(x_PH)
        normed_PH, second = _normed(*self._norms[1], middle_PH)
        wide_PF = _product([self._up], normed_PH, "none" if self._gelu else "relu")
        del normed_PH
        active_PF = gelu(wide_PF) if self._gelu else wide_PF
        y_PH = _product([self._down], active_PF).add_(middle_PH)
        kept = [(first, read_B), attention, second, (wide_PF, active_PF)]
        return y_PH.view(x_BLH.shape) if last_B is None else y_PH, partial(self._backward, kept)

    def _heads_of(self, x_BLH: Tensor, joint_PO: Tensor) -> list[Tensor]:
        """(B, K, L, D) of each of the tensors that stand side by side in a product."""
        rows, _, hidden = x_BLH.shape
        size = hidden // self._heads
        return [each.view(rows, -1, self._heads, size).transpose(1, 2) for each in joint_PO.split(hidden, dim=1)]

    @torch.no_grad()
    def _backward(self, kept: list, owners: Owners, wants_input: bool, dy: Tensor) -> Tensor | None:
        dy_PH, (wide_PF, active_PF) = dy.flatten(0, -2), kept.pop()
        d_PF = _back([self._down], owners, dy_PH, active_PF)
        if self._gelu:
            _ATEN.gelu_backward.grad_input(d_PF, wide_PF, approximate="tanh", grad_input=d_PF)
        else:
            _ATEN.threshold_backward.grad_input(d_PF, active_PF, 0, grad_input=d_PF)
        del wide_PF, active_PF
        second = kept.pop()
        scaled_PH, normed_PH = second.again()
        d_PH = _back([self._up], owners, d_PF, normed_PH)
        del d_PF, normed_PH
        d_PH = second.back(owners, d_PH, scaled_PH).add_(dy_PH)
        attention, (first, read_B) = kept.pop(), kept.pop()
        do_PH = _back([self._out], owners, d_PH, attention.out())
        dqkv = attention.back(do_PH) if read_B is None else attention.back_each(do_PH)
        del attention, do_PH
        scaled_PH, normed_PH = first.again()
        if read_B is None:
            into_PH = _back(self._readers, owners, dqkv, normed_PH)
        else:
            into_PH = _back(self._readers[1:], owners, torch.cat(dqkv[1:], dim=1), normed_PH)
            into_PH.index_add_(0, read_B, _back(self._readers[:1], owners, dqkv[0], normed_PH[read_B]))
        into_PH = first.back(owners, into_PH, scaled_PH)
        if not wants_input:
            return None
        if read_B is None:
            return into_PH.add_(d_PH).view(dy.shape)
        return into_PH.index_add_(0, read_B, d_PH).view(len(read_B), -1, d_PH.shape[1])


def _is_as_defined(module: nn.Module) -> bool:
    hooked = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    return type(module).__module__ in _DEFINED_IN and not hooked


@dataclass(frozen=True, eq=False)
class _Normed:
    """What a norm has made, to be made again and differentiated."""

    norm: nn.LayerNorm
    starts: Mapping[str, int]
    x_PH: Tensor
    mean_P1: Tensor
    scale_P1: Tensor

    def again(self) -> tuple[Tensor, Tensor]:
        """What the weight multiplies, and what the norm gives, (P, H) each."""
        scaled_PH = (self.x_PH - self.mean_P1).mul_(self.scale_P1)
        return scaled_PH, torch.addcmul(self.norm.bias, scaled_PH, self.norm.weight)

    def back(self, owners: Owners, dy_PH: Tensor, scaled_PH: Tensor) -> Tensor:
        """The clients' gradients are written; the gradient of x. ``scaled_PH`` is used up."""
        norm = self.norm
        put_norm_gradients(owners, norm, self.starts, dy_PH, scaled_PH)
        given = (norm.normalized_shape, self.mean_P1, self.scale_P1, norm.weight, norm.bias, [True, False, False])
        return _ATEN.native_layer_norm_backward(dy_PH, self.x_PH, *given)[0]


def _normed(norm: nn.LayerNorm, starts: Mapping[str, int], x_PH: Tensor) -> tuple[Tensor, _Normed]:
    y_PH, *statistics = torch.native_layer_norm(x_PH, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    return y_PH, _Normed(norm, starts, x_PH, *statistics)


def _product(layers: Sequence[LinearLayer], x_PI: Tensor, then: str = "none") -> Tensor:
    """Of layers that read one x: their outputs side by side."""
    weight_OI, bias_O = _together([layer.weight_OI for layer in layers]), _together([layer.bias for layer in layers])
    return products.linear(x_PI, weight_OI, bias_O, then)


def _back(layers: Sequence[LinearLayer], owners: Owners, dy_PO: Tensor, x_PI: Tensor) -> Tensor:
    """The clients' gradients are written; the gradient of x."""
    put_linear_gradients(owners, layers, dy_PO, x_PI)
    return products.linear(dy_PO, _together([layer.weight_OI for layer in layers]).t())


def _together(parameters: Sequence[Tensor]) -> Tensor:
    return torch.cat(parameters) if parameters[1:] else parameters[0]
