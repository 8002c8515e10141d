"""LoRA through PEFT: small products beside a model's linear layers, trained in place of the blocks' own weights.

The model keeps its modules and its names; PEFT puts a layer of its own around each chosen linear layer. B begins at
zero, so a run begins from the base's own logits. A is drawn from the run's seed by the counter-based noise, so every
client and device has the same bits; its numbers have the variance of PEFT's own.

Shapes: r rank.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from zorba_core.engine import noise
from zorba_core.engine.blocks import block_list, fingerprint_of, is_adapter
from zorba_core.engine.lora import Lora
from zorba_core.errors import MissingDataError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

_SEEDS_OF_ADAPTERS = 2**62  # seeds of directions are below 2**32, those of runs at most 2**60


def with_adapters(model: PreTrainedModel, lora: Lora, seed: int) -> PeftModel:
    """The model, changed in place, with new adapters in every block.

    Raises:
        InvalidInputError: a target names no layer.
        MissingDataError: PEFT is not installed.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingDataError("--train lora needs PEFT: pip install 'zorba-core[lora]'") from None
    blocks = block_list(model)
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
    return adapted


def base_sha256(model: nn.Module) -> str:
    """The fingerprint, in float32, of a model as it was before it got adapters."""
    named = ((name.replace(".base_layer", ""), parameter.float()) for name, parameter in model.named_parameters())
    return fingerprint_of((name, parameter) for name, parameter in named if not is_adapter(name))


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
