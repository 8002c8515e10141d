"""The model after any round of a run, computed from the base model and the log; and the base model.

Clients of FedIT send weights, so its log cannot restore them; a run on a GPU replays to the same bits only on a GPU.
Such runs save the trained weights of their last evaluation in ``weights.safetensors``. The first replay of another
run's last round writes this file too, and the next one only loads it. File and replay are checked against the
fingerprints in the log.

Shapes: M blocks, T rounds.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerBase

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.course import Course, path
from zorba_core.engine.loop import BestWeights, TrainState, init, repeat_round
from zorba_core.engine.parts import method_facts
from zorba_core.engine.round import Round
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.files import atomic_path
from zorba_core.runs.folder import RunFolder, finished_folder, read_folder
from zorba_core.runs.load import open_network, use_threads
from zorba_core.runs.log import LOG

_log = logging.getLogger(__name__)
WEIGHTS = "weights.safetensors"


@dataclass(eq=False)
class RunModel:
    """The model after one round of a run; :meth:`base` is the model before training."""

    run: RunFolder
    round: int
    settings: Settings
    network: Blocks
    tokenizer: PreTrainedTokenizerBase
    checked_at: int | None  # the last round whose fingerprint in the log was compared
    base_source: str | None  # folder of the base model, if it is not the one in the config
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _base: Blocks | None = field(default=None, repr=False)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Context manager: compute with the networks, with the run's number of CPU threads, one caller at a time."""
        with self._lock, use_threads(self.run.request.threads):
            yield

    def base(self) -> Blocks:
        """The base model, loaded at the first call.

        Raises:
            InvalidInputError, MissingDataError: as :func:`open_base`.
        """
        with self._lock:
            if self._base is None:
                self._base = open_base(self.run, self.settings, self.base_source)[0]
            return self._base


def open_model(run: str | os.PathLike[str] | RunFolder, *, model: str | os.PathLike[str] | None = None) -> RunModel:
    """The final model of a finished run. The last opened model stays in memory.

    Args:
        run: the run, its folder, or its name in the default folder.
        model: folder of the base model, if it is not the one in the run's config.

    Raises:
        MissingDataError, InvalidInputError: as :func:`replay`, or the run is not finished.
    """
    run = finished_folder(run)
    stamp = (run.path / LOG).stat().st_mtime_ns
    return _opened(str(run.path.resolve()), stamp, model and os.fspath(model))


@functools.lru_cache(maxsize=1)
def _opened(path: str, stamp: int, base_source: str | None) -> RunModel:
    return replay(path, model=base_source)


def replay(
    run: str | os.PathLike[str] | RunFolder,
    round_index: int | None = None,
    *,
    model: str | os.PathLike[str] | None = None,
) -> RunModel:
    """The model after ``round_index`` rounds (0: the base; None: the last). The run may still be in progress.

    Args:
        model: folder of the base model, if it is not the one in the run's config.

    Raises:
        MissingDataError, InvalidInputError: no such run, base model or round; the end of the log is damaged and
            ``round_index`` is None; the replayed weights differ from the run's.
    """
    run = read_folder(run)
    target = run.final_round if round_index is None else round_index
    _check_target(run, target, round_index is not None)
    at = weights_round(run.path)
    settings = _settings_here(run, at == target)
    with use_threads(run.request.threads):
        network, tokenizer = open_base(run, settings, model)
        if target and not (at == target and read_weights(run.path, network, run.rounds)):
            if method_facts(settings.method).first_order:
                saved = f"rounds 0 and {at}" if at not in (0, target) else f"round 0: {WEIGHTS} is missing or damaged"
                raise InvalidInputError(
                    f"{run.path}: {settings.method} exchanges weights, so its log has no scalars to replay; there is "
                    f"only {saved}"
                )
            replay_rounds(run, network, settings, target)
            if run.finished and target == run.final_round:
                with contextlib.suppress(OSError, RunError, InvalidInputError):  # only a cache: a full disk is no error
                    write_weights(run.path, network, target)
    checked = [done.round for done in run.rounds[: target + 1] if done.weights_sha256]
    return RunModel(
        run,
        target,
        settings,
        network,
        tokenizer,
        max(checked, default=None),
        None if model is None else os.fspath(model),
    )


@torch.no_grad()
def replay_rounds(
    run: RunFolder, network: Blocks, settings: Settings, target: int, best: BestWeights | None = None
) -> TrainState:
    """Apply the rounds of the log that lead to ``target`` to the base weights in ``network``, in place.

    Args:
        best: gets a copy of the weights after the best evaluated round, if that is one of them.

    Raises:
        InvalidInputError: the fingerprint of the weights differs from the log's.
    """
    state, rounds = init(network, settings), path(run.rounds, target)
    checked = max((done.round for done in rounds if done.weights_sha256), default=0)
    keep = Course(run.rounds).best
    if best is not None and keep == 0:
        best.keep(network, state)
    for done in rounds:
        state = repeat_round(state, done, network, run.allocation, settings)
        if done.round == checked and network.weights_sha256() != done.weights_sha256:
            raise InvalidInputError(
                f"{run.path}: round {done.round} replays to other weights here than where the run was made; use the "
                "processor, device and versions in its config.json"
            )
        if best is not None and done.round == keep:
            best.keep(network, state)
    return state


def open_base(
    run: RunFolder, settings: Settings, model: str | os.PathLike[str] | None = None
) -> tuple[Blocks, PreTrainedTokenizerBase]:
    """The base model of a run.

    Raises:
        InvalidInputError, MissingDataError: it is missing, or its fingerprint differs from that in the run's config.
    """
    source = run.request.model if model is None else model
    network, tokenizer = open_network(source, settings)
    actual, expected = network.weights_sha256(), run.environment["base_weights_sha256"]
    if actual != expected:
        raise InvalidInputError(
            f"{os.fspath(source)} is not the base model of {run.path}: its weights have the fingerprint "
            f"{actual[:16]}, the run's base had {expected[:16]}; give the right model with --model"
        )
    return network, tokenizer


def saves_weights(settings: Settings) -> bool:
    """Whether a run must save its weights, because its log cannot restore them on every machine."""
    return method_facts(settings.method).first_order or settings.device == "cuda"


def write_weights(folder: Path, network: Blocks, round_index: int, best: BestWeights | None = None) -> None:
    """Write the trained weights after a round to the run's folder, in place of the former file; and those of the best
    evaluated round, if they are others.

    Raises:
        RunError: the disk is full, or fails; the former file is unchanged.
    """
    weights = {f"block.{m}": network.block_weights(m) for m in range(network.num_blocks)}
    metadata = {"round": str(round_index)}
    if best is not None and best.state is not None and best.state.rounds_done != round_index:
        weights |= {f"best.{m}": part for m, part in enumerate(best.weights_M)}
    try:
        with atomic_path(folder / WEIGHTS) as temporary:
            save_file(weights, temporary, metadata=metadata)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{folder / WEIGHTS} cannot be written ({error}); make room and resume the run") from None


def weights_round(folder: Path) -> int:
    """The round of the folder's weights file; 0 if it is missing or damaged."""
    try:
        with safe_open(folder / WEIGHTS, "pt") as file:
            return int(file.metadata()["round"])
    except (SafetensorError, KeyError, TypeError, ValueError, OSError):
        return 0


@torch.no_grad()
def read_weights(
    folder: Path, network: Blocks, rounds: Sequence[Round], best: tuple[BestWeights, TrainState] | None = None
) -> bool:
    """Load the folder's weights into the network, which has the base's. If the file is damaged or its fingerprint
    differs from the log's, return False and leave the base's weights.

    Args:
        best: gets a copy of the best round's weights, with its state.
    """
    base_M = [network.block_weights(m).clone() for m in range(network.num_blocks)]

    def load(kind: str) -> None:
        for m in range(network.num_blocks):
            network.block_weights(m).copy_(file.get_tensor(f"{kind}.{m}"))

    with contextlib.suppress(SafetensorError, RuntimeError, OSError), safe_open(folder / WEIGHTS, "pt") as file:
        if best is not None:
            load("best" if "best.0" in file.keys() else "block")  # noqa: SIM118  not a mapping
            best[0].keep(network, best[1])
        load("block")
        if network.weights_sha256() == rounds[weights_round(folder)].weights_sha256:
            return True
    network.copy_to_blocks(base_M)
    return False


def _check_target(run: RunFolder, target: int, named: bool) -> None:
    lost = run.summary.get("rounds_done", 0) - run.rounds_done
    problem = f"the end of {run.path / LOG} is damaged: its last {lost} rounds are missing"
    if lost > 0 and not named:
        raise InvalidInputError(f"{problem}; restore it, or give a round up to {run.rounds_done} with --round")
    if not 0 <= target <= run.rounds_done:
        more = f"; {problem}" if lost > 0 else ""
        raise InvalidInputError(f"round {target} is not in the log of {run.path}: it has 0 to {run.rounds_done}{more}")
    if lost > 0:
        _log.warning("%s", problem)


def _settings_here(run: RunFolder, has_weights: bool) -> Settings:
    """The run's settings, with device CPU if its CUDA device is missing here and its weights were saved.

    Raises:
        InvalidInputError: the CUDA device is missing and no weights were saved.
    """
    if run.request.settings.device != "cuda" or torch.cuda.is_available():
        return run.settings
    if not has_weights:
        raise InvalidInputError(
            f"{run.path}: it was made on a CUDA device, and its log replays to the same bits on such a device only; "
            "replay it there"
        )
    return run.settings_with(device="cpu", precision="highest")
