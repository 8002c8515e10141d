"""Load a causal language model whose every parameter is in its files.

``transformers`` draws a parameter that the files lack, or have in another shape, at random and prints a table. Such a
model answers like any other, so it is refused here.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from zorba_core.errors import InvalidInputError, in_short

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_complete(source: str, **options: bool) -> PreTrainedModel:
    """The model of a folder, or of a name on the hub.

    Raises:
        InvalidInputError: a parameter holds a number that is not finite.
        ValueError: a parameter is missing or has another shape; or there are adapters among the files. The message
            does not name the folder.
        Exception: any other that ``transformers`` raises.
    """
    import torch
    from transformers import AutoModelForCausalLM

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
    left = sorted(report["unexpected_keys"])
    if missing:
        raise ValueError(_missing(missing, left))
    for name, in_files, in_model in sorted(report["mismatched_keys"]):
        raise ValueError(f"{name} has the shape {tuple(in_files)} and its config asks for {tuple(in_model)}")
    for name, parameter in parameters.items():
        if not torch.isfinite(parameter).all():
            raise InvalidInputError(
                f"model {source}: {name} holds NaN or infinity, as after a training that diverged; take weights from "
                "before that"
            )
    if left:
        logging.getLogger("zorba").warning(
            "zorba: model %s: its files have %d tensors that are none of its parameters, the first %s; they are left "
            "out: check that config.json belongs to these files", source, len(left), in_short(left[0])
        )  # fmt: skip
    return model


def _missing(names: list[str], left: list[str]) -> str:
    for wrapper, prefix in (("torch.compile", "_orig_mod."), ("DistributedDataParallel", "module.")):
        if left and all(name.startswith(prefix) for name in left):
            return f"the names in its files begin with {prefix}, which {wrapper} puts there: save the model inside it"
    return f"its files lack {len(names)} of its parameters, the first {names[0]}"


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
    """Without the table and the guesses of ``transformers``: what matters of them is said in one line."""
    return _filtered(logging.getLogger("transformers.modeling_utils"), lambda record: False)


@contextlib.contextmanager
def _filtered(logger: logging.Logger, wanted: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)
