"""The sizes that memory and seconds of a model follow from: its blocks, what lies around them, and the tensors within.

No torch here. Widths are in numbers a position. What a block holds at once follows from the order of its operations in
``transformers``, read there and counted again with fake tensors in the tests.

Shapes: M blocks, D parameters of a block, H hidden size, F feed-forward width.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zorba_core.planning.lora import Lora
from zorba_core.planning.models import PRESETS, config_of, model_spec
from zorba_core.planning.parameter_counts import ConfigFields, Counts, parameter_counts

# In what a preset's config, as published with the OPT models, is not as its sizes say.
_OPT_350M = {"word_embed_proj_dim": 512, "do_layer_norm_before": False}
_LIKE_LLAMA = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma", "gemma2", "gemma3_text", "phi3")


@dataclass(frozen=True)
class ModelShape:
    """A decoder of M equal blocks, with all that its memory depends on."""

    name: str
    num_blocks: int  # M
    hidden: int  # H
    ffn: int  # F
    heads: int  # K
    query: int  # width of all heads' queries
    key_value: int  # width of all heads' keys, and of their values
    vocabulary: int
    embedding: int  # width of a row of the token embedding
    block_parameters: int  # D
    rest_parameters: int  # embeddings, final norm, projections, and a head of its own
    attention_width: int  # numbers a position that attention holds at its widest, the block's input among them
    feed_forward_width: int  # the same of the feed-forward layer
    saved_width: int  # numbers a position that a backward pass keeps of one block
    kept_width: int  # the same of exact scalars, which make again what norms make; see :meth:`kept`
    backward_width: int  # numbers a position that the backward pass of one block makes on top of those
    exact_backward_width: int  # the same of exact scalars: less where that pass is written out
    attention_scores: int  # tensors of K L numbers a position, where attention writes its scores out
    feed_forward_scores: int  # those of them that are still held by then
    adapter_parameters: int = 0  # of one block's adapters (LoRA); 0: the block's own weights are what is trained
    written_out: bool = False  # is the block's backward pass, of exact scalars?

    @property
    def parameters(self) -> int:
        return self.num_blocks * (self.block_parameters + self.adapter_parameters) + self.rest_parameters

    @property
    def trained_parameters(self) -> int:
        """What a direction moves of one block."""
        return self.adapter_parameters or self.block_parameters

    def working_width(self, seq_len: int) -> int:
        """Numbers a position that one block holds at its widest, its input among them."""
        scores = self.heads * seq_len
        return max(
            self.attention_width + self.attention_scores * scores,
            self.feed_forward_width + self.feed_forward_scores * scores,
        )

    def kept(self, seq_len: int) -> int:
        """Numbers a position that exact scalars keep of one block without adapters, of rows of that length."""
        short = self.written_out and is_short(seq_len, self.query // self.heads)
        return self.kept_width + (self.heads * seq_len if short else 0)


def model_shape(name_or_path: str | os.PathLike[str], lora: Lora | None = None) -> ModelShape:
    """The shape of a preset (``opt-1.3b``), or of a Hugging Face folder or ``config.json``.

    Args:
        lora: adapters beside the blocks' weights, which are then what is trained.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.planning.models.model_spec`.
    """
    return shape_from_config(model_config(name_or_path), model_spec(name_or_path).name, lora)


def model_config(name_or_path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Its Hugging Face config; raises likewise."""
    spec = model_spec(name_or_path)
    if spec is not PRESETS.get(spec.name):
        return config_of(name_or_path)
    hidden = spec.hidden_size
    sizes = {
        "model_type": "opt",
        "hidden_size": hidden,
        "num_hidden_layers": spec.num_blocks,
        "num_attention_heads": spec.num_heads,
        "ffn_dim": round(hidden * spec.ffn_ratio),
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
        "word_embed_proj_dim": hidden,
    }
    return {**sizes, **(_OPT_350M if spec.name == "opt-350m" else {})}


def shape_from_config(config: Mapping[str, Any], name: str, lora: Lora | None = None) -> ModelShape:
    """The shape of a parsed Hugging Face config.

    Raises:
        InvalidInputError: a family or a field that cannot be counted.
    """
    counts, fields = parameter_counts(config, name), ConfigFields(config, name)
    query, key_value = _head_widths(counts)
    return ModelShape(
        name=name,
        num_blocks=counts.blocks,
        hidden=counts.hidden,
        ffn=counts.ffn,
        heads=counts.heads,
        query=query,
        key_value=key_value,
        vocabulary=fields.size("vocab_size"),
        embedding=fields.size("word_embed_proj_dim", default=counts.hidden),
        block_parameters=counts.block,
        rest_parameters=counts.rest,
        adapter_parameters=0 if lora is None else lora.block_parameters(counts),
        **_widths(config, counts),
    )


def is_written_out(width: int) -> bool:
    """Whether the engine leaves GPT-2's GELU of so many numbers in operations (its ``families.activations``)."""
    return width % 128 != 0


def is_short(length: int, size: int) -> bool:
    """Whether attention over rows of so many positions, by heads of so many numbers, is a matter of small products and
    keeps its probabilities (the engine's ``estimators.attention``): they take hardly more room than its output, and a
    product is none that NumPy's libraries divide among threads."""
    return length > 1 and 3 * length <= 4 * size and length**2 * size <= 2**18


def _head_widths(counts: Counts) -> tuple[int, int]:
    """Of all queries, and of all keys. Some families have one layer for queries, keys and values."""
    linears = counts.linears
    if "k_proj" in linears:
        return linears["q_proj"].outputs, linears["k_proj"].outputs
    out = next((linears[name].inputs for name in ("o_proj", "attn.c_proj", "dense") if name in linears), counts.hidden)
    joint = next(linears[name] for name in ("attn.c_attn", "query_key_value", "qkv_proj") if name in linears)
    return out, (joint.outputs - out) // 2


def _widths(config: Mapping[str, Any], counts: Counts) -> dict[str, int]:
    """What a block of the family holds. H is a state; F a tensor of the feed-forward width; Q, KV of heads.

    Attention holds the block's input, its norm, q, k and v, the heads' output and that output's projection; rotations
    hold, while keys are rotated, the rotated queries and three tensors of the keys more. The feed-forward layer holds
    the block's input, the state after attention, a third state (the norm, or the result), and its wide tensors: one
    where ReLU works in place, as the engine has it; two around another activation; three around a gate; four within
    GPT-2's GELU, which is written out in operations. GPT-2 keeps attention's output beside them. Where attention does
    not go through a fused kernel (a soft-cap, a mask, positions added to its scores), two tensors of scores are held.

    A backward pass keeps the inputs of both norms, the norms, what attention reads and gives, and what the feed-forward
    layer's operations read. On top it makes the gradient of a wide tensor before and after an operation, and of two
    states; where the activation is not in place, one of those takes the room of a tensor no longer needed. Written out
    (``engine.estimators.pre_norm_blocks``) it makes one wide tensor and a state, or four states, or, once the wide ones
    and q, k and v are gone, attention's gradients twice and five states.
    """
    (Q, KV), H, F = _head_widths(counts), counts.hidden, counts.ffn
    family, attention = str(config.get("model_type")), 3 * H + 2 * Q + 2 * KV
    saved, backward, scores = 4 * H + 2 * Q + 2 * KV, 2 * H + 2 * F, 0
    exact, written_out_exact = None, max(F + H, 4 * H, 7 * H - F)
    norms = 2 * H  # that linear layers read, and all else that norms keep beside their input
    if family in _LIKE_LLAMA:
        attention = max(attention, 2 * H + 4 * Q + 2 * KV, 2 * H + 2 * Q + 5 * KV)
        # Root-mean-square norms also keep the state before it is multiplied by their weights.
        feed_forward, saved, norms = 3 * H + 3 * F, saved + 2 * H + 4 * F, 2 * norms
        if family in ("qwen3", "gemma3_text"):  # norms of queries and keys
            saved, norms = saved + 2 * Q + 2 * KV, norms + Q + KV
        if family in ("gemma2", "gemma3_text"):  # four norms
            saved, norms = saved + 4 * H, norms + 2 * H
        if family not in ("llama", "qwen2", "qwen3", "phi3"):  # keys and values written out for every head
            saved += 2 * (Q - KV)
        if family == "phi3":  # queries, keys and values are one tensor, and gate and input of the gate another
            feed_forward, saved = feed_forward + F, saved + 2 * H
        scores = 2 if family == "gemma2" else 0
    elif family in ("gpt2", "phi"):
        activation = config.get("activation_function" if family == "gpt2" else "hidden_act", "gelu_new")
        written_out = activation == "gelu_new" and is_written_out(F)
        beside = H if family == "gpt2" else 0
        feed_forward = 3 * H + beside + (4 if written_out else 2) * F
        saved += (5 if written_out else 2) * F - (H if family == "phi" else 0)
        backward -= 0 if written_out else F
        exact = None if written_out or family == "phi" else written_out_exact
    elif family in ("gpt_neox", "falcon", "bloom"):
        # Queries, keys and values are parts of one tensor, which lives as long as any of them, beside rotated copies.
        wide = 5 if family == "bloom" else 2  # Bloom writes its GELU out
        feed_forward, saved, backward = 3 * H + wide * F, saved + 2 * H + wide * F, backward - F
        scores = 0 if family == "gpt_neox" else 2
    elif config.get("activation_function", "relu") == "relu":
        feed_forward, saved = 3 * H + F, saved + F
        # What a norm after a branch gives is the block's state, and kept.
        exact, norms = (written_out_exact, norms) if config.get("do_layer_norm_before", True) else (None, 0)
    else:
        feed_forward, saved, backward = max(3 * H + F, 2 * H + 2 * F), saved + 2 * F, backward - F
    return {
        "attention_width": attention,
        "feed_forward_width": feed_forward,
        "saved_width": saved,
        "kept_width": saved - norms,
        "backward_width": backward,
        "exact_backward_width": exact or backward,
        "written_out": exact is not None,
        "attention_scores": scores,
        "feed_forward_scores": 1 if family in ("gemma2", "bloom") else 0,
    }
