"""Folders in Hugging Face's or PEFT's format: a network's weights written, and adapters read."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from zorba_core.engine.adapters import base_sha256
from zorba_core.engine.blocks import Blocks, block_list, fingerprint_of, is_adapter
from zorba_core.engine.lora import Lora
from zorba_core.errors import InvalidInputError, MissingDataError, in_short
from zorba_core.files import write_json

BASE_FACTS = "base.json"  # beside saved adapters: which weights they belong to
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_MAX_BYTES = 1_000_000


def save_model(network: Blocks, folder: str | os.PathLike[str]) -> str:
    """Write the model in Hugging Face format, adapters merged into the weights beside them.

    Returns:
        The fingerprint of the weights as written: where nothing was merged, that of ``network.weights_sha256``.
    """
    if network.adapted is None:
        separate = copy.deepcopy(network.model)
        _unshare(block_list(separate))
    else:
        separate = copy.deepcopy(network.adapted).merge_and_unload()
    separate.save_pretrained(folder)
    return fingerprint_of(separate.named_parameters())


def save_adapters(network: Blocks, folder: str | os.PathLike[str], base: str) -> None:
    """Write the adapters alone, in PEFT's format, with the fingerprint of the weights that they belong to.

    Args:
        base: what the adapters call their base model.

    Raises:
        InvalidInputError: the blocks' own weights are what is trained.
    """
    if network.adapted is None:
        raise InvalidInputError("this model has no adapters: its blocks' own weights were trained (--train blocks)")
    separate = copy.deepcopy(network.adapted)
    _unshare(block_list(separate.get_base_model()))
    separate.peft_config["default"].base_model_name_or_path = base
    separate.save_pretrained(folder)
    write_json(Path(folder) / BASE_FACTS, {"base": base, "base_weights_sha256": base_sha256(network.model)})


@torch.no_grad()
def begin_from(model: nn.Module, folder: str | os.PathLike[str], lora: Lora) -> None:
    """Give the model's adapters the numbers of saved ones.

    Raises:
        InvalidInputError: they are damaged, or of another base model, rank or other layers.
        MissingDataError: there are none.
    """
    folder = Path(folder)
    config, facts = (_read(folder / name) for name in (ADAPTER_CONFIG, BASE_FACTS))
    if config is None or not (folder / ADAPTER_WEIGHTS).is_file():
        raise MissingDataError(f"{folder} has no adapters: {ADAPTER_CONFIG} and {ADAPTER_WEIGHTS}, as PEFT writes them")
    if facts is not None and facts.get("base_weights_sha256") != base_sha256(model):
        raise InvalidInputError(
            f"the adapters of {folder} are for another base model, {in_short(facts.get('base'))}: its weights have "
            f"another fingerprint than this model's; give that one with --model"
        )
    if (config.get("r"), config.get("lora_alpha")) != (lora.rank, lora.alpha):
        rank, alpha = in_short(config.get("r")), in_short(config.get("lora_alpha"))
        raise InvalidInputError(
            f"the adapters of {folder} have rank {rank} and alpha {alpha}, and rank {lora.rank} and alpha "
            f"{lora.alpha:g} are asked for; add --lora-rank {rank} --lora-alpha {alpha}"
        )
    wanted = {
        f"base_model.model.{name.replace('.default.', '.')}": parameter
        for name, parameter in model.named_parameters()
        if is_adapter(name)
    }
    try:
        saved = load_file(folder / ADAPTER_WEIGHTS)
    except (SafetensorError, OSError):
        raise InvalidInputError(f"{folder / ADAPTER_WEIGHTS} is damaged; write it again") from None
    if {name: tensor.shape for name, tensor in saved.items()} != {name: p.shape for name, p in wanted.items()}:
        raise InvalidInputError(
            f"the adapters of {folder} are for another base model or other layers than this run's: they are beside "
            f"{in_short(config.get('target_modules'), 200)}; check --model and --lora-targets"
        )
    for name, parameter in wanted.items():
        parameter.copy_(saved[name])


def _read(path: Path) -> dict[str, Any] | None:
    """A small JSON object of a folder from outside; None where there is no such file."""
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8")) if path.stat().st_size <= _MAX_BYTES else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidInputError(f"{path} is no JSON object of at most {_MAX_BYTES} bytes")
    return value


def _unshare(blocks: Iterable[nn.Module]) -> None:
    """Parameters that are views of one vector, which safetensors refuses, become tensors of their own."""
    for block in blocks:
        for parameter in block.parameters():
            parameter.data = parameter.data.clone()
