"""Llama, Qwen2, Qwen3; and GPT-NeoX, whose blocks are called in the same way."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as rotate_part
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as rotate

from zorba_core.engine.families.interface import (
    CachedKeys,
    LabelPositions,
    head_rows,
    positions,
    rotation_at,
    split_heads,
)


class LlamaFamily:
    """Llama, and Qwen2 and Qwen3, which share its layout; without sliding windows."""

    residual_passes_through = True

    def __init__(self, model: nn.Module) -> None:
        self._body, self._head = self._parts(model)
        self._rotation: tuple[Tensor, Tensor] | None = None

    def _parts(self, model: nn.Module) -> tuple[nn.Module, nn.Linear]:
        return model.model, model.get_output_embeddings()

    def blocks(self) -> list[nn.Module]:
        return list(self._body.layers)

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        return self._body.embed_tokens(token_ids_BL)

    def run(self, block: nn.Module, hidden_BLH: Tensor) -> Tensor:
        return block(hidden_BLH, attention_mask=None, use_cache=False, **self._place(hidden_BLH))

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, at: LabelPositions) -> Tensor:
        attention, x_BLH = block.self_attn, block.input_layernorm(hidden_BLH)
        key, value = (
            layer(x_BLH).unflatten(-1, (-1, attention.head_dim)) for layer in (attention.k_proj, attention.v_proj)
        )
        if hasattr(attention, "k_norm"):  # Qwen3
            key = attention.k_norm(key)
        rotation = self._place(hidden_BLH)["position_embeddings"]
        key = rotate(key.transpose(1, 2), key.transpose(1, 2), *rotation)[1]
        attended = attention(
            at.pick(x_BLH),
            past_key_values=CachedKeys(key, value.transpose(1, 2), at),
            attention_mask=at.mask_R1PL,
            position_embeddings=rotation_at(rotation, at),
        )[0]
        hidden_RPH = at.pick(hidden_BLH) + attended
        return hidden_RPH + block.mlp(block.post_attention_layernorm(hidden_RPH))

    def _place(self, hidden_BLH: Tensor) -> dict[str, Any]:
        """What tells a block its positions. The same for every block and row, so kept until another length comes."""
        positions_1L = positions(hidden_BLH).unsqueeze(0)
        if self._rotation is None or self._rotation[0].shape[1] != hidden_BLH.shape[1]:
            self._rotation = self._body.rotary_emb(hidden_BLH, position_ids=positions_1L)
        return {"position_embeddings": self._rotation, "position_ids": positions_1L}

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        return head_rows(self._head, self._body.norm(hidden_BH), token_ids_C)


class GptNeoxFamily(LlamaFamily):
    """GPT-NeoX and Pythia: other names, and attention beside the feed-forward layer rather than before it."""

    def _parts(self, model: nn.Module) -> tuple[nn.Module, nn.Linear]:
        return model.gpt_neox, model.get_output_embeddings()

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        return self._body.embed_in(token_ids_BL)

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, at: LabelPositions) -> Tensor:
        attention, x_BLH = block.attention, block.input_layernorm(hidden_BLH)
        # Each head's queries, keys and values side by side.
        both = split_heads(attention.query_key_value(x_BLH), 3 * attention.head_size)
        _, key, value = both.chunk(3, dim=-1)
        rotation = self._place(hidden_BLH)["position_embeddings"]
        attended_RPH = attention(
            at.pick(x_BLH),
            layer_past=CachedKeys(rotate_part(key, key, *rotation)[1], value, at),
            attention_mask=at.mask_R1PL,
            position_embeddings=rotation_at(rotation, at),
        )[0]
        before_RPH = at.pick(hidden_BLH)
        if block.use_parallel_residual:
            return block.mlp(block.post_attention_layernorm(before_RPH)) + attended_RPH + before_RPH
        hidden_RPH = attended_RPH + before_RPH
        return block.mlp(block.post_attention_layernorm(hidden_RPH)) + hidden_RPH

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        return head_rows(self._head, self._body.final_layer_norm(hidden_BH), token_ids_C)
