"""LoRA through PEFT: small products beside a model's linear layers, trained in place of the blocks' own weights.

The model keeps its modules and its names; PEFT puts a layer of its own around each chosen linear layer. B begins at
zero, so a run begins from the base's own logits. A is drawn from the run's seed by the counter-based noise, so every
client and device has the same bits; its numbers have the variance of PEFT's own.

Shapes: r rank.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from zorba_core.engine import noise
from zorba_core.engine.families import family_of
from zorba_core.errors import InvalidInputError, MissingDataError, in_short
from zorba_core.planning.lora import Lora

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

BASE_FACTS = "base.json"  # beside saved adapters: which weights they belong to
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_MAX_BYTES = 1_000_000
_SEEDS_OF_ADAPTERS = 2**62  # seeds of directions are below 2**32, those of runs at most 2**60


def with_adapters(model: PreTrainedModel, lora: Lora, seed: int, start: str = "") -> PeftModel:
    """The model, changed in place, with adapters in every block.

    Args:
        start: a folder of saved adapters to begin from, in place of new ones.

    Raises:
        InvalidInputError: a target names no layer; saved adapters of another base model, rank or layers.
        MissingDataError: PEFT is not installed.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingDataError("--train lora needs PEFT: pip install 'zorba-core[lora]'") from None
    blocks = family_of(model).blocks()
    linears = [name for name, module in blocks[0].named_modules() if isinstance(module, (nn.Linear, Conv1D))]
    chosen = set(lora.layers(linears))
    names = {id(module): name for name, module in model.named_modules()}
    wanted = [names[id(module)] for block in blocks for name, module in block.named_modules() if name in chosen]
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=wanted,
        lora_dropout=0.0,
        bias="none",
        init_lora_weights=True,
        fan_in_fan_out=isinstance(model.get_submodule(wanted[0]), Conv1D),
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of PEFT's about transformers' names
        adapted = get_peft_model(model, config)
    if next(model.parameters()).device.type != "meta":
        for index, block in enumerate(blocks):
            _initialise(block, index, seed)
    if start:
        _begin_from(model, Path(start), lora)
    return adapted


def is_adapter(name: str) -> bool:
    """Is the parameter of that name a number of an adapter?"""
    return ".lora_A." in name or ".lora_B." in name


def fingerprint_of(named_parameters: Iterable[tuple[str, Tensor]]) -> str:
    """SHA-256 of every parameter's bits, by name."""
    digest = hashlib.sha256()
    for name, parameter in sorted(named_parameters):
        digest.update(f"{name} {parameter.dtype} {tuple(parameter.shape)}\n".encode())
        digest.update(parameter.detach().contiguous().cpu().view(torch.uint8).numpy())
    return digest.hexdigest()


def base_sha256(model: nn.Module) -> str:
    """The fingerprint, in float32, of a model as it was before it got adapters."""
    named = ((name.replace(".base_layer", ""), parameter.float()) for name, parameter in model.named_parameters())
    return fingerprint_of((name, parameter) for name, parameter in named if not is_adapter(name))


@torch.no_grad()
def _begin_from(model: nn.Module, folder: Path, lora: Lora) -> None:
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
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidInputError(f"{path} is no JSON object of at most {_MAX_BYTES} bytes")
    return value


@torch.no_grad()
def _initialise(block: nn.Module, index: int, seed: int) -> None:
    start = 0
    for name, parameter in block.named_parameters():
        if ".lora_B." in name:
            parameter.zero_()
        elif ".lora_A." in name:
            stop = start + parameter.numel()
            values = noise.normals(_SEEDS_OF_ADAPTERS + seed, index, start, stop)
            parameter.copy_(values.view(parameter.shape) / math.sqrt(3 * parameter.shape[1]))
            start = stop
