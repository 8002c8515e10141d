"""What the VRAM model needs to know about a language model: its number of blocks M, sizes H, K, alpha and parameters d.

No torch here: a Hugging Face ``config.json`` is read as data and its parameters are counted by formula.

Shapes: scalars only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zorba_core.errors import InvalidInputError, MissingDataError, in_short

MAX_CONFIG_BYTES = 1_000_000
MAX_SIZE = 1_000_000_000  # of anything that a config counts


@dataclass(frozen=True)
class ModelSpec:
    """A decoder of ``num_blocks`` equal transformer blocks.

    ``num_parameters`` is d, the parameters that every client holds. For OPT-125M and OPT-1.3B the presets carry the
    rounded d that the paper's Table II implies (125.1e6 and 1.3e9), so that its cells come out; a model read from a
    config file carries the exact count.
    """

    name: str
    num_blocks: int  # M
    hidden_size: int  # H
    num_heads: int  # K
    num_parameters: int  # d
    ffn_ratio: float = 4.0  # alpha, feed-forward width over hidden size

    def __post_init__(self) -> None:
        for field in ("num_blocks", "hidden_size", "num_heads", "num_parameters", "ffn_ratio"):
            value = getattr(self, field)
            if not value > 0:
                raise InvalidInputError(f"model {self.name!r}: {field} is {value}; it must be positive")


PRESETS: Mapping[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        ModelSpec("opt-125m", num_blocks=12, hidden_size=768, num_heads=12, num_parameters=125_100_000),
        ModelSpec("opt-350m", num_blocks=24, hidden_size=1024, num_heads=16, num_parameters=331_196_416),
        ModelSpec("opt-1.3b", num_blocks=24, hidden_size=2048, num_heads=32, num_parameters=1_300_000_000),
        ModelSpec("opt-2.7b", num_blocks=32, hidden_size=2560, num_heads=32, num_parameters=2_651_596_800),
        ModelSpec("opt-30b", num_blocks=48, hidden_size=7168, num_heads=56, num_parameters=29_974_540_288),
    )
}


def model_spec(name_or_path: str | os.PathLike[str]) -> ModelSpec:
    """A preset by name (``opt-1.3b``), or the model of a Hugging Face folder or ``config.json`` by path.

    Raises:
        InvalidInputError: the name is no preset and no path, or the file is not a config this package can count.
        MissingDataError: a folder without ``config.json``.
    """
    key = str(name_or_path).lower().removeprefix("facebook/")
    if key in PRESETS:
        return PRESETS[key]
    path = Path(name_or_path)
    if os.path.isdir(path):
        path = path / "config.json"
        if not path.is_file():
            raise MissingDataError(f"model folder {str(name_or_path)!r} has no config.json; give a Hugging Face folder")
    if not os.path.isfile(path):
        raise InvalidInputError(
            f"unknown model {in_short(str(name_or_path), 200)}; choose one of {', '.join(PRESETS)}, "
            "or give the path of a Hugging Face folder or config.json"
        )
    name = path.parent.name if path.name == "config.json" else path.stem
    return spec_from_config(read_config(path), name=name or str(path))


def spec_from_config(config: Mapping[str, Any], name: str) -> ModelSpec:
    """The :class:`ModelSpec` of a parsed Hugging Face config, its parameters counted exactly.

    Raises:
        InvalidInputError: an unknown ``model_type``, or a field missing or not a positive integer.
    """
    counts = counts_from_config(config, name)
    parameters = counts.num_blocks * counts.block + counts.rest
    return ModelSpec(name, counts.num_blocks, counts.hidden, counts.heads, parameters, counts.ffn / counts.hidden)


def read_config(path: Path) -> Mapping[str, Any]:
    size = path.stat().st_size
    if size > MAX_CONFIG_BYTES:
        raise InvalidInputError(f"{path}: {size} bytes is too large for a model config (limit {MAX_CONFIG_BYTES})")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):  # also a number of too many digits
        raise InvalidInputError(f"{path}: not JSON; give a Hugging Face config.json") from None
    if not isinstance(config, dict):
        raise InvalidInputError(f"{path}: a model config must be a JSON object, not a {type(config).__name__}")
    return config


class _ConfigFields:
    """Positive integers out of a config, under any of the names the families give them."""

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
        return bool(self.config.get(key, default))


@dataclass(frozen=True)
class Counts:
    """Numbers of a model as its config gives them. ``block`` and ``rest`` count parameters: of one block, and of what
    is not in blocks (embeddings, final norm, projections, a head of its own)."""

    num_blocks: int
    hidden: int
    heads: int
    ffn: int
    block: int
    rest: int
    vocabulary: int
    query: int  # width of the queries of all heads
    key_value: int  # width of the keys, and of the values
    embedding: int  # width of a row of the embedding
    head: int  # parameters of a head that is not tied to the embedding


def counts_from_config(config: Mapping[str, Any], name: str) -> Counts:
    """
    Raises:
        InvalidInputError: an unknown ``model_type``, or a field missing or not a positive integer.
    """
    family = _FAMILIES.get(str(config.get("model_type")))
    if family is None:
        raise InvalidInputError(
            f"model {name!r}: config has model_type {config.get('model_type')!r}; "
            f"known are {', '.join(sorted(_FAMILIES))}"
        )
    return family(_ConfigFields(config, name))


def _opt(fields: _ConfigFields) -> Counts:
    hidden, blocks = fields.size("hidden_size"), fields.size("num_hidden_layers")
    ffn, vocabulary = fields.size("ffn_dim"), fields.size("vocab_size")
    embedding = fields.size("word_embed_proj_dim", default=hidden)
    bias = fields.flag("enable_bias", True)
    norm = 2 * hidden if fields.flag("layer_norm_elementwise_affine", True) else 0
    block = 4 * hidden * hidden + 2 * hidden * ffn + bias * (5 * hidden + ffn) + 2 * norm
    final_norm = norm if fields.flag("do_layer_norm_before", True) else 0
    if fields.flag("_remove_final_layer_norm", False):
        final_norm = 0
    projections = 2 * hidden * embedding if embedding != hidden else 0
    positions = (fields.size("max_position_embeddings") + 2) * hidden  # OPT keeps two extra rows
    head = 0 if fields.flag("tie_word_embeddings", True) else vocabulary * embedding
    rest = vocabulary * embedding + positions + projections + final_norm + head
    heads = fields.size("num_attention_heads")
    return Counts(blocks, hidden, heads, ffn, block, rest, vocabulary, hidden, hidden, embedding, head)


def _gpt2(fields: _ConfigFields) -> Counts:
    hidden, blocks = fields.size("n_embd"), fields.size("n_layer")
    ffn, vocabulary = fields.size("n_inner", default=4 * hidden), fields.size("vocab_size")
    block = 4 * hidden * hidden + 2 * hidden * ffn + 5 * hidden + ffn + 4 * hidden
    head = 0 if fields.flag("tie_word_embeddings", True) else vocabulary * hidden
    rest = (vocabulary + fields.size("n_positions")) * hidden + 2 * hidden + head
    heads = fields.size("n_head")
    return Counts(blocks, hidden, heads, ffn, block, rest, vocabulary, hidden, hidden, hidden, head)


def _llama(fields: _ConfigFields) -> Counts:
    hidden, blocks = fields.size("hidden_size"), fields.size("num_hidden_layers")
    ffn, vocabulary, heads = (
        fields.size("intermediate_size"),
        fields.size("vocab_size"),
        fields.size("num_attention_heads"),
    )
    head_size = fields.size("head_dim", default=hidden // heads)
    query = heads * head_size
    key_value = fields.size("num_key_value_heads", default=heads) * head_size
    family = fields.config["model_type"]
    attention_bias = query + 2 * key_value if family == "qwen2" or fields.flag("attention_bias", False) else 0
    if attention_bias and family != "qwen2":  # Qwen2 has no bias on the output projection
        attention_bias += hidden
    mlp_bias = 2 * ffn + hidden if fields.flag("mlp_bias", False) else 0
    query_key_norm = 2 * head_size if family == "qwen3" else 0
    block = (
        hidden * (2 * query + 2 * key_value)
        + 3 * hidden * ffn
        + attention_bias
        + mlp_bias
        + query_key_norm
        + 2 * hidden
    )
    head = 0 if fields.flag("tie_word_embeddings", False) else vocabulary * hidden
    rest = vocabulary * hidden + hidden + head
    return Counts(blocks, hidden, heads, ffn, block, rest, vocabulary, query, key_value, hidden, head)


def _gpt_neox(fields: _ConfigFields) -> Counts:
    hidden, blocks = fields.size("hidden_size"), fields.size("num_hidden_layers")
    ffn, vocabulary = fields.size("intermediate_size"), fields.size("vocab_size")
    attention_bias = 4 * hidden if fields.flag("attention_bias", True) else 0
    block = 4 * hidden * hidden + attention_bias + 2 * hidden * ffn + ffn + hidden + 4 * hidden
    head = 0 if fields.flag("tie_word_embeddings", False) else vocabulary * hidden
    rest = vocabulary * hidden + 2 * hidden + head
    heads = fields.size("num_attention_heads")
    return Counts(blocks, hidden, heads, ffn, block, rest, vocabulary, hidden, hidden, hidden, head)


_FAMILIES: Mapping[str, Callable[[_ConfigFields], Counts]] = {
    "opt": _opt,
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _llama,
    "qwen3": _llama,
    "gpt_neox": _gpt_neox,
}
