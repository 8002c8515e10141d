"""The server's part of a federated run, from a request to a finished run folder; also resuming one.

The folder is that of any run (``zorba_core.runs``): it can be listed, plotted and replayed. What is particular to a
federation is in the log's notes: plans, joins, leaves and refusals, with client and reason.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zorba_core.allocation import Allocation
from zorba_core.data.encode import with_label_words
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.callbacks import Callback
from zorba_core.engine.records import RoundEntry
from zorba_core.engine.rounds import FederatedRows
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError, printable
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.fleet import plan_from_note
from zorba_core.federation.messages import Aggregate
from zorba_core.federation.request import check_config, configs_of, folder_config
from zorba_core.federation.rounds import FederatedRounds, Transport, bring_together, gather
from zorba_core.federation.server import Server
from zorba_core.runs import Run, read_request, read_run
from zorba_core.runs import folder as runs
from zorba_core.runs.complete import Earlier, complete_run
from zorba_core.runs.environment import describe
from zorba_core.runs.models import warned_when_accepted
from zorba_core.runs.preflight import preflight
from zorba_core.runs.replaying import replay_rounds
from zorba_core.runs.resume import check_base, check_log, check_rows, check_unfinished, open_log, reopen
from zorba_core.runs.run_task import with_data
from zorba_core.runs.session import evaluation_rows, open_network, use_threads
from zorba_core.runs.token_range import check_tokens
from zorba_core.runs.writer import RunWriter, check_name

Notice = Callable[[str], None]
_TOKEN = "federation_token"
_SHOWN = ("joined", "left", "turned away", "waiting", "refused", "void round", "plan")


@dataclass(frozen=True, eq=False)
class ServerParts:
    """What a server computes with, loaded and checked."""

    network: Blocks
    evaluation: Rows
    environment: dict[str, Any]


class NoteBook:
    """Writes notes to the log, keeps those made before the log exists, and shows each in one line to the user."""

    def __init__(self, tell: Notice) -> None:
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self._writer: RunWriter | None = None
        self._tell = tell

    def __call__(self, what: str, content: dict[str, Any]) -> None:
        if what in _SHOWN:
            shown = {name: value for name, value in content.items() if name != "blocks_per_client"}
            words = ", ".join(f"{name} {value}" for name, value in shown.items() if value not in ("", None))
            self._tell(printable(f"{what}: {words}"))  # a client's words may be made for a terminal
        if self._writer is None:
            self._waiting.append((what, content))
        else:
            self._writer.note(what, content)

    def open(self, writer: RunWriter) -> None:
        self._writer = writer
        for what, content in self._waiting:
            writer.note(what, content)
        self._waiting.clear()


def serve(
    config: RunConfig,
    settings: ServerSettings,
    transport: Transport,
    *,
    runs_folder: str | os.PathLike[str] = runs.DEFAULT_FOLDER,
    name: str | None = None,
    callbacks: Sequence[Callback] = (),
    tell: Notice = lambda line: None,
    force: bool = False,
) -> Run:
    """Wait for clients, fine-tune with them, and read the finished run back.

    Raises:
        InvalidInputError, MissingDataError, InfeasibleError: the request is wrong, or the clients cannot hold every
            block between them; nothing was written.
        RunError: too few clients came, the run diverged, or everyone fell silent; the folder can be resumed.
    """
    check_config(config, settings)
    name = check_name(
        name or re.sub(r"[^A-Za-z0-9._-]+", "-", f"federated-{config.dataset}-{Path(config.model).name}")[:100]
    )
    config = config.replace(token=secrets.token_hex(16))
    parts = open_server(config, force, settings.evaluate_on)
    notes = NoteBook(tell)
    server = Server(config, settings, parts.network, notes)
    gather(server, transport)
    server.replan()
    writer = RunWriter(
        runs_folder,
        name,
        folder_config(config, settings, server.plan.allocation),
        parts.environment,
        server.plan.allocation,
    )
    try:
        notes.open(writer)
        return _complete(writer, server, transport, parts, callbacks, Earlier())
    finally:
        writer.close()


def resume(
    run: str | os.PathLike[str],
    transport: Transport,
    *,
    callbacks: Sequence[Callback] = (),
    tell: Notice = lambda line: None,
) -> Run:
    """Resume a federated run whose server died, in its own folder. Clients register anew and keep their replicas.

    Raises:
        InvalidInputError, MissingDataError: no such run, one that is finished or was never federated, or a base model
            that is not its own.
        RunError: as :func:`serve`.
    """
    request = read_request(run)
    config, settings = configs_of(request.path, request.config)
    check_unfinished(request)
    config = config.replace(token=str(request.environment.get(_TOKEN, "")))
    log = open_log(request)
    try:
        trajectory = log.trajectory
        with warned_when_accepted():
            parts = open_server(config, force=True, evaluate_on=settings.evaluate_on)
            check_log(request, trajectory)
            check_base(request, parts.network, config.model)
        check_rows(request, parts.environment["data"], "evaluation")
        if any(entry.rho_bar_MQ is None for entry in trajectory.rounds):
            raise InvalidInputError(f"{request.path}: its log has rounds without their averages")
        with use_threads(config.settings.threads):
            state = replay_rounds(
                parts.network, request.allocation, config.settings, trajectory.rounds, trajectory.evaluations
            )
        notes = NoteBook(tell)
        server = Server(config, settings, parts.network, notes)
        plans = [note for note in trajectory.notes if note.what == "plan" and "budgets" in note.content]
        plan = plan_from_note(plans[-1].content, parts.network.num_blocks) if plans else None
        server.resume(
            state,
            [_average_of(entry) for entry in trajectory.rounds],
            plan,
            parts.environment["base_weights_sha256"],
            request.allocation,
        )
        earlier = Earlier.of(trajectory, config.settings)
        writer = reopen(request, config.settings, log, earlier, tell)
        notes.open(writer)
        gather(server, transport, again=True)
        server.replan()
        return _complete(writer, server, transport, parts, callbacks, earlier)
    finally:
        log.close()


def open_server(config: RunConfig, force: bool, evaluate_on: str = "") -> ServerParts:
    """Base model and evaluation rows, which for a task of the user's own lie in ``evaluate_on``. The server holds no
    training rows: whether the settings can learn is measured on the rows that it evaluates by."""
    task, settings = with_label_words(config.described_task(), config.label_words or None), config.settings
    if evaluate_on:
        task = with_data(task, evaluate_on, evaluate_on)
    with use_threads(settings.threads):
        network, tokenizer = open_network(task, config.model, config.label_words, settings)
        evaluation, facts = evaluation_rows(task, tokenizer, settings)
        check_tokens(network, tokenizer, evaluation)
        checks: dict[str, Any] = {}
        if not force:
            everything = Allocation([[True]] * network.num_blocks)
            rows = FederatedRows(evaluation, [list(range(len(evaluation)))], evaluation)
            checked = preflight(network, everything, rows, settings)
            if checked.failed:
                raise InvalidInputError(checked.reason())
            checks = checked.describe()
    environment = {
        **describe(settings),
        _TOKEN: config.token,
        "base_weights_sha256": network.weights_sha256(),
        "data": facts,
        "preflight": checks,
    }
    return ServerParts(network, evaluation, environment)


def _complete(
    writer: RunWriter,
    server: Server,
    transport: Transport,
    parts: ServerParts,
    callbacks: Sequence[Callback],
    earlier: Earlier,
) -> Run:
    def finish() -> dict[str, Any]:
        """Bring every replica to the last round and compare the weights."""
        weights = server.network.weights_sha256()
        clients = [
            {
                "seat": seat,
                "round": standing.round,
                "weights_sha256": standing.weights_sha256,
                "equal": standing.weights_sha256 == weights,
            }
            for seat, standing in sorted(bring_together(server, transport).items())
        ]
        writer.note("replicas", {"weights_sha256": weights, "clients": clients})
        return {"replicas": clients}

    rounds = FederatedRounds(server, transport)
    with use_threads(rounds.settings.threads):
        complete_run(writer.path, writer, rounds, parts.evaluation, callbacks, earlier=earlier, finish=finish)
    return read_run(writer.path)


def _average_of(entry: RoundEntry) -> Aggregate:
    return Aggregate(entry.round, entry.seeds_Q, entry.rho_bar_MQ, entry.lr)
