"""How many parameters a Hugging Face config makes: of a block, layer by layer, and of all else. One function a family.

No torch here: the config is read as data. Tests hold the counts to those of the real models.

Shapes: scalars only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zorba_core.errors import InvalidInputError, in_short

MAX_SIZE = 1_000_000_000  # of anything that a config counts


@dataclass(frozen=True)
class Linear:
    """A linear layer of a block."""

    inputs: int
    outputs: int
    bias: bool = False

    @property
    def parameters(self) -> int:
        return self.inputs * self.outputs + self.bias * self.outputs


@dataclass(frozen=True)
class Counts:
    """The sizes of a model of ``blocks`` equal blocks."""

    blocks: int  # M
    hidden: int  # H
    heads: int  # K
    ffn: int  # feed-forward width
    linears: Mapping[str, Linear]  # of one block, by the name that the model's module has
    norms: int  # parameters of a block outside its linear layers
    rest: int  # parameters outside the blocks

    @property
    def block(self) -> int:
        """Parameters of one block."""
        return sum(linear.parameters for linear in self.linears.values()) + self.norms

    @property
    def all(self) -> int:
        return self.blocks * self.block + self.rest


class ConfigFields:
    """Positive integers out of a config, under any of the names the families give them.

    Raises:
        InvalidInputError: a field is missing, or not a positive integer.
    """

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self.config, self.name = config, name

    def size(self, *keys: str, default: int | None = None) -> int:
        for key in keys:
            value = self.config.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIZE:
                raise InvalidInputError(
                    f"model {self.name!r}: {key} is {in_short(value)}; want a positive integer, at most {MAX_SIZE}"
                )
            return value
        if default is None:
            raise InvalidInputError(f"model {self.name!r}: config has no field {keys[0]}")
        return default

    def flag(self, key: str, default: bool) -> bool:
        value = self.config.get(key)
        return default if value is None else bool(value)

    def tables(self, numbers: int, *, tied: bool) -> int:
        """Parameters of the embedding, of so many, and of the head: one table where the config says that they are
        tied, or ``tied`` where it does not say."""
        return numbers if self.flag("tie_word_embeddings", tied) else 2 * numbers

    def decoder(self, head_size: int | None = None) -> tuple[int, ...]:
        """Blocks, hidden size, feed-forward width, vocabulary, heads, the size of one, and the width of all keys."""
        names = "num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size", "num_attention_heads"
        blocks, hidden, ffn, vocabulary, heads = map(self.size, names)
        each = self.size("head_dim", default=head_size or hidden // heads)
        return blocks, hidden, ffn, vocabulary, heads, each, self.size("num_key_value_heads", default=heads) * each


def _opt(fields: ConfigFields) -> Counts:
    hidden, blocks = fields.size("hidden_size"), fields.size("num_hidden_layers")
    ffn, vocabulary = fields.size("ffn_dim"), fields.size("vocab_size")
    embedding = fields.size("word_embed_proj_dim", default=hidden)
    bias = fields.flag("enable_bias", True)
    norm = 2 * hidden if fields.flag("layer_norm_elementwise_affine", True) else 0
    final_norm = norm if fields.flag("do_layer_norm_before", True) else 0
    if fields.flag("_remove_final_layer_norm", False):
        final_norm = 0
    projections = 2 * hidden * embedding if embedding != hidden else 0
    positions = (fields.size("max_position_embeddings") + 2) * hidden  # OPT keeps two extra rows
    linears = {name: Linear(hidden, hidden, bias) for name in ("k_proj", "v_proj", "q_proj", "out_proj")}
    linears |= {"fc1": Linear(hidden, ffn, bias), "fc2": Linear(ffn, hidden, bias)}
    rest = fields.tables(vocabulary * embedding, tied=True) + positions + projections + final_norm
    return Counts(blocks, hidden, fields.size("num_attention_heads"), ffn, linears, 2 * norm, rest)


def _gpt2(fields: ConfigFields) -> Counts:
    hidden, blocks = fields.size("n_embd"), fields.size("n_layer")
    ffn, vocabulary = fields.size("n_inner", default=4 * hidden), fields.size("vocab_size")
    linears = {
        "attn.c_attn": Linear(hidden, 3 * hidden, True),
        "attn.c_proj": Linear(hidden, hidden, True),
        "mlp.c_fc": Linear(hidden, ffn, True),
        "mlp.c_proj": Linear(ffn, hidden, True),
    }
    rest = fields.tables(vocabulary * hidden, tied=True) + fields.size("n_positions") * hidden + 2 * hidden
    return Counts(blocks, hidden, fields.size("n_head"), ffn, linears, 4 * hidden, rest)


def _llama(fields: ConfigFields) -> Counts:
    """Llama, and the families that differ from it in biases, norms and the size of a head."""
    family = fields.config["model_type"]
    sizes = fields.decoder(256 if family.startswith("gemma") else None)
    blocks, hidden, ffn, vocabulary, heads, head_size, key_value = sizes
    query = heads * head_size
    attention_bias = family == "qwen2" or (family != "mistral" and fields.flag("attention_bias", False))
    mlp_bias = fields.flag("mlp_bias", False) and family in ("llama", "smollm3")
    linears = {
        "q_proj": Linear(hidden, query, attention_bias),
        "k_proj": Linear(hidden, key_value, attention_bias),
        "v_proj": Linear(hidden, key_value, attention_bias),
        "o_proj": Linear(query, hidden, attention_bias and family != "qwen2"),
        "gate_proj": Linear(hidden, ffn, mlp_bias),
        "up_proj": Linear(hidden, ffn, mlp_bias),
        "down_proj": Linear(ffn, hidden, mlp_bias),
    }
    norms = (4 if family in ("gemma2", "gemma3_text") else 2) * hidden
    norms += 2 * head_size if family in ("qwen3", "gemma3_text") else 0  # of queries and keys
    rest = fields.tables(vocabulary * hidden, tied=family == "smollm3" or family.startswith("gemma")) + hidden
    return Counts(blocks, hidden, heads, ffn, linears, norms, rest)


def _gpt_neox(fields: ConfigFields) -> Counts:
    hidden, blocks = fields.size("hidden_size"), fields.size("num_hidden_layers")
    ffn, vocabulary = fields.size("intermediate_size"), fields.size("vocab_size")
    bias = fields.flag("attention_bias", True)
    linears = {
        "query_key_value": Linear(hidden, 3 * hidden, bias),
        "dense": Linear(hidden, hidden, bias),
        "dense_h_to_4h": Linear(hidden, ffn, True),
        "dense_4h_to_h": Linear(ffn, hidden, True),
    }
    rest = fields.tables(vocabulary * hidden, tied=False) + 2 * hidden
    return Counts(blocks, hidden, fields.size("num_attention_heads"), ffn, linears, 4 * hidden, rest)


def _phi(fields: ConfigFields) -> Counts:
    blocks, hidden, ffn, vocabulary, heads, head_size, key_value = fields.decoder()
    linears = {
        "q_proj": Linear(hidden, heads * head_size, True),
        "k_proj": Linear(hidden, key_value, True),
        "v_proj": Linear(hidden, key_value, True),
        "dense": Linear(heads * head_size, hidden, True),
        "fc1": Linear(hidden, ffn, True),
        "fc2": Linear(ffn, hidden, True),
    }
    norms = 2 * hidden + (4 * (hidden // heads) if fields.flag("qk_layernorm", False) else 0)
    rest = fields.tables(vocabulary * hidden, tied=False) + vocabulary + 2 * hidden
    return Counts(blocks, hidden, heads, ffn, linears, norms, rest)


def _phi3(fields: ConfigFields) -> Counts:
    blocks, hidden, ffn, vocabulary, heads, head_size, key_value = fields.decoder()
    linears = {
        "o_proj": Linear(heads * head_size, hidden),
        "qkv_proj": Linear(hidden, heads * head_size + 2 * key_value),
        "gate_up_proj": Linear(hidden, 2 * ffn),
        "down_proj": Linear(ffn, hidden),
    }
    rest = fields.tables(vocabulary * hidden, tied=False) + hidden
    return Counts(blocks, hidden, heads, ffn, linears, 2 * hidden, rest)


def _falcon(fields: ConfigFields) -> Counts:
    hidden, blocks = fields.size("hidden_size"), fields.size("num_hidden_layers", "n_layer")
    vocabulary, heads = fields.size("vocab_size"), fields.size("num_attention_heads", "n_head")
    ffn, head_size = fields.size("ffn_hidden_size", default=4 * hidden), hidden // heads
    newer, bias = fields.flag("new_decoder_architecture", False), fields.flag("bias", False)
    if newer:
        outputs = (heads + 2 * fields.size("num_kv_heads", default=heads)) * head_size
    else:
        outputs = hidden + 2 * head_size if fields.flag("multi_query", True) else 3 * hidden
    linears = {
        "query_key_value": Linear(hidden, outputs, bias),
        "dense": Linear(hidden, hidden, bias),
        "dense_h_to_4h": Linear(hidden, ffn, bias),
        "dense_4h_to_h": Linear(ffn, hidden, bias),
    }
    beside = fields.flag("parallel_attn", True)
    norms = 2 if not beside or fields.size("num_ln_in_parallel_attn", default=2 if newer else 1) == 2 else 1
    rest = fields.tables(vocabulary * hidden, tied=True) + 2 * hidden
    return Counts(blocks, hidden, heads, ffn, linears, norms * 2 * hidden, rest)


def _bloom(fields: ConfigFields) -> Counts:
    hidden = fields.size("hidden_size", "n_embed")
    blocks, heads = fields.size("n_layer", "num_hidden_layers"), fields.size("n_head", "num_attention_heads")
    vocabulary, ffn = fields.size("vocab_size"), 4 * hidden
    linears = {
        "query_key_value": Linear(hidden, 3 * hidden, True),
        "dense": Linear(hidden, hidden, True),
        "dense_h_to_4h": Linear(hidden, ffn, True),
        "dense_4h_to_h": Linear(ffn, hidden, True),
    }
    rest = fields.tables(vocabulary * hidden, tied=True) + 4 * hidden  # norms of the embedding and at the end
    return Counts(blocks, hidden, heads, ffn, linears, 4 * hidden, rest)


# By the ``model_type`` of a Hugging Face config.
COUNTS: Mapping[str, Callable[[ConfigFields], Counts]] = {
    "opt": _opt,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma", "gemma2", "gemma3_text"), _llama),
    "phi": _phi,
    "phi3": _phi3,
    "falcon": _falcon,
    "bloom": _bloom,
}


def parameter_counts(config: Mapping[str, Any], name: str) -> Counts:
    """The counts of a parsed Hugging Face config.

    Raises:
        InvalidInputError: an unknown ``model_type``, or a field missing or not a positive integer.
    """
    count = COUNTS.get(str(config.get("model_type")))
    if count is None:
        raise InvalidInputError(
            f"model {name!r}: config has model_type {config.get('model_type')!r}; known are {', '.join(sorted(COUNTS))}"
        )
    return count(ConfigFields(config, name))
