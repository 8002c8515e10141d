"""Resolve a model's name to a folder, or a hub's name, that ``transformers`` loads; and load it.

Loading never runs code that comes with a model, and reads safetensors only: a pickled ``.bin`` can run code. Every
parameter comes from the files: what they lack is refused, never drawn at random
(:mod:`zorba_core.runs.complete_weights`).
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from zorba_core.errors import InvalidInputError, MissingDataError, first_line
from zorba_core.vram import ModelSpec, spec_from_config

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

MODELS_VARIABLE = "ZORBA_MODELS"
BUNDLED = {"opt-mini": "full", "llama-mini": "llama"}  # by name, the profile of zorba make-base that makes it
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def models_folder() -> Path:
    """Where bundled models lie: the folder ``ZORBA_MODELS``, else ``artifacts/models`` of the checkout."""
    named = os.environ.get(MODELS_VARIABLE)
    return Path(os.path.expanduser(named)) if named else Path(__file__).resolve().parents[2] / "artifacts" / "models"


def resolve_model(name_or_path: str | os.PathLike[str]) -> str:
    """The folder of a bundled model (``opt-mini``, ``llama-mini``) or a local one, or the hub's name as given.

    Whether the hub has it is found out only when it is loaded.

    Raises:
        MissingDataError: a bundled model that is not there, or a path that is no model folder.
        InvalidInputError: neither a folder nor what a hub's name looks like.
    """
    name = os.fspath(name_or_path)
    if name in BUNDLED:
        folder = models_folder() / name
        if not (folder / "config.json").is_file():
            raise MissingDataError(
                f"model {name} is not in {folder}: set {MODELS_VARIABLE} to the folder that holds it, "
                f"or make it with zorba make-base --profile {BUNDLED[name]} --out {folder}"
            )
        return str(folder)
    folder = Path(os.path.expanduser(name))
    if name and folder.is_dir():  # Path("") is the working directory
        if not (folder / "config.json").is_file():
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
    from zorba_core.runs.complete_weights import load_complete

    return _load(name_or_path, "weights", load_complete).eval()


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


def load_tokenizer(name_or_path: str | os.PathLike[str]) -> PreTrainedTokenizerBase:
    """The model's tokenizer.

    Raises:
        InvalidInputError, MissingDataError: as :func:`resolve_model`; or the tokenizer cannot be had or read.
    """
    from transformers import AutoTokenizer

    return _load(name_or_path, "tokenizer", AutoTokenizer.from_pretrained)


def max_positions(name_or_path: str | os.PathLike[str]) -> int | None:
    """The longest sequence that the model was made for, where its config says so.

    Raises:
        InvalidInputError, MissingDataError: as :func:`resolve_model`; or the config cannot be had or read.
    """
    return getattr(load_config(name_or_path), "max_position_embeddings", None)


def load_config(name_or_path: str | os.PathLike[str]) -> PretrainedConfig:
    """The model's config.

    Raises:
        InvalidInputError, MissingDataError: as :func:`resolve_model`; or it cannot be had or read.
    """
    from transformers import AutoConfig

    return _load(name_or_path, "config", AutoConfig.from_pretrained)


def _load(name_or_path, what, load):
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
