"""Where a model's embeddings, blocks and head are: one adapter for each family of models.

OPT, GPT-2, Llama and GPT-NeoX have a class of their own. Every other causal language model goes through
:class:`~zorba_core.engine.families.own_forward.OwnForwardFamily`, which asks the model's own forward pass; for those in
``OWN_FORWARD`` tests hold that it is right, and for any other it is compared with the model when it is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from zorba_core.engine.families.gpt2 import Gpt2Family
from zorba_core.engine.families.interface import Family, LabelPositions
from zorba_core.engine.families.llama import GptNeoxFamily, LlamaFamily
from zorba_core.engine.families.norms import keep_float64
from zorba_core.engine.families.opt import OptFamily
from zorba_core.engine.families.own_forward import OwnForwardFamily, check_pieces
from zorba_core.engine.products import speed_up
from zorba_core.errors import InvalidInputError

__all__ = ["ADAPTERS", "OWN_FORWARD", "Family", "LabelPositions", "attention_of", "family_of"]

# By the ``model_type`` of a Hugging Face config.
ADAPTERS: Mapping[str, type[Family]] = {
    "opt": OptFamily,
    "gpt2": Gpt2Family,
    "llama": LlamaFamily,
    "qwen2": LlamaFamily,
    "qwen3": LlamaFamily,
    "gpt_neox": GptNeoxFamily,
}
OWN_FORWARD = ("mistral", "smollm3", "phi", "phi3", "falcon", "bloom", "gemma", "gemma2", "gemma3_text")


def attention_of(model: nn.Module) -> str:
    """The attention kernels to use: one kind for all runs, since eager attention differs in the last bits. It is the
    only kind where logits of attention have a soft-cap (Gemma 2), or ALiBi is added by the module itself (Bloom)."""
    return "sdpa" if getattr(model, "_supports_sdpa", False) else "eager"


def family_of(model: nn.Module) -> Family:
    """The adapter of a Hugging Face causal language model.

    Raises:
        InvalidInputError: it is none, or its pieces are not found or differ from its own forward pass.
    """
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    windows = "sliding_attention" in (getattr(model.config, "layer_types", None) or ()) if model_type else False
    if model_type in ADAPTERS and not windows:
        keep_float64(model)
        return _fast(ADAPTERS[model_type](model))
    try:
        if model_type is None or not callable(getattr(model, "get_output_embeddings", None)):
            raise InvalidInputError(f"a {type(model).__name__} is no causal language model of transformers")
        keep_float64(model)
        family = OwnForwardFamily(model)
        if model_type not in OWN_FORWARD and model_type not in ADAPTERS:
            check_pieces(model, family)
    except InvalidInputError as error:
        supported = ", ".join([*ADAPTERS, *OWN_FORWARD])
        raise InvalidInputError(f"{error}; supported are the model types {supported}") from None
    return _fast(family)


def _fast(family: Family) -> Family:
    for block in family.blocks():
        speed_up(block)
    return family
