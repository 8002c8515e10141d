"""The server's part of a federated run, from a request to a finished run folder; also resuming one.

The folder is that of any run (``zorba_core.runs``): it can be listed, plotted and replayed. What is particular to a
federation is in the rounds' events: plans, joins, leaves and refusals, with client and reason.
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
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError, printable
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.fleet import plan_from_note
from zorba_core.federation.messages import Aggregate
from zorba_core.federation.request import check_config, configs_of, folder_config
from zorba_core.federation.rounds import FederatedRounds, Transport, bring_together, gather
from zorba_core.federation.server import Server
from zorba_core.runs import DEFAULT_FOLDER, Run, read_run
from zorba_core.runs.complete import Callback, complete, new_folder
from zorba_core.runs.environment import describe
from zorba_core.runs.folder import SUMMARY, check_name
from zorba_core.runs.load import check_rows, evaluation_rows, open_network, use_threads, with_data
from zorba_core.runs.log import Log
from zorba_core.runs.preflight import preflight
from zorba_core.runs.replay import replay_rounds
from zorba_core.runs.resume import check_unfinished
from zorba_core.runs.token_range import check_tokens

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
    """Collects what happens to the clients for the next round's record, and shows it in one line to the user."""

    def __init__(self, tell: Notice) -> None:
        self._events: list[dict[str, Any]] = []
        self._tell = tell

    def __call__(self, what: str, content: dict[str, Any]) -> None:
        if what in _SHOWN:
            shown = {name: value for name, value in content.items() if name != "blocks_per_client"}
            words = ", ".join(f"{name} {value}" for name, value in shown.items() if value not in ("", None))
            self._tell(printable(f"{what}: {words}"))  # a client's words may be made for a terminal
        self._events.append({"what": what, **content})

    def take(self) -> tuple[dict[str, Any], ...]:
        """The events since the last call."""
        events, self._events = tuple(self._events), []
        return events


def serve(
    config: RunConfig,
    settings: ServerSettings,
    transport: Transport,
    *,
    runs_folder: str | os.PathLike[str] = DEFAULT_FOLDER,
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
    path = new_folder(runs_folder, name, folder_config(config, settings, server.plan.allocation), parts.environment)
    with Log(path) as log:
        _complete(path, log, server, transport, parts, notes, callbacks)
    return Run.read(path)


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
    begun = read_run(run)
    config, settings = configs_of(begun.path, begun.config)
    check_unfinished(begun)
    config = config.replace(token=str(begun.environment.get(_TOKEN, "")))
    with Log(begun.path) as log:
        begun = Run.read(begun.path)
        parts = open_server(config, force=True, evaluate_on=settings.evaluate_on)
        base_sha256 = parts.environment["base_weights_sha256"]
        if base_sha256 != begun.environment["base_weights_sha256"]:
            raise InvalidInputError(f"{config.model} is not the base model of {begun.path}; put the original back")
        check_rows(parts.environment["data"], begun.environment["data"], begun.path, "evaluation")
        with use_threads(1):
            state = replay_rounds(begun, parts.network, config.settings, begun.rounds_done)
        notes = NoteBook(tell)
        server = Server(config, settings, parts.network, notes)
        events = [event for done in begun.rounds for event in done.events]
        plans = [event for event in events if event["what"] == "plan" and "budgets" in event]
        plan = plan_from_note(plans[-1], parts.network.num_blocks) if plans else None
        averages = [Aggregate(done.round, done.seeds_Q, done.rho_bar_MQ, done.lr) for done in begun.rounds[1:]]
        server.resume(state, averages, plan, base_sha256, begun.allocation)
        tell(f"resuming after round {begun.rounds_done}")
        (begun.path / SUMMARY).unlink(missing_ok=True)
        gather(server, transport, again=True)
        server.replan()
        _complete(begun.path, log, server, transport, parts, notes, callbacks)
    return Run.read(begun.path)


def open_server(config: RunConfig, force: bool, evaluate_on: str = "") -> ServerParts:
    """Base model and evaluation rows, which for a task of the user's own lie in ``evaluate_on``. The server holds no
    training rows: whether the settings can learn is measured on the rows that it evaluates by."""
    task, settings = with_label_words(config.described_task(), config.label_words or None), config.settings
    if evaluate_on:
        task = with_data(task, evaluate_on, evaluate_on)
    with use_threads(1):
        network, tokenizer = open_network(config.model, settings)
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
    path: Path,
    log: Log,
    server: Server,
    transport: Transport,
    parts: ServerParts,
    notes: NoteBook,
    callbacks: Sequence[Callback],
) -> None:
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
        return {"replicas": clients, "events": notes.take()}

    with use_threads(1):
        complete(path, log, FederatedRounds(server, transport, notes.take), parts.evaluation, callbacks, finish)
