"""One adapter for each model family: where its embeddings, blocks and head are. A new family is one class here.

The head's products are in float64, for a few vocabulary rows at one position: what follows is the difference of two
close losses, and a product of few rows in float32 rounds otherwise than one of many, which would set a client's loss
apart from the same loss in a larger batch.

Shapes: B rows, L positions, H hidden size, C label words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zorba_core.errors import InvalidInputError

Pick = Callable[[Tensor], Tensor]  # (B, L, H) -> (B, H): one position of each row


class Family(Protocol):
    """What an adapter provides. Its pieces, in order, must equal the model's own forward pass."""

    residual_passes_through: bool  # does a block with zero weights return its input?

    def blocks(self) -> list[nn.Module]:
        """The M transformer blocks, first to last."""

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        """Hidden states (B, L, H) that enter the first block."""

    def run(self, block: nn.Module, hidden_BLH: Tensor) -> Tensor:
        """One block, causal, positions 0..L-1, no cache."""

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, pick: Pick) -> Tensor:
        """``pick`` of what :meth:`run` returns, (B, H): what comes after attention is computed there alone."""

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        """Final norm and head for the given vocabulary rows only: (B, C), float64."""


class OptFamily:
    """OPT. The 350M model norms after each branch and has projections around its blocks."""

    def __init__(self, model: nn.Module) -> None:
        self._decoder, self._head = model.model.decoder, model.lm_head
        self.residual_passes_through = bool(model.config.do_layer_norm_before)

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

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, pick: Pick) -> Tensor:
        first, norm = self.residual_passes_through, block.self_attn_layer_norm
        attended_BLH = block.self_attn(hidden_states=norm(hidden_BLH) if first else hidden_BLH, attention_mask=None)[0]
        hidden_BH = pick(hidden_BLH) + pick(attended_BLH)
        if not first:
            hidden_BH = norm(hidden_BH)
        middle_BF = block.fc1(block.final_layer_norm(hidden_BH) if first else hidden_BH)
        hidden_BH = hidden_BH + block.fc2(block.activation_fn(middle_BF))
        return hidden_BH if first else block.final_layer_norm(hidden_BH)

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

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, pick: Pick) -> Tensor:
        attended_BLH = block.attn(block.ln_1(hidden_BLH), attention_mask=None, use_cache=False)[0]
        hidden_BH = pick(hidden_BLH) + pick(attended_BLH)
        return hidden_BH + block.mlp(block.ln_2(hidden_BH))

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

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, pick: Pick) -> Tensor:
        normed_BLH = block.input_layernorm(hidden_BLH)
        attended_BLH = block.self_attn(normed_BLH, attention_mask=None, **self._place(hidden_BLH))[0]
        hidden_BH = pick(hidden_BLH) + pick(attended_BLH)
        return hidden_BH + block.mlp(block.post_attention_layernorm(hidden_BH))

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

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, pick: Pick) -> Tensor:
        normed_BLH = block.input_layernorm(hidden_BLH)
        attended_BH = pick(block.attention(normed_BLH, attention_mask=None, **self._place(hidden_BLH))[0])
        before_BH = pick(hidden_BLH)
        if block.use_parallel_residual:
            return block.mlp(block.post_attention_layernorm(before_BH)) + attended_BH + before_BH
        hidden_BH = attended_BH + before_BH
        return block.mlp(block.post_attention_layernorm(hidden_BH)) + hidden_BH

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
            "class in zorba_core/training/families.py: blocks, embed, run, logits, run_at, residual_passes_through, or "
            "where its blocks are, what comes before the first, how one runs, what comes after the last, how one "
            "runs when a single position of its output is wanted, and whether zero weights return its input"
        )
    return ADAPTERS[model_type](model)


def _positions(sequence: Tensor) -> Tensor:
    """0..L-1 for a tensor whose second axis is L."""
    return torch.arange(sequence.shape[1], device=sequence.device)


def _head_rows(head: nn.Linear, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
    bias = None if head.bias is None else head.bias[token_ids_C].double()
    return F.linear(hidden_BH.double(), head.weight[token_ids_C].double(), bias)


def _float64_linear(layer: nn.Linear, hidden_BH: Tensor) -> Tensor:
    bias = None if layer.bias is None else layer.bias.double()
    return F.linear(hidden_BH.double(), layer.weight.double(), bias)
