"""LoRA (Hu et al., 2021) through PEFT: low-rank matrices that are added to linear layers, and trained instead of the
blocks' weights.

    W x + (alpha / r) B A x          A of shape (r, inputs), B of shape (outputs, r), alpha = 2 r

PEFT wraps each chosen linear layer of the model. B is zero at first, so a run starts with the base model's logits. A is
drawn from the run's seed by the counter-based noise, so every client and device has the same bits; its variance is
PEFT's default.

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
from zorba_core.engine.blocks import block_list
from zorba_core.errors import InvalidInputError, MissingDataError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

# Names of the layers that compute queries and values (some also keys) in transformers: the choice of the LoRA paper.
TARGETS = ("q_proj", "v_proj", "c_attn", "query_key_value", "qkv_proj")
_SEEDS_OF_ADAPTERS = 2**62  # added to the run's seed (at most 2**60); seeds of directions are below 2**32


def with_adapters(model: PreTrainedModel, rank: int, seed: int) -> PeftModel:
    """The model, changed in place, with new adapters of this rank in every block.

    Raises:
        InvalidInputError: the blocks have no layer of :data:`TARGETS`.
        MissingDataError: PEFT is not installed.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingDataError("lora_rank needs PEFT: pip install 'peft>=0.21,<0.22'") from None
    blocks = block_list(model)
    linears = [(name, part) for name, part in model.named_modules() if isinstance(part, (nn.Linear, Conv1D))]
    inside = {id(module) for block in blocks for module in block.modules()}
    wanted = [name for name, part in linears if name.rpartition(".")[2] in TARGETS and id(part) in inside]
    if not wanted:
        own = sorted({name.rpartition(".")[2] for name, part in linears if id(part) in inside})
        raise InvalidInputError(
            f"lora_rank: the blocks of this {model.config.model_type} model have none of the layers "
            f"{', '.join(TARGETS)} (they have {', '.join(own)}); train the blocks with lora_rank 0"
        )
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=wanted,
        lora_dropout=0.0,
        bias="none",
        init_lora_weights=True,
        fan_in_fan_out=isinstance(model.get_submodule(wanted[0]), Conv1D),
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT uses old names of transformers
        adapted = get_peft_model(model, config)
    if next(model.parameters()).device.type != "meta":
        for index, block in enumerate(blocks):
            _initialise(block, index, seed)
    return adapted


@torch.no_grad()
def _initialise(block: nn.Module, index: int, seed: int) -> None:
    start = 0
    for name, parameter in block.named_parameters():
        if ".lora_A." in name:  # PEFT has set B to zero
            values = noise.normals(_SEEDS_OF_ADAPTERS + seed, index, start, start + parameter.numel())
            parameter.copy_(values.view(parameter.shape) / math.sqrt(3 * parameter.shape[1]))
            start += parameter.numel()
