"""One adapter for each model family: where its embeddings, blocks and head are. A new family is one class here.

The head's products are in float64, for a few vocabulary rows at one position: what follows is the difference of two
close losses, and a product of few rows in float32 rounds otherwise than one of many, which would set a client's loss
apart from the same loss in a larger batch.

The last block is computed only at the positions that the head reads, one of each row or several (an answer of several
tokens): keys and values of all positions, everything else of those. To the model's attention module this is a step of
generation: new tokens before a cache of keys and values (:class:`LabelPositions`, :class:`_Cached`).

Shapes: B rows (R with repeats up to a least number), L positions, H hidden size, K heads of size D, C label words,
P positions read of each row (where a name says 1, it may be P).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as rotate_part
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as rotate

from zorba_core.errors import InvalidInputError


class LabelPositions:
    """The positions that are read of each row, one (B,) or several (B, P), the rows repeated up to ``least_rows``."""

    def __init__(self, position_B: Tensor, length: int, least_rows: int = 1) -> None:
        count, device = len(position_B), position_B.device
        if position_B.ndim == 2:
            least_rows = -(-least_rows // position_B.shape[1])  # a product has a row for each position
        self._row_R = torch.arange(max(count, least_rows), device=device) % count
        self._repeated = count < least_rows
        self.position_R = position_B[self._row_R]  # or (R, P)
        # What a position may attend to: itself and what stands before it. (R, 1, 1, L), or (R, 1, P, L).
        position_RP = self.position_R.view(len(self._row_R), -1)
        self.mask_R11L = torch.arange(length, device=device) <= position_RP[:, None, :, None]

    def pick(self, x_BLH: Tensor) -> Tensor:
        """(B, L, H) -> (R, 1, H), or (R, P, H): sequences of the positions that are read."""
        if self.position_R.ndim == 2:
            return x_BLH[self._row_R[:, None], self.position_R]
        return x_BLH[self._row_R, self.position_R].unsqueeze(1)

    def rows(self, x_BKLD: Tensor) -> Tensor:
        """(B, K, L, D) -> (R, K, L, D)."""
        return x_BKLD[self._row_R] if self._repeated else x_BKLD


class _Cached:
    """Keys and values of all positions, in the shape of the cache that an attention module asks for those to use."""

    def __init__(self, key_BKLD: Tensor, value_BKLD: Tensor, at: LabelPositions) -> None:
        self._key_RKLD, self._value_RKLD = at.rows(key_BKLD), at.rows(value_BKLD)

    def update(self, key: Tensor, value: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return self._key_RKLD, self._value_RKLD


class Family(Protocol):
    """What an adapter provides. Its pieces, in order, must equal the model's own forward pass."""

    residual_passes_through: bool  # does a block with zero weights return its input?

    def blocks(self) -> list[nn.Module]:
        """The M transformer blocks, first to last."""

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        """Hidden states (B, L, H) that enter the first block."""

    def run(self, block: nn.Module, hidden_BLH: Tensor) -> Tensor:
        """One block, causal, positions 0..L-1, no cache."""

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, at: LabelPositions) -> Tensor:
        """``at.pick`` of what :meth:`run` returns, (R, 1, H), computing nothing but keys and values elsewhere."""

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        """Final norm and head for the given vocabulary rows only: (B, C), float64."""


class OptFamily:
    """OPT. The 350M model norms after each branch and has projections around its blocks."""

    def __init__(self, model: nn.Module) -> None:
        self._decoder, self._head = model.model.decoder, model.lm_head
        self.residual_passes_through = bool(model.config.do_layer_norm_before)
        for block in self._decoder.layers:
            if isinstance(block.activation_fn, nn.ReLU):  # a copy of a block's widest tensor would leave the cache
                block.activation_fn = nn.ReLU(inplace=True)

    def blocks(self) -> list[nn.Module]:
        return list(self._decoder.layers)

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        embedded = self._decoder.embed_tokens(token_ids_BL)
        if self._decoder.project_in is not None:
            embedded = self._decoder.project_in(embedded)
        positions_L = _positions(token_ids_BL)
        return embedded + self._decoder.embed_positions(None, position_ids=positions_L)

    def run(self, block: nn.Module, hidden_BLH: Tensor) -> Tensor:
        return block(hidden_BLH, attention_mask=None, use_cache=False)

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, at: LabelPositions) -> Tensor:
        first, norm, attention = self.residual_passes_through, block.self_attn_layer_norm, block.self_attn
        x_BLH = norm(hidden_BLH) if first else hidden_BLH
        key, value = (_heads(layer(x_BLH), attention.head_dim) for layer in (attention.k_proj, attention.v_proj))
        cached = _Cached(key, value, at)
        attended = attention(hidden_states=at.pick(x_BLH), past_key_values=cached, attention_mask=at.mask_R11L)[0]
        hidden_R1H = at.pick(hidden_BLH) + attended
        if not first:
            hidden_R1H = norm(hidden_R1H)
        middle_R1F = block.fc1(block.final_layer_norm(hidden_R1H) if first else hidden_R1H)
        hidden_R1H = hidden_R1H + block.fc2(block.activation_fn(middle_R1F))
        return hidden_R1H if first else block.final_layer_norm(hidden_R1H)

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        if self._decoder.final_layer_norm is not None:
            hidden_BH = self._decoder.final_layer_norm(hidden_BH)
        if self._decoder.project_out is not None:
            hidden_BH = _float64_linear(self._decoder.project_out, hidden_BH)
        return _head_rows(self._head, hidden_BH, token_ids_C)


class Gpt2Family:
    """GPT-2."""

    residual_passes_through = True

    def __init__(self, model: nn.Module) -> None:
        self._body, self._head = model.transformer, model.lm_head

    def blocks(self) -> list[nn.Module]:
        return list(self._body.h)

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        return self._body.wte(token_ids_BL) + self._body.wpe(_positions(token_ids_BL))

    def run(self, block: nn.Module, hidden_BLH: Tensor) -> Tensor:
        return block(hidden_BLH, attention_mask=None, use_cache=False)

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, at: LabelPositions) -> Tensor:
        attention, x_BLH = block.attn, block.ln_1(hidden_BLH)
        size, product = attention.split_size, attention.c_attn  # of queries, keys and values side by side
        both = torch.addmm(product.bias[size:], x_BLH.flatten(0, 1), product.weight[:, size:])
        key, value = (_heads(part, attention.head_dim) for part in both.view(*x_BLH.shape[:2], -1).split(size, dim=2))
        cached = _Cached(key, value, at)
        attended = attention(at.pick(x_BLH), past_key_values=cached, attention_mask=at.mask_R11L)[0]
        hidden_R1H = at.pick(hidden_BLH) + attended
        return hidden_R1H + block.mlp(block.ln_2(hidden_R1H))

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        return _head_rows(self._head, self._body.ln_f(hidden_BH), token_ids_C)


class LlamaFamily:
    """Llama, and Qwen2 and Qwen3, which share its layout.

    Raises:
        InvalidInputError: some blocks attend to a sliding window; the pieces here are plainly causal.
    """

    residual_passes_through = True

    def __init__(self, model: nn.Module) -> None:
        if "sliding_attention" in (getattr(model.config, "layer_types", None) or ()):
            raise InvalidInputError(
                f"this {model.config.model_type} model attends to a sliding window, and its adapter is plainly causal; "
                "use a model whose config has use_sliding_window false"
            )
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
            past_key_values=_Cached(key, value.transpose(1, 2), at),
            attention_mask=at.mask_R11L,
            position_embeddings=_rotation_at(rotation, at),
        )[0]
        hidden_R1H = at.pick(hidden_BLH) + attended
        return hidden_R1H + block.mlp(block.post_attention_layernorm(hidden_R1H))

    def _place(self, hidden_BLH: Tensor) -> dict[str, Any]:
        """What tells a block its positions. The same for every block and row, so kept until another length comes."""
        positions_1L = _positions(hidden_BLH).unsqueeze(0)
        if self._rotation is None or self._rotation[0].shape[1] != hidden_BLH.shape[1]:
            self._rotation = self._body.rotary_emb(hidden_BLH, position_ids=positions_1L)
        return {"position_embeddings": self._rotation, "position_ids": positions_1L}

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        return _head_rows(self._head, self._body.norm(hidden_BH), token_ids_C)


class GptNeoxFamily(LlamaFamily):
    """GPT-NeoX and Pythia: other names, and attention beside the feed-forward layer rather than before it."""

    def _parts(self, model: nn.Module) -> tuple[nn.Module, nn.Linear]:
        return model.gpt_neox, model.get_output_embeddings()

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        return self._body.embed_in(token_ids_BL)

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, at: LabelPositions) -> Tensor:
        attention, x_BLH = block.attention, block.input_layernorm(hidden_BLH)
        # Each head's queries, keys and values side by side.
        both = _heads(attention.query_key_value(x_BLH), 3 * attention.head_size)
        _, key, value = both.chunk(3, dim=-1)
        rotation = self._place(hidden_BLH)["position_embeddings"]
        attended_R1H = attention(
            at.pick(x_BLH),
            layer_past=_Cached(rotate_part(key, key, *rotation)[1], value, at),
            attention_mask=at.mask_R11L,
            position_embeddings=_rotation_at(rotation, at),
        )[0]
        before_R1H = at.pick(hidden_BLH)
        if block.use_parallel_residual:
            return block.mlp(block.post_attention_layernorm(before_R1H)) + attended_R1H + before_R1H
        hidden_R1H = attended_R1H + before_R1H
        return block.mlp(block.post_attention_layernorm(hidden_R1H)) + hidden_R1H

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        return _head_rows(self._head, self._body.final_layer_norm(hidden_BH), token_ids_C)


# By the ``model_type`` of a Hugging Face config.
ADAPTERS: Mapping[str, type[Family]] = {
    "opt": OptFamily,
    "gpt2": Gpt2Family,
    "llama": LlamaFamily,
    "qwen2": LlamaFamily,
    "qwen3": LlamaFamily,
    "gpt_neox": GptNeoxFamily,
}


def family_of(model: nn.Module) -> Family:
    """The adapter of a Hugging Face causal language model.

    Raises:
        InvalidInputError: no adapter for its ``model_type``.
    """
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    if model_type not in ADAPTERS:
        raise InvalidInputError(
            f"no adapter for model type {model_type!r} (there is one for {', '.join(ADAPTERS)}); a new family needs a "
            "class in zorba_core/engine/families.py: blocks, embed, run, logits, run_at, residual_passes_through, or "
            "where its blocks are, what comes before the first, how one runs, what comes after the last, how one "
            "runs when a single position of its output is wanted, and whether zero weights return its input"
        )
    return ADAPTERS[model_type](model)


def _positions(sequence: Tensor) -> Tensor:
    """0..L-1 for a tensor whose second axis is L."""
    return torch.arange(sequence.shape[1], device=sequence.device)


def _heads(x_BLH: Tensor, size: int) -> Tensor:
    """(B, L, K * D) -> (B, K, L, D)."""
    return x_BLH.unflatten(-1, (-1, size)).transpose(1, 2)


def _rotation_at(rotation: tuple[Tensor, Tensor], at: LabelPositions) -> tuple[Tensor, Tensor]:
    """Cosines and sines (1, L, D) at each row's positions: (R, 1, D), or (R, P, D)."""
    cos, sin = (part[0, at.position_R.view(len(at.position_R), -1)] for part in rotation)
    return cos, sin


def _head_rows(head: nn.Linear, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
    bias = None if head.bias is None else head.bias[token_ids_C].double()
    return F.linear(hidden_BH.double(), head.weight[token_ids_C].double(), bias)


def _float64_linear(layer: nn.Linear, hidden_BH: Tensor) -> Tensor:
    bias = None if layer.bias is None else layer.bias.double()
    return F.linear(hidden_BH.double(), layer.weight.double(), bias)
