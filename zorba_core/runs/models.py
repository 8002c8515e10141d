"""Models by name: where they lie, how they are loaded, and how a pretrained one is fetched.

A name is one of ``BUNDLED``, a Hugging Face folder, or a name on the hub. Loading never runs code that comes with a
model, and reads safetensors only: a pickled ``.bin`` can run code. Every parameter comes from the files. Where one is
missing, or has another shape, ``transformers`` draws it at random and prints a table, and such a model answers like any
other: here it is refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zorba_core.errors import InvalidInputError, MissingDataError, first_line, in_short
from zorba_core.vram import ModelSpec, spec_from_config

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MODELS_VARIABLE = "ZORBA_MODELS"
# The command that brings each model here. The repository holds the first.
BUNDLED = {"opt-mini": "git restore artifacts/models", "smollm2-135m": "zorba get-model smollm2-135m"}
DEFAULT_MODEL, REAL_MODEL = "opt-mini", "smollm2-135m"
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def models_folder() -> Path:
    """Where the repository has its models: the folder ``ZORBA_MODELS``, else ``artifacts/models`` of the checkout."""
    return _named_folder() or Path(__file__).resolve().parents[2] / "artifacts" / "models"


def fetched_models_folder() -> Path:
    """Where fetched models are written: the folder ``ZORBA_MODELS``, else ``~/.cache/zorba/models``."""
    return _named_folder() or _user_folder()


def _named_folder() -> Path | None:
    named = os.environ.get(MODELS_VARIABLE)
    return Path(os.path.expanduser(named)) if named else None


def _user_folder() -> Path:
    return Path(os.path.expanduser("~/.cache/zorba/models"))


def bundled_models() -> dict[str, Path]:
    """The models of ``BUNDLED`` that are on this machine, by name: in :func:`models_folder` or the user's cache."""
    places = (models_folder(), _user_folder())
    here = {name: folder / name for folder in reversed(places) for name in BUNDLED if _is_model(folder / name)}
    return {name: here[name] for name in BUNDLED if name in here}


def _is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def default_model(own_rows: bool, notice: Callable[[str], None] = lambda line: None) -> str:
    """The base model where none is named: for rows of one's own a real one, where it is on this machine."""
    if not own_rows or REAL_MODEL in bundled_models():
        return REAL_MODEL if own_rows else DEFAULT_MODEL
    notice(
        f"the model is {DEFAULT_MODEL}, which knows only reviews, news and inference; a real one learns other tasks: "
        f"zorba get-model {REAL_MODEL}"
    )
    return DEFAULT_MODEL


def resolve_model(name_or_path: str | os.PathLike[str]) -> str:
    """The folder of a bundled model (``opt-mini``, ``smollm2-135m``) or a local one, or the hub's name as given.

    Whether the hub has it is known only when it is loaded.

    Raises:
        MissingDataError: a bundled model that is not there, or a path that is no model folder.
        InvalidInputError: neither a folder nor what a hub's name looks like.
    """
    name = os.fspath(name_or_path)
    if name in BUNDLED:
        if name not in (here := bundled_models()):
            raise MissingDataError(
                f"model {name} is not in {models_folder() / name}: set {MODELS_VARIABLE} to the folder that holds it, "
                f"or get it with {BUNDLED[name]}"
            )
        return str(here[name])
    folder = Path(os.path.expanduser(name))
    if name and folder.is_dir():  # Path("") is the working directory
        if not _is_model(folder):
            raise MissingDataError(f"{name} is no model folder: it has no config.json (save_pretrained writes one)")
        return str(folder)
    parts = name.split("/")
    if len(parts) != 2 or not all(parts) or name.startswith((".", "~")) or folder.suffix == ".json":
        raise InvalidInputError(
            f"unknown model {name!r}: give {', '.join(BUNDLED)}, a folder that exists, "
            "or a hub name such as facebook/opt-125m"
        )
    return name


def load_model(name_or_path: str | os.PathLike[str]) -> PreTrainedModel:
    """The causal language model in evaluation mode, its weights in float32.

    Raises:
        InvalidInputError, MissingDataError: as :func:`resolve_model`; or the weights cannot be had or read.
    """
    return _load(name_or_path, "weights", load_complete).eval()


def load_tokenizer(name_or_path: str | os.PathLike[str]) -> PreTrainedTokenizerBase:
    """The model's tokenizer.

    Raises:
        InvalidInputError, MissingDataError: as :func:`resolve_model`; or the tokenizer cannot be had or read.
    """
    from transformers import AutoTokenizer

    return _load(name_or_path, "tokenizer", AutoTokenizer.from_pretrained)


def hub_spec(source: str) -> ModelSpec:
    """M, H, K, alpha and d of a model on the hub, whose config alone is fetched.

    Raises:
        InvalidInputError: it is no causal language model that ``transformers`` knows.
        MissingDataError: the hub did not give its config.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:  # of fields of any kind
        raise MissingDataError(
            f"model {source}: the hub did not give its config ({type(error).__name__}); check the name and "
            "the network, or give a local Hugging Face folder"
        ) from None
    return spec_from_config(config, source)


def load_complete(source: str, **options: bool | str) -> PreTrainedModel:
    """The model of a folder, or of a name on the hub, in float32. Options are those of ``from_pretrained``.

    Raises:
        InvalidInputError: a parameter holds a number that is not finite.
        ValueError: a parameter is missing or has another shape; or there are adapters among the files. The message
            does not name the folder.
        Exception: any other that ``transformers`` raises.
    """
    import torch
    from transformers import AutoModelForCausalLM

    # The table and the guesses of transformers are one line here.
    with _filtered(logging.getLogger("transformers.modeling_utils"), lambda record: False):
        model, report = AutoModelForCausalLM.from_pretrained(
            source,
            use_safetensors=True,
            dtype="float32",
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, with its name
            **options,
        )
    if getattr(model, "peft_config", None):  # then the report is about the adapters alone
        raise ValueError(
            "it has adapters among its files (adapter_config.json); merge them (merge_and_unload) and save the model"
        )
    parameters = dict(model.named_parameters(remove_duplicate=False))  # a tied head is in no report of missing ones
    missing = sorted(name for name in report["missing_keys"] if name in parameters)
    unused = sorted(report["unexpected_keys"])
    if missing:
        raise ValueError(_missing(missing, unused))
    for name, in_files, in_model in sorted(report["mismatched_keys"]):
        raise ValueError(f"{name} has the shape {tuple(in_files)} and its config asks for {tuple(in_model)}")
    for name, parameter in parameters.items():
        if not torch.isfinite(parameter).all():
            raise InvalidInputError(
                f"model {source}: {name} holds NaN or infinity, as after a training that diverged; take weights from "
                "before that"
            )
    if unused:
        logging.getLogger("zorba").warning(
            "zorba: model %s: its files have %d tensors that are none of its parameters, the first %s; they are left "
            "out: check that config.json belongs to these files", source, len(unused), in_short(unused[0])
        )  # fmt: skip
    return model


def _missing(names: list[str], unused: list[str]) -> str:
    for wrapper, prefix in (("torch.compile", "_orig_mod."), ("DistributedDataParallel", "module.")):
        if unused and all(name.startswith(prefix) for name in unused):
            return f"the names in its files begin with {prefix}, which {wrapper} puts there: save the model inside it"
    return f"its files lack {len(names)} of its parameters, the first {names[0]}"


def _load(name_or_path: str | os.PathLike[str], what: str, load: Callable[..., Any]) -> Any:
    """What ``load`` makes of the model's folder or hub name; ``what`` names it in errors."""
    source = resolve_model(name_or_path)
    local = Path(source).is_dir()
    try:
        with without_bar() if local else contextlib.nullcontext(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Initializing zero-element")  # of a damaged file, which is then refused
            return load(source, trust_remote_code=False, local_files_only=local)
    except InvalidInputError:
        raise
    except Exception as error:  # the loaders raise many kinds: network, missing file, broken file, remote code refused
        first = error
    if not local:
        try:  # the network is down, and the model was fetched before
            return load(source, trust_remote_code=False, local_files_only=True)
        except Exception as error:
            raise MissingDataError(
                f"model {source}: it is no folder here and the hub did not give its {what} "
                f"({type(first).__name__}); check the name and the network, fetch it before going offline, "
                "or use opt-mini, which needs no download"
            ) from error
    pickled = sorted(path.name for pattern in _PICKLED for path in Path(source).glob(pattern))
    if what == "weights" and pickled and not any(Path(source).glob("*.safetensors")):
        raise InvalidInputError(
            f"model folder {source}: its weights are in pickle format ({pickled[0]}), which can run code, and are not "
            "read; if you trust their origin, convert them once: AutoModelForCausalLM.from_pretrained(FOLDER)"
            ".save_pretrained(NEW_FOLDER) writes safetensors"
        ) from first
    raise InvalidInputError(
        f"model folder {source}: its {what} cannot be loaded ({first_line(first)}); it must be saved with "
        "save_pretrained, weights as safetensors and the tokenizer beside them"
    ) from first


@contextlib.contextmanager
def warned_when_accepted() -> Iterator[None]:
    """Context manager: warnings about a model wait until the checks within have passed. A refused model gets its one
    line alone."""
    later: list[logging.LogRecord] = []

    def keep(record: logging.LogRecord) -> bool:
        later.append(record)
        return False

    logger = logging.getLogger("zorba")
    with _filtered(logger, keep):
        yield
    for record in later:
        logger.handle(record)


@contextlib.contextmanager
def _filtered(logger: logging.Logger, wanted: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)


@contextlib.contextmanager
def without_bar() -> Iterator[None]:
    """Reading a folder takes no time worth a progress bar; a download does and keeps its own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
