"""Models by name: their folders, and loading them.

A name is one of ``BUNDLED``, a Hugging Face folder, or a name on the hub. Loading runs no code of a model and reads
safetensors only, since a pickled ``.bin`` can run code. Every parameter must come from the files: if one is missing or
has another shape, ``transformers`` draws it at random and prints a table; here the model is refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from zorba_core.errors import InvalidInputError, MissingDataError, first_line, in_short
from zorba_core.installed import artifacts, is_checkout
from zorba_core.tables import LFS_POINTER
from zorba_core.vram import ModelSpec, spec_from_config

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_log = logging.getLogger(__name__)
MODELS_VARIABLE = "ZORBA_MODELS"
# The command that gets each model. The first is a part of the repository and of the wheel.
RESTORE = "git restore artifacts/models" if is_checkout() else "pip install --force-reinstall --no-deps WHEEL"
BUNDLED = {"opt-mini": RESTORE, "smollm2-135m": "zorba get-model smollm2-135m"}
DEFAULT_MODEL, REAL_MODEL = "opt-mini", "smollm2-135m"
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def models_folder() -> Path:
    """The folder ``ZORBA_MODELS``, else the one that came with the project."""
    return _named_folder() or artifacts() / "models"


def fetched_models_folder() -> Path:
    """The folder for fetched models: ``ZORBA_MODELS``, else ``~/.cache/zorba/models``."""
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


def default_model(own_rows: bool) -> str:
    """The base model of a run that names none: for a user's rows ``REAL_MODEL`` if this machine has it, else
    ``DEFAULT_MODEL``."""
    if not own_rows:
        return DEFAULT_MODEL
    if REAL_MODEL in bundled_models():
        return REAL_MODEL
    _log.info(
        "the model is %s, which was trained only on reviews, news and inference; a real one learns other tasks: zorba "
        "get-model %s",
        DEFAULT_MODEL,
        REAL_MODEL,
    )
    return DEFAULT_MODEL


def resolve_model(name_or_path: str | os.PathLike[str]) -> str:
    """The folder of a bundled model (``opt-mini``, ``smollm2-135m``), a local folder, or a hub name unchanged.

    The hub is not queried.

    Raises:
        MissingDataError: a bundled model is missing, or the folder has no model.
        InvalidInputError: neither a folder nor of the form of a hub name.
    """
    name = os.fspath(name_or_path)
    if name in BUNDLED:
        if name not in (here := bundled_models()):
            raise MissingDataError(
                f"model {name} is not in {models_folder() / name}: set {MODELS_VARIABLE} to the folder that has it, "
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
            f"unknown model {name!r}: give {', '.join(BUNDLED)}, a folder that exists (for a run's base model that was "
            "moved: --model FOLDER), or a hub name such as facebook/opt-125m"
        )
    return name


def recorded_model(name_or_path: str | os.PathLike[str]) -> str:
    """The model as a run's config names it: the absolute path of a local folder, since the run may be used in another
    working directory; else the name."""
    name = os.fspath(name_or_path)
    folder = os.path.expanduser(name)
    return os.path.abspath(folder) if name not in BUNDLED and name and os.path.isdir(folder) else name


def load_model(name_or_path: str | os.PathLike[str]) -> PreTrainedModel:
    """The causal language model in evaluation mode, with float32 weights.

    Raises:
        InvalidInputError, MissingDataError: as :func:`resolve_model`; or the weights cannot be fetched or read.
    """
    return _load(name_or_path, "weights", load_complete).eval()


def load_tokenizer(name_or_path: str | os.PathLike[str]) -> PreTrainedTokenizerBase:
    """The model's tokenizer.

    Raises:
        InvalidInputError, MissingDataError: as :func:`resolve_model`; or the tokenizer cannot be fetched or read.
    """
    from transformers import AutoTokenizer

    source = resolve_model(name_or_path)
    if os.path.isdir(source) and (problem := _problem_of_files(Path(source), "tokenizer")):
        raise InvalidInputError(f"model folder {source}: {problem}")  # transformers may make one without words
    return _load(name_or_path, "tokenizer", AutoTokenizer.from_pretrained)


def max_positions(name_or_path: str | os.PathLike[str]) -> int:
    """The most positions of a row. Models with ALiBi have no limit."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(resolve_model(name_or_path), trust_remote_code=False)
    return int(getattr(config, "max_position_embeddings", None) or 2**31)


def hub_spec(source: str) -> ModelSpec:
    """M, H, K, alpha and d of a model on the hub. Only its config is fetched.

    Raises:
        InvalidInputError: ``transformers`` has no such causal language model.
        MissingDataError: the config cannot be fetched.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:  # offline, or a field of any type
        raise MissingDataError(
            f"model {source}: its config cannot be fetched from the hub ({type(error).__name__}); check the name and "
            "the network, or give a local Hugging Face folder"
        ) from None
    return spec_from_config(config, source)


def load_complete(source: str, **options: bool | str) -> PreTrainedModel:
    """The model of a folder or a hub name, in float32, with all parameters from its files.

    Args:
        options: passed on to ``from_pretrained``.

    Raises:
        InvalidInputError: a parameter has a value that is not finite.
        ValueError: a parameter is missing or has another shape, or the folder has adapters; the message does not name
            the folder.
        Exception: any other that ``transformers`` raises.
    """
    import torch
    from transformers import AutoModelForCausalLM

    # transformers would print a table of missing and unused tensors; here one line reports them.
    with _silenced(logging.getLogger("transformers.modeling_utils")):
        model, report = cast(Any, AutoModelForCausalLM).from_pretrained(
            source,
            use_safetensors=True,
            dtype="float32",
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, with its name
            **options,
        )
    if getattr(model, "peft_config", None):  # then the report covers only the adapters
        raise ValueError(
            "it has adapters among its files (adapter_config.json); merge them (merge_and_unload) and save the model"
        )
    parameters = dict(model.named_parameters(remove_duplicate=False))  # with tied ones, which files may leave out
    missing = sorted(name for name in report["missing_keys"] if name in parameters)
    unused = sorted(report["unexpected_keys"])
    if missing:
        raise ValueError(f"{len(missing)} of its parameters are missing in its files, the first is {missing[0]}")
    for name, in_files, in_model in sorted(report["mismatched_keys"]):
        raise ValueError(f"{name} has the shape {tuple(in_files)} and its config asks for {tuple(in_model)}")
    for name, parameter in parameters.items():
        if not torch.isfinite(parameter).all():
            raise InvalidInputError(
                f"model {source}: {name} has NaN or infinity, as after a training that diverged; give an earlier "
                "checkpoint"
            )
    if unused:
        logging.getLogger("zorba").warning(
            "zorba: model %s: %d tensors in its files are none of its parameters and are ignored, the first is %s; "
            "check that config.json belongs to these files", source, len(unused), in_short(unused[0])
        )  # fmt: skip
    return model


def _load(name_or_path: str | os.PathLike[str], what: str, load: Callable[..., Any]) -> Any:
    """Call ``load`` with the model's folder or hub name. ``what`` is its result's name in errors."""
    source = resolve_model(name_or_path)
    local = Path(source).is_dir()
    try:
        with without_bar() if local else contextlib.nullcontext(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Initializing zero-element")  # for a damaged file, which is then refused
            return load(source, trust_remote_code=False, local_files_only=local)
    except InvalidInputError:
        raise
    except Exception as error:  # many kinds: network, missing file, damaged file, remote code
        first = error
    if not local:
        try:  # offline, the cache may have the model
            return load(source, trust_remote_code=False, local_files_only=True)
        except Exception as error:
            raise MissingDataError(
                f"model {source}: there is no such folder, and its {what} cannot be fetched from the hub "
                f"({type(first).__name__}); check the name and the network, fetch it before going offline, "
                "or use opt-mini, which needs no download"
            ) from error
    if problem := _problem_of_files(Path(source), what):
        raise InvalidInputError(f"model folder {source}: {problem}") from first
    pickled = sorted(path.name for pattern in _PICKLED for path in Path(source).glob(pattern))
    if what == "weights" and pickled and not any(Path(source).glob("*.safetensors")):
        raise InvalidInputError(
            f"model folder {source}: its weights are in pickle format ({pickled[0]}), which can run code, and are not "
            "read; if you trust their origin, convert them: AutoModelForCausalLM.from_pretrained(FOLDER)"
            ".save_pretrained(NEW_FOLDER) writes safetensors"
        ) from first
    raise InvalidInputError(
        f"model folder {source}: its {what} cannot be loaded ({first_line(first)}); save model and tokenizer in this "
        "folder with save_pretrained, the weights as safetensors"
    ) from first


def _problem_of_files(folder: Path, what: str) -> str:
    """A sentence about the folder's files if they, and not their content, are the reason of an error; else empty."""
    kinds = ("*.safetensors", "*.bin", "tokenizer*", "*vocab*", "merges.txt", "*.model", "*.tiktoken", "tekken.json")
    for path in (path for kind in kinds for path in sorted(folder.glob(kind))):
        with path.open("rb") as file:
            if file.read(64).startswith(LFS_POINTER):
                return f"{path.name} is a pointer of git-lfs in place of the file; in that folder: git lfs pull"
    if what == "tokenizer" and not any(path for kind in kinds[2:] for path in folder.glob(kind)):
        return (
            "it has no tokenizer (tokenizer.json); save the model's own in it: "
            "AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)"
        )
    if what == "weights" and not any(path for kind in kinds[:2] for path in folder.glob(kind)):
        return "it has no weights (model.safetensors); save the whole model in it with save_pretrained"
    return ""


@contextlib.contextmanager
def _silenced(logger: logging.Logger) -> Iterator[None]:
    """Context manager: drop the records of ``logger``."""

    def drop(record: logging.LogRecord) -> bool:
        return False

    logger.addFilter(drop)
    try:
        yield
    finally:
        logger.removeFilter(drop)


@contextlib.contextmanager
def without_bar() -> Iterator[None]:
    """Context manager: no progress bar, for reading a folder; a download needs one."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
