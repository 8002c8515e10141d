"""Resume an interrupted run, in its own folder.

Each random choice of a run has the key (seed, round, client), so the next round depends only on the weights, the round
and the method's state. Base model and log give all three. So a resumed run ends with the same bits as one that was not
interrupted, on the same kind of processor with the same versions, threads and estimator.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from zorba_core.engine.course import Course
from zorba_core.engine.loop import Training, TrainState, init
from zorba_core.engine.parts import method_facts
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError
from zorba_core.files import remove_leftovers
from zorba_core.logs import shown
from zorba_core.runs.folder import SUMMARY, RunFolder, read_folder
from zorba_core.runs.load import check_files, check_rows, federated_rows, use_threads, with_data
from zorba_core.runs.log import Log
from zorba_core.runs.record import Callback, complete, environment_of
from zorba_core.runs.replay import open_base, read_weights, replay_rounds, weights_round
from zorba_core.runs.terminal import Progress

_log = logging.getLogger(__name__)
# Parts of a run's environment that can change the last bits of its weights.
_DECIDE_BITS = ("engine_version", "torch", "transformers", "numpy", "platform", "cpu_capability", "device")


def resume(
    run: str | os.PathLike[str] | RunFolder,
    *,
    model: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    test: str | os.PathLike[str] | None = None,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> Path:
    """Continue a run that was killed, interrupted or failed, in its own folder.

    Args:
        run: the run, its folder, or its name in the default folder.
        model: folder of the base model, if it is not the one in the run's config.
        data, test: files of the user's rows, if they are not those in the run's config.
        quiet: show no log and no progress bar.

    Raises:
        MissingDataError, InvalidInputError: no such run; it is finished, or another process is writing it; its log is
            damaged; base model, rows or config have changed.
        RunError: the run diverged.
    """
    run = read_folder(run)
    settings = run.settings
    if run.request.federation is not None:
        raise InvalidInputError(f"{run.path}: this run is a federated one; resume it with: zorba resume {run.path}")
    check_unfinished(run)
    task = with_data(run.trained_task, data, test)
    check_files(run.environment["data"].get("files", {}), task, run.path)
    progress = Progress(settings.rounds, task.counted, quiet=quiet)
    with shown(quiet), Log(run.path) as log, use_threads(run.request.threads), progress:
        run = _reopened(run, log, settings)
        network, tokenizer = open_base(run, settings, model)
        rows, described = federated_rows(task, tokenizer, run.allocation.num_clients, settings, **run.request.divided)
        check_rows(described, run.environment["data"], run.path, "train", "evaluation")
        training = Training.local(network, run.allocation, rows, settings)
        if method_facts(settings.method).first_order:
            state = _from_weights(run, log, training)
        else:
            state = replay_rounds(run, network, settings, run.resumes_from, training.best)
        complete(run.path, log, training, [progress, *callbacks], state=state)
    return run.path


def _from_weights(run: RunFolder, log: Log, training: Training) -> TrainState:
    """Load the last saved weights of a run whose log cannot rebuild them, and cut the log back to their round."""
    network, state = training.network, init(training.network, training.settings)
    at = weights_round(run.path)
    rounds = run.rounds[: at + 1]
    best_state = replace(state, rounds_done=Course(rounds).best)
    is_read = at <= run.rounds_done and read_weights(run.path, network, run.rounds, (training.best, best_state))
    at = at if is_read else 0
    if not at:
        training.best.keep(network, state)
    if at < run.rounds_done:
        _log.info(f"rounds after round {at}, the last with saved weights, are computed again")
        log.cut_back(at)
    return replace(state, rounds_done=at, method_state=run.rounds[at].method_state) if at else state


def check_unfinished(run: RunFolder) -> None:
    """Refuse a finished run.

    Raises:
        InvalidInputError: the run is finished.
    """
    if run.finished and run.rounds_done >= run.summary.get("rounds_done", 0):
        raise InvalidInputError(f"{run.path}: this run is finished; for more rounds start a run with more")


def _reopened(run: RunFolder, log: Log, settings: Settings) -> RunFolder:
    """Read the run again, now that its log is locked, and remove temporary files of a killed process."""
    run = RunFolder.read(run.path)
    check_unfinished(run)  # another process may have finished it before the log was locked
    if log.torn_bytes:
        _log.info(f"dropped a torn line of {log.torn_bytes} bytes at the end of the log")
    for name, value in environment_of(settings).items():
        if name in _DECIDE_BITS and run.environment.get(name) != value:
            _log.info(f"{name} is {value} here and was {run.environment.get(name)}: the last bits may differ")
    _log.info(f"resuming after round {run.rounds_done}")
    remove_leftovers(run.path)
    (run.path / SUMMARY).unlink(missing_ok=True)
    return run
