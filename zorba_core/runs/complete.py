"""The middle of every run, new, resumed or federated: a folder, the rounds into its log, the summary."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zorba_core.allocation import Allocation
from zorba_core.allocation.storage import allocation_sha256
from zorba_core.engine.loop import RoundSource, run_rounds
from zorba_core.engine.round import Round
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError
from zorba_core.files import fingerprint, write_json
from zorba_core.runs.folder import SUMMARY, check_name
from zorba_core.runs.log import CONFIG, Log
from zorba_core.runs.memory_meter import MemoryMeter, memory_errors
from zorba_core.runs.replay import saves_weights, write_weights
from zorba_core.runs.summary import summarise

_MOST_REPEATS = 10_000


class Callback:
    """Called during a run. An exception that it raises ends the run, whose folder can be resumed."""

    def on_start(self, folder: Path) -> None:
        """Everything is loaded and checked; the run's folder exists."""

    def on_round(self, done: Round) -> None:
        """The round is in the log; the network holds the weights after it. Round 0 is the base model's evaluation."""


def complete(
    path: Path,
    log: Log,
    source: RoundSource,
    evaluation: Rows,
    callbacks: Sequence[Callback] = (),
    finish: Callable[[], dict[str, Any]] = dict,
    *,
    backs_off: bool = False,
) -> None:
    """Train from the end of the log to the last round, then write the summary.

    Args:
        source: it stands after the log's last round.
        finish: called after the last round; its result is added to the summary.
        backs_off: the learning rate was found by trial rounds, and halves where the evaluation loss rises twice.
    """
    meter = MemoryMeter(source.settings.device)
    for callback in callbacks:
        callback.on_start(path)
    meter.begin()
    with memory_errors():
        for done in run_rounds(source, evaluation, tuple(log.rounds), backs_off=backs_off):
            log.append(done)
            if saves_weights(source.settings) and done.round and done.weights_sha256:
                write_weights(path, source.network, done.round)
            for callback in callbacks:
                callback.on_round(done)
    write_json(path / SUMMARY, {**summarise(source, log.rounds, meter.describe()), **finish()})


def new_folder(
    runs_folder: str | os.PathLike[str], name: str, config: dict[str, Any], environment: dict[str, Any]
) -> Path:
    """Make a run folder that did not exist before, with its config: two runs that start together get two folders."""
    # Of rows of one's own the folder has columns, labels and scalars, so it is for its owner alone.
    private = "task" in config or "federation" in config
    runs_folder, name = Path(runs_folder), f"{check_name(name)}-{fingerprint(config)[:8]}"
    try:
        runs_folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, _MOST_REPEATS):
            path = runs_folder / (name if attempt == 1 else f"{name}-{attempt}")
            try:
                path.mkdir(mode=0o700 if private else 0o777)
            except FileExistsError:
                continue
            write_json(path / CONFIG, {**config, "environment": environment})
            return path
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise InvalidInputError(f"runs folder {str(runs_folder)!r} cannot be used: {error.strerror}") from None
    raise InvalidInputError(f"{runs_folder / name}: already {_MOST_REPEATS} runs of this name and config; remove some")


def allocation_config(allocation: Allocation, origin: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The allocation as a run's config has it."""
    return {
        **(origin or {}),
        "total_blocks": allocation.total_blocks,
        "sha256": allocation_sha256(allocation),
        "blocks_per_client": allocation.blocks_per_client,
    }
