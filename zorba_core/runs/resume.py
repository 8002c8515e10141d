"""Resume a run that was cut short, and rebuild the model of any of its rounds: both by replaying its trajectory.

Every random choice of a run is keyed by (seed, round, client), so what a run will do next depends on its weights, its
round and its method's state alone, and these follow from the base model and the log. A resumed run therefore ends with
the weights of an uninterrupted one, bit for bit, on the same kind of processor with the same versions, dtype, threads
and estimator. Where the replay itself comes out differently, the fingerprints that the log took at each evaluation show
it, and the run is refused.

FedIT is the exception: weights cross its wire, which no log of scalars can give back. It is resumed from the weights
that it wrote at its last evaluation (:mod:`zorba_core.runs.checkpoint`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from transformers import PreTrainedTokenizerBase

from zorba_core.data.divide import DIRICHLET
from zorba_core.data.own_task import Data
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.callbacks import Callback
from zorba_core.engine.loop import LocalRounds, init
from zorba_core.engine.methods.registry import method_facts
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import atomic_folder, check_folder, remove_leftovers
from zorba_core.runs import Request, Run, read_request, read_run
from zorba_core.runs import folder as runs
from zorba_core.runs.checkpoint import checkpoint_round, restore
from zorba_core.runs.complete import Earlier, complete_run
from zorba_core.runs.environment import describe
from zorba_core.runs.model_folder import save_model
from zorba_core.runs.models import warned_when_accepted
from zorba_core.runs.replaying import replay_rounds
from zorba_core.runs.run_task import check_files, task_of, with_data
from zorba_core.runs.session import divide_rows, finish_run, open_network, use_threads
from zorba_core.runs.token_range import check_tokens
from zorba_core.runs.trajectory import Trajectory, TrajectoryLog, lacking, read_trajectory
from zorba_core.runs.writer import RunWriter

Notice = Callable[[str], None]
# Of an environment.
_DECIDE_BITS = ("engine_version", "torch", "transformers", "numpy", "platform", "cpu_capability", "device")


def resume(
    run: str | os.PathLike[str],
    *,
    model: str | os.PathLike[str] | None = None,
    data: Data | None = None,
    test: str | os.PathLike[str] | None = None,
    callbacks: Sequence[Callback] = (),
    notice: Notice = lambda line: None,
) -> Run:
    """Resume a run that was killed, interrupted or failed, in its own folder, and read it back.

    Args:
        run: its folder.
        model: the folder of its base model, if it is not the one in the run's config.
        data, test: where the user's own rows lie now, if not where the run's config says.
        callbacks: as for ``fine_tune``.
        notice: called with one line for each fact a user should know: a torn record that was dropped, the round that
            it resumes after.

    Raises:
        MissingDataError, InvalidInputError: no run, one that is finished, one that another process is writing, one
            whose log is damaged, or a base model, rows or config that are not those it began with.
        RunError: the run diverged.
    """
    request = read_request(run)
    settings = settings_of(request)
    if "federation" in request.config:
        raise InvalidInputError(
            f"{request.path}: its clients were processes of their own; resume it with: "
            f"zorba federation up --resume {request.path}"
        )
    check_unfinished(request)
    task = with_data(task_of(request), data, test)
    check_files(request.environment.get("data", {}).get("files", {}), task, request.path)
    if (request.path / runs.METRICS).is_file() and not (request.path / runs.TRAJECTORY).is_file():
        raise MissingDataError(f"{request.path}: it has no {runs.TRAJECTORY}, so there is nothing to resume from")
    log = open_log(request)
    try:
        trajectory = log.trajectory
        check_log(request, trajectory)
        lacks = lacking(trajectory, runs.read_summary(request.path))
        with use_threads(settings.threads):
            network, tokenizer = _open_base(request, settings, model)
            division = request.config.get("division", DIRICHLET)
            clients = request.allocation.num_clients
            rows, facts = divide_rows(task, tokenizer, clients, _alpha_of(request), settings, division)
            check_rows(request, facts, "train", "evaluation")
            check_tokens(network, tokenizer, rows.train, rows.evaluation)
            if method_facts(settings.method).first_order:
                trajectory = _from_checkpoint(request, network, log, trajectory, notice)
                state = replace(init(network, settings), rounds_done=trajectory.rounds_done)
            else:
                start = _begun_from(request, network, trajectory, trajectory.rounds_done)
                state = replay_rounds(
                    network, request.allocation, settings, trajectory.rounds, trajectory.evaluations, start
                )
            earlier = Earlier.of(trajectory, settings)
            saves = bool(request.config.get("save_model"))
            rounds = LocalRounds(network, request.allocation, rows, settings, state)
            if lacks:  # said now that nothing refuses it any more
                notice(f"the end of {request.path / runs.TRAJECTORY} is damaged: {lacks}; that is computed again")
            complete_run(
                request.path,
                reopen(request, settings, log, earlier, notice),
                rounds,
                rows.evaluation,
                callbacks,
                earlier=earlier,
                finish=partial(finish_run, request.path, network, tokenizer, saves),
            )
    finally:
        log.close()
    return read_run(request.path)


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """The model of one round of a run."""

    round: int
    network: Blocks
    tokenizer: PreTrainedTokenizerBase
    checked_at: int | None  # the last round up to it whose fingerprint in the log the replay matched


def replay(
    run: str | os.PathLike[str],
    *,
    round_index: int | None = None,
    model: str | os.PathLike[str] | None = None,
    save: str | os.PathLike[str] | None = None,
    notice: Notice = lambda line: None,
) -> Rebuilt:
    """The model after ``round_index`` rounds (0: the base; None: the last in the log), from base and log alone.

    The run may still be in progress. With ``save``, a folder that does not exist yet, the model and its tokenizer are
    written there in Hugging Face format. ``notice`` is called with one line where the end of the log is damaged and the
    round stands before it.

    Raises:
        MissingDataError, InvalidInputError: as :func:`resume`; a round that the log does not have; no round is named
            and the log lacks an end that the summary has; a folder in the way; of a FedIT run, any round but 0 and that
            of its checkpoint.
    """
    request = read_request(run)
    settings = settings_of(request)
    summary = runs.read_summary(request.path)
    trajectory = read_trajectory(request.path / runs.TRAJECTORY)
    check_log(request, trajectory)
    lacks = lacking(trajectory, summary)
    first_order = method_facts(settings.method).first_order
    last_round = checkpoint_round(request.path) if first_order else trajectory.rounds_done
    target = last_round if round_index is None else round_index
    if lacks and round_index is None:
        raise InvalidInputError(
            f"the end of the log of {request.path} is damaged: {lacks}; restore {runs.TRAJECTORY}, or give a round up "
            f"to {trajectory.rounds_done} with --round"
        )
    if first_order and (target not in (0, last_round) or (round_index is None and last_round == 0)):
        raise InvalidInputError(_cannot_replay(request, settings, last_round))
    if not 0 <= target <= trajectory.rounds_done:
        raise InvalidInputError(
            f"round {target} is not in the log of {request.path}: it has 0 to {trajectory.rounds_done}"
            + (f"; its end is damaged: {lacks}" if lacks else "")
        )
    if lacks:
        notice(f"the end of the log of {request.path} is damaged: {lacks}; replaying up to round {target}")
    if save is not None:
        if os.path.lexists(save):
            raise InvalidInputError(f"{save} exists already; give a folder that does not")
        check_folder(save)
    with use_threads(settings.threads):
        network, tokenizer = _open_base(request, settings, model)
        evaluations = [entry for entry in trajectory.evaluations if entry.round <= target]
        if first_order and target:
            restore(request.path, network, trajectory)
        else:
            start = _begun_from(request, network, trajectory, target)
            replay_rounds(network, request.allocation, settings, trajectory.rounds[:target], evaluations, start)
        if save is not None:
            with atomic_folder(save) as folder:
                save_model(network, folder)
                tokenizer.save_pretrained(folder)
    return Rebuilt(target, network, tokenizer, evaluations[-1].round if evaluations else None)


def settings_of(request: Request) -> Settings:
    """The settings in a run's config; what it does not name has its default.

    Raises:
        InvalidInputError: a value that is out of range here, such as a device that is missing.
    """
    try:
        return Settings(**{name: request.config[name] for name in Settings.model_fields if name in request.config})
    except InvalidInputError as error:
        raise InvalidInputError(f"{request.path / runs.CONFIG}: {error}") from None


def _alpha_of(request: Request) -> float:
    """JSON has no infinity: equal shares are null."""
    alpha = request.config["alpha"]
    return math.inf if alpha is None else alpha


def _from_checkpoint(
    request: Request,
    network: Blocks,
    log: TrajectoryLog,
    trajectory: Trajectory,
    notice: Notice,
) -> Trajectory:
    """The log up to the checkpoint's round, whose weights the network then holds."""
    checkpoint = restore(request.path, network, trajectory)
    lost = trajectory.rounds_done - checkpoint
    if lost:
        notice(f"{lost} rounds after the last checkpoint (round {checkpoint}) will be computed again")
    log.cut_back(checkpoint)
    return log.trajectory


def _begun_from(request: Request, network: Blocks, trajectory: Trajectory, target: int) -> int:
    """The round that the network stands at: a long run's checkpoint, where there is one up to ``target``, else 0."""
    if not 0 < checkpoint_round(request.path) <= target:
        return 0
    return restore(request.path, network, trajectory)


def _cannot_replay(request: Request, settings: Settings, last_round: int) -> str:
    available = (
        f"only rounds 0 and {last_round}, its last checkpoint, can be had"
        if last_round
        else ("only round 0, the base, can be had (train with --save-model to keep the final model)")
    )
    return f"{request.path}: {settings.method} exchanges weights, so its log has no scalars to replay; {available}"


def open_log(request: Request) -> TrajectoryLog:
    """The run's log, for this process alone, of a run that nobody finished before it was had."""
    log = TrajectoryLog(request.path / runs.TRAJECTORY)
    try:
        check_unfinished(request)
    except BaseException:
        log.close()
        raise
    return log


def check_unfinished(request: Request) -> None:
    """Refuse a run that is finished."""
    ended = (request.path / runs.SUMMARY).is_file()
    if ended and runs.read_summary(request.path).get("stopped_by") != "interrupt":
        raise InvalidInputError(f"{request.path}: this run is finished; there is nothing to resume")


def check_log(request: Request, trajectory: Trajectory) -> None:
    """Refuse a folder whose files are not those that its log was written under."""
    if trajectory.header is None:
        return  # killed before the first record was whole: nothing was done yet
    runs.check_written_under(request, trajectory.header)


def _open_base(
    request: Request, settings: Settings, model: str | os.PathLike[str] | None
) -> tuple[Blocks, PreTrainedTokenizerBase]:
    config = request.config
    source = config["model"] if model is None else model
    with warned_when_accepted():
        network, tokenizer = open_network(task_of(config), source, config["label_words"], settings)
        check_base(request, network, source)
    return network, tokenizer


def check_base(request: Request, network: Blocks, source: str | os.PathLike[str]) -> None:
    """Refuse another base model than the run began with."""
    actual, expected = network.weights_sha256(), request.environment["base_weights_sha256"]
    if actual != expected:
        raise InvalidInputError(
            f"{os.fspath(source)} is not the base model of {request.path}: its weights have the fingerprint "
            f"{actual[:16]}, the run began with {expected[:16]}; name the right one with --model"
        )


def check_rows(request: Request, facts: Mapping[str, Any], *kinds: str) -> None:
    """Refuse other rows than the run began with. ``kinds``: "train", "evaluation"."""
    for kind in kinds:
        if facts[f"{kind}_sha256"] != request.environment["data"][f"{kind}_sha256"]:
            raise InvalidInputError(
                f"the {kind} rows of {request.config['dataset']} are not those that {request.path} began with; "
                "point ZORBA_DATA to the data it was made with"
            )


def reopen(request: Request, settings: Settings, log: TrajectoryLog, earlier: Earlier, notice: Notice) -> RunWriter:
    """The writer of an existing folder; removes what a killed process left half written."""
    trajectory = log.trajectory
    if trajectory.dropped_bytes:
        notice(f"dropped a torn record of {trajectory.dropped_bytes} bytes at the end of {trajectory.path}")
    now = describe(settings)
    changed = [name for name, value in now.items() if name in _DECIDE_BITS and request.environment.get(name) != value]
    for name in changed:
        notice(
            f"{name} is {now[name]} here and was {request.environment.get(name)}: the coming rounds' bits may differ"
        )
    notice(f"resuming after round {trajectory.rounds_done}")
    remove_leftovers(request.path)
    (request.path / runs.SUMMARY).unlink(missing_ok=True)
    if trajectory.header is None:
        log.write_header(runs.header_of(request.config, request.environment, request.allocation))
    log.write_resumed()
    return RunWriter.reopen(request.path, log, earlier.records)
