"""Load a causal language model whose every parameter is in its files.

``transformers`` draws a parameter that the files lack, or have in another shape, at random and prints a table. Such a
model answers like any other, so it is refused here.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from zorba_core.errors import InvalidInputError, in_short

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
_MOST_INDEX = 10**8  # bytes


def load_complete(source: str, config: PretrainedConfig, **options: bool) -> PreTrainedModel:
    """The model of a folder, or of a name on the hub.

    Raises:
        InvalidInputError: the index of the files cannot be read, or names one outside the folder.
        ValueError: a parameter is missing or has another shape; or there are adapters among the files. The message
            does not name the folder.
        Exception: any other that ``transformers`` raises.
    """
    from transformers import AutoModelForCausalLM

    if any((Path(source) / name).is_file() for name in (SINGLE, INDEX)):
        _check_size(paths_in(source), config)
    with _without_report():
        model, report = AutoModelForCausalLM.from_pretrained(
            source,
            use_safetensors=True,
            dtype="float32",
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, with its name
            **options,
        )
    if getattr(model, "peft_config", None):  # then the report is about the adapters alone
        raise ValueError("it has adapters among its files (adapter_config.json); give them apart, as --adapter")
    parameters = dict(model.named_parameters(remove_duplicate=False))  # a tied head was taken off the missing ones
    missing = sorted(name for name in report["missing_keys"] if name in parameters)
    if missing:
        raise ValueError(_missing(missing))
    for name, in_files, in_model in sorted(report["mismatched_keys"]):
        raise ValueError(f"{name} has the shape {tuple(in_files)} and its config asks for {tuple(in_model)}")
    left = sorted(report["unexpected_keys"])
    if left:
        logging.getLogger("zorba").warning(
            "zorba: model %s: its files have %d tensors that are none of its parameters, the first %s; they are left "
            "out: check that config.json belongs to these files", source, len(left), in_short(left[0])
        )  # fmt: skip
    return model


def paths_in(folder: str | os.PathLike[str]) -> list[Path]:
    """The safetensors files of a model's folder: one, or where that is not there those that its index names.

    Raises:
        InvalidInputError: the index cannot be read or names a file outside the folder.
    """
    folder = Path(folder)
    index = folder / INDEX
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    try:
        if index.stat().st_size > _MOST_INDEX:
            raise ValueError("it is larger than any index")
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        if not names or any(Path(name).name != name or name in ("", "..") for name in names):
            raise ValueError("it names files outside the folder")
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise InvalidInputError(f"{index} cannot be read: {error}") from None
    return [folder / name for name in names]


def _missing(names: list[str]) -> str:
    return f"its files lack {len(names)} of its parameters, the first {names[0]}"


def _check_size(paths: Iterable[Path], config: PretrainedConfig) -> None:
    """Refuse a config that asks for more numbers than the files have bytes, before memory is taken for them.

    Raises:
        ValueError: names what is missing.
    """
    import torch
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM

    paths = list(paths)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    size = sum(path.stat().st_size for path in paths)
    if numbers <= size:
        return
    stored: set[str] = set()
    for path in paths:
        with safe_open(path, "pt") as file:
            stored.update(file.keys())
    prefix = f"{model.base_model_prefix}."
    missing = [name for name, _ in model.named_parameters() if not {name, name.removeprefix(prefix)} & stored]
    if missing:
        raise ValueError(_missing(missing))
    raise ValueError(f"its config asks for {numbers:,} numbers and its files have {size:,} bytes")


@contextlib.contextmanager
def warned_when_accepted() -> Iterator[None]:
    """What is to be looked at in a model that is loaded here is said once the checks within the context have passed: a
    model that is refused gets its one line alone."""
    later: list[logging.LogRecord] = []

    def keep(record: logging.LogRecord) -> bool:
        later.append(record)
        return False

    logger = logging.getLogger("zorba")
    with _filtered(logger, keep):
        yield
    for record in later:
        logger.handle(record)


def _without_report() -> contextlib.AbstractContextManager[None]:
    """Without the table of ``transformers``: what matters of it is said in one line."""
    logger = logging.getLogger("transformers.modeling_utils")
    return _filtered(logger, lambda record: "LOAD REPORT" not in record.getMessage())


@contextlib.contextmanager
def _filtered(logger: logging.Logger, wanted: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)
