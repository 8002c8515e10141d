"""A base model by name: its weights and tokenizer, or only its sizes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from zorba_core.errors import InvalidInputError
from zorba_core.models import ModelSpec, spec_from_config
from zorba_core.training.model_source import resolve_model


def load_model(model: str | os.PathLike[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The causal language model and its tokenizer.

    Raises:
        InvalidInputError: the folder or hub repository holds no causal language model with a tokenizer.
        MissingDataError: not found.
    """
    source = resolve_model(model)
    return _open(AutoModelForCausalLM, source), _open(AutoTokenizer, source)


def read_spec(model: str | os.PathLike[str]) -> ModelSpec:
    """M, H, K, alpha and d from the model's config, without loading its weights."""
    source = resolve_model(model)
    return spec_from_config(_open(AutoConfig, source).to_dict(), name=Path(source).name)


def _open(kind: Any, source: str | os.PathLike[str]) -> Any:
    try:
        return kind.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidInputError(f"model {str(source)!r} cannot be loaded: {reason}") from None
