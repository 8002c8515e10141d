"""OPT."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F

from zorba_core.engine.families.interface import (
    CachedKeys,
    LabelPositions,
    float64_linear,
    head_rows,
    positions,
    split_heads,
)


class OptFamily:
    """OPT. The 350M model norms after each branch and has projections around its blocks."""

    def __init__(self, model: nn.Module) -> None:
        self._decoder, self._head = model.model.decoder, model.lm_head
        self.residual_passes_through = bool(model.config.do_layer_norm_before)
        plain = model.config.activation_function == "relu" and model.config.enable_bias
        self.can_join = self.residual_passes_through and plain
        self.joins = self.can_join and next(model.parameters()).is_cuda  # do blocks go through run_joined?
        for block in self._decoder.layers:
            if isinstance(block.activation_fn, nn.ReLU):  # a copy of a block's widest tensor would leave the cache
                block.activation_fn = nn.ReLU(inplace=True)

    def blocks(self) -> list[nn.Module]:
        return list(self._decoder.layers)

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        embedded = self._decoder.embed_tokens(token_ids_BL)
        if self._decoder.project_in is not None:
            embedded = self._decoder.project_in(embedded)
        return embedded + self._decoder.embed_positions(None, position_ids=positions(token_ids_BL))

    def run(self, block: nn.Module, hidden_BLH: Tensor) -> Tensor:
        differentiated = torch.is_grad_enabled() or forward_ad._current_level >= 0
        plain = isinstance(block.fc1, nn.Linear)  # no adapter
        if self.joins and plain and not differentiated:
            return run_joined(block, hidden_BLH)
        return block(hidden_BLH, attention_mask=None, use_cache=False)

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, at: LabelPositions) -> Tensor:
        first, norm, attention = self.residual_passes_through, block.self_attn_layer_norm, block.self_attn
        x_BLH = norm(hidden_BLH) if first else hidden_BLH
        key, value = (split_heads(layer(x_BLH), attention.head_dim) for layer in (attention.k_proj, attention.v_proj))
        cached = CachedKeys(key, value, at)
        attended = attention(hidden_states=at.pick(x_BLH), past_key_values=cached, attention_mask=at.mask_R1PL)[0]
        hidden_RPH = at.pick(hidden_BLH) + attended
        if not first:
            hidden_RPH = norm(hidden_RPH)
        middle_RPF = block.fc1(block.final_layer_norm(hidden_RPH) if first else hidden_RPH)
        hidden_RPH = hidden_RPH + block.fc2(block.activation_fn(middle_RPF))
        return hidden_RPH if first else block.final_layer_norm(hidden_RPH)

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        if self._decoder.final_layer_norm is not None:
            hidden_BH = self._decoder.final_layer_norm(hidden_BH)
        if self._decoder.project_out is not None:
            hidden_BH = float64_linear(self._decoder.project_out, hidden_BH)
        return head_rows(self._head, hidden_BH, token_ids_C)


def run_joined(block: nn.Module, hidden_BLH: Tensor) -> Tensor:
    """A block with a ReLU and norms before its branches, outside of autograd, in fewer passes over memory, which on a
    GPU take as long as its products: the ReLU is part of one, and what enters several is rounded for them once."""
    hidden_BLH = hidden_BLH + _attended(block.self_attn, _rounded(block.self_attn_layer_norm(hidden_BLH)))
    weight_FH, bias_F = _rounded(block.fc1.weight), _rounded(block.fc1.bias)
    middle_PF = torch._addmm_activation(
        bias_F, _rounded(block.final_layer_norm(hidden_BLH)).flatten(0, 1), weight_FH.t()
    )
    return hidden_BLH.add_(block.fc2(middle_PF).view_as(hidden_BLH))


def _attended(attention: nn.Module, x_BLH: Tensor) -> Tensor:
    layers = (attention.q_proj, attention.k_proj, attention.v_proj)
    query, key, value = (split_heads(layer(x_BLH), attention.head_dim) for layer in layers)
    y_BKLD = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=attention.scaling)
    return attention.out_proj(y_BKLD.transpose(1, 2).flatten(2))


def _rounded(x: Tensor) -> Tensor:
    """As products of its device take it."""
    return x.to(torch.get_autocast_dtype(x.device.type)) if torch.is_autocast_enabled(x.device.type) else x
