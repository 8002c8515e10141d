"""How many numbers a position a forward and backward pass of exact scalars holds, by the model's family.

What a block keeps follows from the order of its operations in ``transformers``, read there. No torch here.

Shapes: H hidden size, F feed-forward width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from zorba_core.errors import InvalidInputError
from zorba_core.planning.parameter_counts import Counts, parameter_counts

_LIKE_LLAMA = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma", "gemma2", "gemma3_text", "phi3")
_UNKNOWN_SAVED, _UNKNOWN_BACKWARD = 24, 12  # hidden states


@dataclass(frozen=True)
class Widths:
    """Numbers a position that a pass holds."""

    hidden: int
    saved: int  # that a backward pass keeps of a block; what norms make is made again
    backward: int  # that the backward pass of a block makes beside them

    @classmethod
    def of_config(cls, config: Mapping[str, Any], hidden: int, length: int) -> Self:
        """Of a Hugging Face config, and rows of that length at most; of a family whose tensors are not known here, as
        of a wide one."""
        try:
            counts = parameter_counts(config, "model")
        except InvalidInputError:
            return cls(hidden, _UNKNOWN_SAVED * hidden, _UNKNOWN_BACKWARD * hidden)
        query, key_value = _head_widths(counts)
        saved, backward, written_out = _of_family(config, counts, query, key_value)
        if written_out and is_short(length, query // counts.heads):
            saved += counts.heads * length
        return cls(counts.hidden, saved, backward)


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


def _of_family(config: Mapping[str, Any], counts: Counts, Q: int, KV: int) -> tuple[int, int, bool]:
    """(saved, backward, whether the block's backward pass is written out) of rows that are not short.

    A backward pass keeps the inputs of both norms, what attention reads and gives, and what the feed-forward layer's
    operations read. On top it makes the gradient of a wide tensor before and after an operation, and of two states;
    where the activation is not in place, one of those takes the room of a tensor no longer needed. Written out
    (``engine.estimators.pre_norm_blocks``) it makes one wide tensor and a state, or four states, or, once the wide ones
    and q, k and v are gone, attention's gradients twice and five states.
    """
    H, F, family = counts.hidden, counts.ffn, str(config.get("model_type"))
    saved, backward = 4 * H + 2 * Q + 2 * KV, 2 * H + 2 * F
    written_out, written_out_backward = False, max(F + H, 4 * H, 7 * H - F)
    norms = 2 * H  # that linear layers read, and all else that norms keep beside their input
    if family in _LIKE_LLAMA:
        # Root-mean-square norms also keep the state before it is multiplied by their weights.
        saved, norms = saved + 2 * H + 4 * F, 2 * norms
        if family in ("qwen3", "gemma3_text"):  # norms of queries and keys
            saved, norms = saved + 2 * Q + 2 * KV, norms + Q + KV
        if family in ("gemma2", "gemma3_text"):  # four norms
            saved, norms = saved + 4 * H, norms + 2 * H
        if family not in ("llama", "qwen2", "qwen3", "phi3"):  # keys and values written out for every head
            saved += 2 * (Q - KV)
        if family == "phi3":  # queries, keys and values are one tensor, and gate and input of the gate another
            saved += 2 * H
    elif family in ("gpt2", "phi"):
        activation = config.get("activation_function" if family == "gpt2" else "hidden_act", "gelu_new")
        in_operations = activation == "gelu_new" and is_written_out(F)
        saved += (5 if in_operations else 2) * F - (H if family == "phi" else 0)
        backward -= 0 if in_operations else F
        written_out = family == "gpt2" and not in_operations
    elif family in ("gpt_neox", "falcon", "bloom"):
        # Queries, keys and values are parts of one tensor, which lives as long as any of them.
        of_activation = 5 if family == "bloom" else 2  # Bloom writes its GELU out
        saved, backward = saved + 2 * H + of_activation * F, backward - F
    elif config.get("activation_function", "relu") == "relu":
        saved += F
        written_out = bool(config.get("do_layer_norm_before", True))
        if not written_out:  # what a norm after a branch gives is the block's state, and kept
            norms = 0
    else:
        saved, backward = saved + 2 * F, backward - F
    return saved - norms, written_out_backward if written_out else backward, written_out
