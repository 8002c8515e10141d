"""The ServerApp: trains with the clients of a Flower grid and writes the run's folder.

The loop is that of every run (:mod:`zorba_core.engine.loop`); its clients are those of
:mod:`zorba_core.federation.remote`. The server updates and evaluates its own replica of the model, and compares it with
those of the clients after the last round.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from transformers import PreTrainedTokenizerBase

from zorba_core.allocation import Allocation
from zorba_core.data.task import Task
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.course import path as steps_to
from zorba_core.engine.loop import BestWeights, Training
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError
from zorba_core.federation.members import Members
from zorba_core.federation.protocol import Line
from zorba_core.federation.remote import RemoteClients
from zorba_core.federation.request import ServerRequest
from zorba_core.logs import shown
from zorba_core.runs import Run
from zorba_core.runs.folder import SUMMARY, RunFolder
from zorba_core.runs.load import check_rows, check_tokens, evaluation_rows, open_network, use_threads
from zorba_core.runs.log import Log
from zorba_core.runs.preflight import preflight
from zorba_core.runs.prompt import choose_prompt
from zorba_core.runs.record import Callback, begin, complete
from zorba_core.runs.replay import replay_rounds
from zorba_core.runs.request import plain_name
from zorba_core.runs.resume import check_unfinished
from zorba_core.runs.terminal import Progress

_log = logging.getLogger(__name__)
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Begin or resume the run of a ``flwr run`` command."""
    config = context.run_config
    serve(ServerRequest.of(config), grid, started=json.loads(str(config["started"])) if config["started"] else None)


def serve(
    request: ServerRequest,
    grid: Grid,
    *,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
    started: Mapping[str, Any] | None = None,
) -> Run:
    """Wait for clients, train with them, and return the finished run. A resumed run continues in its folder.

    Args:
        quiet: show no log and no progress bar.
        started: how the clients were started; ``zorba resume`` starts them in the same way.

    Raises:
        InvalidInputError, MissingDataError: the request is invalid, or its settings cannot learn; nothing was written.
        RunError: too few clients joined or answered, or the run diverged. A run with a folder can be resumed.
    """
    run = request.run
    progress = Progress(run.settings.rounds, run.task.counted, quiet=quiet)
    with shown(quiet), use_threads(run.threads), progress:
        if request.resume is not None:
            return _resume(request, grid, [progress, *callbacks])
        return _begin(request, grid, [progress, *callbacks], started or {})


def _begin(request: ServerRequest, grid: Grid, callbacks: Sequence[Callback], started: Mapping[str, Any]) -> Run:
    terms, run, token = request.terms, request.run, secrets.token_hex(16)
    task = run.task
    name = run.name or plain_name(f"federated-{task.name}-{Path(run.model).name}")
    network, tokenizer, evaluation, described = _open(request)
    base_sha256 = network.weights_sha256()
    members = Members(grid, token, terms, request.options, base_sha256, line=Line.of())
    members.gather(request.options.min_clients or terms.clients)
    settings, clients = terms.settings, RemoteClients(members, request.options, task)
    if task.prompts:
        chosen = choose_prompt(task.prompts, terms.clients, clients.prompt_losses)
        for line in chosen.lines():
            _log.info("%s", line)
        clients.prompt, task = chosen.prompt, replace(task, prompt=chosen.prompt, prompts=())
        evaluation, described = _evaluation(task, network, tokenizer, settings)
        described["prompts"] = chosen.describe()
    if settings.calibration == "base" and not task.prior:
        task = replace(task, prior=tuple(clients.preference(network).tolist()))
        clients.prior_C = task.prior
        evaluation = evaluation.with_prior(task.prior)
    checks = {} if run.force else _check(network, evaluation, settings)
    path = begin(
        run.replace(task=task, federation={**request.options.model_dump(), **started}),
        network,
        name=name,
        data=described,
        checks=checks,
        token=token,
    )
    with Log(path) as log:
        training = Training(network, run.allocation, settings, clients, evaluation)
        complete(path, log, training, callbacks, finish=lambda: clients.finish(network))
    return Run.read(path)


def _resume(request: ServerRequest, grid: Grid, callbacks: Sequence[Callback]) -> Run:
    path = cast(RunFolder, request.resume).path
    with Log(path) as log:
        started = Run.read(path)
        check_unfinished(started)
        network, _, evaluation, described = _open(request)
        base_sha256 = network.weights_sha256()
        if base_sha256 != started.environment["base_weights_sha256"]:
            raise InvalidInputError(f"{request.run.model} is not the base model of {path}; put the original back")
        check_rows(described, started.environment["data"], path, "evaluation")
        at, best = started.resumes_from, BestWeights()
        state = replay_rounds(started, network, started.settings, at, best)
        line = Line.of(steps_to(started.rounds, at))
        token = started.environment["federation_run"]
        members = Members(grid, token, request.terms, request.options, base_sha256, line=line)
        clients = RemoteClients(members, request.options, request.run.task, request.run.task.prompt)
        _log.info(f"resuming after round {started.rounds_done}")
        (path / SUMMARY).unlink(missing_ok=True)
        members.gather(1)  # the others can join later
        training = Training(network, started.allocation, started.settings, clients, evaluation, best)
        complete(path, log, training, callbacks, state=state, finish=lambda: clients.finish(network))
    return Run.read(path)


def _open(request: ServerRequest) -> tuple[Blocks, PreTrainedTokenizerBase, Rows, dict[str, Any]]:
    """The base model, its tokenizer, the evaluation rows and described about them. The server has no training rows."""
    run = request.run
    network, tokenizer = open_network(run.model, run.settings)
    return network, tokenizer, *_evaluation(run.task, network, tokenizer, run.settings)


def _evaluation(
    task: Task, network: Blocks, tokenizer: PreTrainedTokenizerBase, settings: Settings
) -> tuple[Rows, dict[str, Any]]:
    evaluation, described = evaluation_rows(task, tokenizer, settings)
    check_tokens(network, tokenizer, evaluation)
    return evaluation, described


def _check(network: Blocks, evaluation: Rows, settings: Settings) -> dict[str, Any]:
    """Check on the evaluation rows that the settings can learn; return the measured values.

    Raises:
        InvalidInputError: the settings cannot learn.
    """
    everything = Allocation([[True]] * network.num_blocks)
    train = evaluation.centred() if settings.calibration == "batch" else evaluation
    rows = FederatedRows(train, [np.arange(len(evaluation))], evaluation)
    checked = preflight(network, everything, rows, settings)
    if checked.failed:
        raise InvalidInputError(checked.reason())
    return checked.describe()
