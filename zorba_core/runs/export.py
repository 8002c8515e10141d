"""A run's model as a Hugging Face folder with a card: what anybody can load who has never heard of this suite."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from pathlib import Path

from torch import nn

from zorba_core.engine.blocks import Blocks, block_list, fingerprint_of
from zorba_core.errors import InvalidInputError
from zorba_core.files import atomic_folder, check_new_folder
from zorba_core.runs.card import base_of, model_card
from zorba_core.runs.folder import RunFolder
from zorba_core.runs.models import without_bar
from zorba_core.runs.replay import RunModel, open_model

CARD = "README.md"


def export_run(
    run: str | os.PathLike[str] | RunFolder | RunModel,
    to: str | os.PathLike[str],
    *,
    model: str | None = None,
    adapter: bool = False,
) -> Path:
    """Write the run's fine-tuned model, its tokenizer and a model card to the new folder ``to``, whole or not at all.

    Args:
        model: where the base model lies now, if it is not where the run's config says.
        adapter: of a run with LoRA, write the adapters alone, in PEFT's format.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.runs.replay.open_model`; the folder exists, or
            cannot be written.
    """
    to = Path(to)
    check_new_folder(to)
    tuned = run if isinstance(run, RunModel) else open_model(run, model=model)
    card = model_card(tuned, to.absolute().name, adapter=adapter)
    with tuned.in_use(), without_bar(), atomic_folder(to) as folder:
        if adapter:
            save_adapters(tuned.network, folder, base_of(tuned.run))
        else:
            save_model(tuned.network, folder)
        tuned.tokenizer.save_pretrained(folder)
        (folder / CARD).write_text(card, encoding="utf-8")
    return to


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
    """Write the adapters alone, in PEFT's format.

    Args:
        base: what the adapters call their base model.

    Raises:
        InvalidInputError: the blocks' own weights are what is trained.
    """
    if network.adapted is None:
        raise InvalidInputError(
            "this model has no adapters: its blocks' own weights were trained (without --lora-rank)"
        )
    separate = copy.deepcopy(network.adapted)
    _unshare(block_list(separate.get_base_model()))
    separate.peft_config["default"].base_model_name_or_path = base
    separate.save_pretrained(folder)


def _unshare(blocks: Iterable[nn.Module]) -> None:
    """Parameters that are views of one vector, which safetensors refuses, become tensors of their own."""
    for block in blocks:
        for parameter in block.parameters():
            parameter.data = parameter.data.clone()
