"""GPT-2."""

from __future__ import annotations

from torch import Tensor, nn

from zorba_core.engine.families.interface import CachedKeys, LabelPositions, head_rows, positions, split_heads


class Gpt2Family:
    """GPT-2."""

    residual_passes_through = True

    def __init__(self, model: nn.Module) -> None:
        self._body, self._head = model.transformer, model.lm_head

    def blocks(self) -> list[nn.Module]:
        return list(self._body.h)

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        return self._body.wte(token_ids_BL) + self._body.wpe(positions(token_ids_BL))

    def run(self, block: nn.Module, hidden_BLH: Tensor) -> Tensor:
        return block(hidden_BLH, attention_mask=None, use_cache=False)

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, at: LabelPositions) -> Tensor:
        attention, x_BLH = block.attn, block.ln_1(hidden_BLH)
        both = attention.c_attn(x_BLH)[..., attention.split_size :]  # after the queries
        key, value = (split_heads(part, attention.head_dim) for part in both.chunk(2, dim=2))
        cached = CachedKeys(key, value, at)
        attended = attention(at.pick(x_BLH), past_key_values=cached, attention_mask=at.mask_R1PL)[0]
        hidden_RPH = at.pick(hidden_BLH) + attended
        return hidden_RPH + block.mlp(block.ln_2(hidden_RPH))

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        return head_rows(self._head, self._body.ln_f(hidden_BH), token_ids_C)
