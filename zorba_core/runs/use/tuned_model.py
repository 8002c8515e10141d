"""The model that a run ended with, and the base model that it began from, both proven by their fingerprints.

The fine-tuned weights come from ``<run>/model`` where the run saved one. Else the log is replayed from the base model,
which takes as long as the run's updates did; the blocks' weights are then kept in ``<run>/replayed.safetensors``, so
that the next time takes no longer than loading the base. A file whose weights are not those of the summary is not used.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerBase

from zorba_core.data.task import Task
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.methods.registry import method_facts
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import atomic_path
from zorba_core.runs.folder import DEFAULT_FOLDER, TRAJECTORY, Request, Run, read_request, read_run
from zorba_core.runs.models import warned_when_accepted
from zorba_core.runs.resume import replay, settings_of
from zorba_core.runs.run_task import task_of
from zorba_core.runs.session import open_network, use_threads

SAVED, REPLAYED = "model", "replayed.safetensors"


@dataclass(eq=False)
class TunedModel:
    """A run's model, loaded. ``network`` has the weights after fine-tuning; :meth:`base` those before."""

    run: Run
    task: Task
    settings: Settings
    tokenizer: PreTrainedTokenizerBase
    network: Blocks
    source: str  # "saved model", "log" or "replayed before"
    base_source: str | None  # where the base model lies, if it is not where the config says
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _base: Blocks | None = field(default=None, repr=False)

    @property
    def label_words(self) -> tuple[str, ...]:
        return tuple(self.run.config["label_words"])

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Computing with its networks: the run's number of threads, and nobody else at the same time."""
        with self._lock, use_threads(self.settings.threads):
            yield

    def base(self) -> Blocks:
        """The base model, loaded when first asked for.

        Raises:
            InvalidInputError, MissingDataError: it is not where the run's config says, or not the one it began with.
        """
        with self._lock:
            if self._base is None:
                self._base = replay(self.run.path, round_index=0, model=self.base_source).network
            return self._base


def finished_run(run: str | os.PathLike[str] | Run) -> Run:
    """The run in this folder, or of this name in the default folder, which must have come to its end.

    Raises:
        MissingDataError: there is no such run; names those that look alike.
        InvalidInputError: it is not finished, or its folder is damaged.
    """
    if not isinstance(run, Run):
        run = read_run(_folder_of(run))
    if not run.finished:
        rounds = run.config.get("rounds", "?")
        done = int(run.metrics["round"].max()) if len(run.metrics) else 0
        raise InvalidInputError(
            f"{run.path}: this run is not finished (round {done} of {rounds} at its last evaluation); "
            f"complete it with: zorba resume {run.path}"
        )
    return run


def open_tuned(
    run: str | os.PathLike[str] | Run, *, model: str | os.PathLike[str] | None = None, adapters: bool = False
) -> TunedModel:
    """The model that a finished run ended with. The last one opened stays in memory.

    Args:
        run: the run, its folder, or its name in the default folder.
        model: where its base model lies now, if it is not where the run's config says.
        adapters: with its adapters apart from the base's weights, as a saved model does not have them.

    Raises:
        MissingDataError, InvalidInputError: as :func:`finished_run`; no adapters where they are asked for; a saved
            model that is damaged or another; no saved model and a log or base model from which it cannot be rebuilt.
    """
    run = finished_run(run)
    if adapters and run.config.get("train") != "lora":
        raise InvalidInputError(
            f"{run.path}: this run trained the blocks' own weights, so it has no adapters to export"
        )
    files = [run.path / name for name in (f"{SAVED}/config.json", TRAJECTORY)]
    stamp = tuple(file.stat().st_mtime_ns if file.is_file() else 0 for file in files)
    return _opened(
        str(run.path.resolve()), run.summary.get("weights_sha256"), stamp, model and os.fspath(model), adapters
    )


@functools.lru_cache(maxsize=1)
def _opened(
    path: str, sha256: str | None, stamp: tuple[int, ...], base_source: str | None, adapters: bool
) -> TunedModel:
    run, request = read_run(path), read_request(path)
    task, saved = task_of(run), run.path / SAVED
    if saved.is_dir() and not adapters:
        settings = _settings_here(request)
        with warned_when_accepted(), use_threads(settings.threads):
            network, tokenizer = open_network(task, saved, run.config["label_words"], settings.without_adapters())
            if settings.lora is not None:  # merged when they were saved
                sha256 = run.summary.get("saved_weights_sha256")
            if sha256 not in (None, network.weights_sha256()):
                raise InvalidInputError(
                    f"{saved} does not hold the weights that the run ended with; put the original back, or remove this "
                    "folder: the model is then rebuilt from the run's log"
                )
        return TunedModel(run, task, settings, tokenizer, network, "saved model", base_source)
    settings = _settings_for_replay(request)
    first_order = method_facts(settings.method).first_order
    rebuilt = None if first_order else _replayed_before(run, sha256, base_source)
    source = "replayed before"
    if rebuilt is None:
        rebuilt, source = replay(run.path, model=base_source), "log"
        if sha256 not in (None, rebuilt.network.weights_sha256()):
            raise InvalidInputError(
                f"{run.path}: the log replays to other weights here than the run ended with; use the machine and "
                "versions that its environment.json records"
            )
        if not first_order:
            _keep(run.path, rebuilt.network)
    return TunedModel(run, task, settings, rebuilt.tokenizer, rebuilt.network, source, base_source)


def _replayed_before(run: Run, sha256: str | None, base_source: str | None):
    """Base model and kept weights; None where no weights are kept, or where they are not the summary's."""
    file = run.path / REPLAYED
    if sha256 is None or not file.is_file():
        return None
    rebuilt = replay(run.path, round_index=0, model=base_source)
    network = rebuilt.network
    try:
        with safe_open(file, "pt") as tensors:
            kept_M = [tensors.get_tensor(f"block.{block}") for block in range(network.num_blocks)]
        with torch.no_grad():
            for block, kept in enumerate(kept_M):
                network.block_weights(block).copy_(kept)
    except (SafetensorError, RuntimeError, OSError):
        return None
    return rebuilt if network.weights_sha256() == sha256 else None


def _keep(folder: Path, network: Blocks) -> None:
    """A convenience: a folder that cannot be written, or a full disk, is no reason to fail."""
    weights = {f"block.{block}": network.block_weights(block) for block in range(network.num_blocks)}
    with contextlib.suppress(OSError, SafetensorError, InvalidInputError), atomic_path(folder / REPLAYED) as temporary:
        save_file(weights, temporary)


def _settings_here(request: Request) -> Settings:
    """The run's settings, on the CPU where its device is missing here."""
    if request.config.get("device") == "cuda" and not torch.cuda.is_available():
        request = request._replace(config={**request.config, "device": "cpu", "precision": "highest"})
    return settings_of(request)


def _settings_for_replay(request: Request) -> Settings:
    if request.config.get("device") == "cuda" and not torch.cuda.is_available():
        raise InvalidInputError(
            f"{request.path}: it was made on a CUDA device and saved no model, and its log replays on such a device "
            "only; use one, or train with --save-model"
        )
    return settings_of(request)


def _folder_of(run: str | os.PathLike[str]) -> Path:
    """The folder; a bare name is looked for in the default folder too."""
    path = Path(run)
    if path.is_dir() or len(path.parts) != 1:
        return path
    named = DEFAULT_FOLDER / path
    if named.is_dir():
        return named
    there = [entry.name for entry in DEFAULT_FOLDER.iterdir() if entry.is_dir()] if DEFAULT_FOLDER.is_dir() else []
    alike = difflib.get_close_matches(path.name, there, n=3, cutoff=0.4)
    hint = f"; did you mean {' or '.join(alike)}?" if alike else ", or a name that zorba runs lists"
    raise MissingDataError(f"run {os.fspath(run)!r} does not exist; give a folder such as {named}{hint}")
