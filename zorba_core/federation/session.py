"""The server's part of a federated run, from a request to a finished run folder; also taking one up again.

The folder is that of any run (``zorba_core.runs``): it can be listed, plotted and replayed. What is particular to a
federation stands in the log's notes: plans, joins, leaves and refusals, with client and reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zorba_core.allocation import Allocation
from zorba_core.data.encoding import encode
from zorba_core.data.splits import load_split
from zorba_core.data.tasks import get_task
from zorba_core.engine.callbacks import Callback, RoundRecord
from zorba_core.engine.evaluation import choose_rows
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.records import RoundEntry
from zorba_core.engine.rounds import FederatedRows
from zorba_core.engine.rows import Encoded
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.federation import privacy
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.fleet import plan_from_note
from zorba_core.federation.messages import Aggregate
from zorba_core.federation.request import check_config, configs_of, folder_config
from zorba_core.federation.rounds import Transport, bring_together, gather, run_rounds
from zorba_core.federation.server import Server
from zorba_core.runs import Run, read_request, read_run
from zorba_core.runs import folder as runs
from zorba_core.runs.environment import describe
from zorba_core.runs.memory_meter import MemoryMeter
from zorba_core.runs.preflight import preflight
from zorba_core.runs.resume import records_of, replay_rounds
from zorba_core.runs.session import open_network, use_threads
from zorba_core.runs.summary import CountReports, summarise
from zorba_core.runs.trajectory import Trajectory, TrajectoryLog
from zorba_core.runs.writer import RunWriter, check_name, header_of

Notice = Callable[[str], None]
_TOKEN = "federation_token"
_SHOWN = ("joined", "left", "turned away", "waiting", "refused", "void round", "plan")


@dataclass(frozen=True, eq=False)
class ServerParts:
    """What a server computes with, loaded and checked."""

    network: BlockNetwork
    evaluation: Encoded
    environment: dict[str, Any]


class NoteBook:
    """Notes go to the log; those made before there is one wait for it. Each is also told, in a line, to a person."""

    def __init__(self, tell: Notice) -> None:
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self._writer: RunWriter | None = None
        self._tell = tell

    def __call__(self, what: str, content: dict[str, Any]) -> None:
        if what in _SHOWN:
            told = {name: value for name, value in content.items() if name != "blocks_per_client"}
            self._tell(
                f"{what}: {', '.join(f'{name} {value}' for name, value in told.items() if value not in ('', None))}"
            )
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
        RunError: too few clients came, the run diverged, or everyone fell silent; the folder can be taken up again.
    """
    check_config(config, settings)
    name = check_name(
        name or re.sub(r"[^A-Za-z0-9._-]+", "-", f"federated-{config.dataset}-{Path(config.model).name}")[:100]
    )
    config = replace(config, token=secrets.token_hex(16))
    parts = open_server(config, force)
    notes = NoteBook(tell)
    server = Server(config, settings, parts.network, notes)
    gather(server, transport)
    server.replan()
    writer = RunWriter(
        runs_folder, name, folder_config(config, settings, server.plan.allocation), parts.environment,
        server.plan.allocation,
    )  # fmt: skip
    notes.open(writer)
    return _carry_on(writer, server, transport, parts, callbacks, (), (), ())


def take_up(
    run: str | os.PathLike[str],
    transport: Transport,
    *,
    model: str | None = None,
    callbacks: Sequence[Callback] = (),
    tell: Notice = lambda line: None,
) -> Run:
    """Go on with a federated run whose server died, on its own folder. Clients register anew and keep their replicas.

    Raises:
        InvalidInputError, MissingDataError: no such run, one that is finished or was never federated, or a base model
            that is not its own.
        RunError: as :func:`serve`.
    """
    request = read_request(run)
    config, settings = configs_of(request.path, request.config)
    finished = (request.path / runs.SUMMARY).is_file()
    if finished and read_run(request.path).summary.get("stopped_by") != "interrupt":
        raise InvalidInputError(f"{request.path}: this run is finished; there is nothing to go on with")
    config = replace(config, model=model or config.model, token=str(request.environment.get(_TOKEN, "")))
    log = TrajectoryLog(request.path / runs.TRAJECTORY)
    try:
        so_far = log.so_far
        parts = open_server(config, force=True)
        _check_same(request, so_far, parts)
        with use_threads(config.settings.threads):
            replay_rounds(parts.network, request.allocation, config.settings, so_far.rounds, so_far.evaluations)
        notes = NoteBook(tell)
        server = Server(config, settings, parts.network, notes)
        plans = [note for note in so_far.notes if note.what == "plan"]
        plan = plan_from_note(plans[-1].content, parts.network.num_blocks) if plans else None
        server.take_up(map(_average_of, so_far.rounds), plan, parts.environment["base_weights_sha256"])
        (request.path / runs.SUMMARY).unlink(missing_ok=True)
        if so_far.header is None:
            log.write_header(header_of(request.config, request.environment, request.allocation))
        log.write_resumed()
        records = records_of(so_far)
        writer = RunWriter.reopen(request.path, log, records)
        notes.open(writer)
        gather(server, transport, again=True)
        server.replan()
        resumed = (*so_far.resumed_after, so_far.rounds_done)
        return _carry_on(writer, server, transport, parts, callbacks, so_far.rounds, records, resumed)
    finally:
        log.close()


def open_server(config: RunConfig, force: bool) -> ServerParts:
    """Base model and evaluation rows. The server holds no training rows: whether the settings can learn is measured on
    the rows that it evaluates by."""
    task, settings = get_task(config.dataset), config.settings
    with use_threads(settings.threads):
        network, tokenizer = open_network(task, config.model, config.label_words, settings)
        split = task.rows.evaluation_split
        frame = load_split(task.name, split)
        chosen = choose_rows(len(frame), settings.eval_rows, settings.seed)
        evaluation = encode(task, frame.iloc[chosen], tokenizer, settings.seq_len)
        checks: dict[str, Any] = {}
        if not force:
            everything = Allocation([[True]] * network.num_blocks)
            rows = FederatedRows(evaluation, [list(range(len(evaluation)))], evaluation)
            found = preflight(network, everything, rows, settings)
            if found.failed:
                raise InvalidInputError(found.reason())
            checks = found.describe()
    environment = {
        **describe(settings),
        _TOKEN: config.token,
        "base_weights_sha256": network.weights_sha256(),
        "data": {
            "source": frame.attrs.get("source", ""),
            "note": frame.attrs.get("note", ""),
            "evaluation_split": split,
            "evaluation_rows": len(evaluation),
            "evaluation_sha256": _rows_sha256(evaluation),
        },
        "preflight": checks,
    }
    return ServerParts(network, evaluation, environment)


def _carry_on(
    writer: RunWriter,
    server: Server,
    transport: Transport,
    parts: ServerParts,
    callbacks: Sequence[Callback],
    rounds: Sequence[RoundEntry],
    records: Sequence[RoundRecord],
    resumed_after: Sequence[int],
) -> Run:
    settings = server.config.settings
    reports, meter = CountReports(server.fleet.num_seats, rounds), MemoryMeter(settings.device)
    path = writer.path
    try:
        for callback in callbacks:
            callback.on_start(path)
        meter.begin()
        outcome = run_rounds(server, transport, parts.evaluation, [writer, reports, *callbacks], records)
        standing = bring_together(server, transport)
        weights = server.network.weights_sha256()
        clients = [
            {"seat": seat, "round": found.round, "weights_sha256": found.weights_sha256,
             "equal": found.weights_sha256 == weights}
            for seat, found in sorted(standing.items())
        ]  # fmt: skip
        writer.note("replicas", {"weights_sha256": weights, "clients": clients})
        summary = summarise(
            server.network, server.plan.allocation, settings, outcome, reports, meter.describe(), resumed_after
        )  # fmt: skip
        spent = privacy.epsilon(server.settings.privacy, server.rounds_done) if server.settings.privacy.on else None
        writer.finish({**summary, "replicas": clients, "epsilon": spent})
    except RunError as error:
        raise RunError(f"{error}; the rounds so far are in {path}") from None
    finally:
        with contextlib.suppress(OSError):
            writer.flush()
        writer.close()
    return read_run(path)


def _average_of(entry: RoundEntry) -> Aggregate:
    return Aggregate(entry.round, entry.seeds_Q, entry.rho_bar_MQ, entry.lr)


def _check_same(request: runs.Request, so_far: Trajectory, parts: ServerParts) -> None:
    wanted = header_of(request.config, request.environment, request.allocation)
    if so_far.header not in (None, wanted):
        raise InvalidInputError(f"{request.path}: its log was written under another config or allocation")
    for name, found in (
        ("base_weights_sha256", parts.environment["base_weights_sha256"]),
        ("evaluation_sha256", parts.environment["data"]["evaluation_sha256"]),
    ):
        known = request.environment.get(name) or request.environment.get("data", {}).get(name)
        if known != found:
            raise InvalidInputError(
                f"{request.path}: {name} is {found[:16]} here and was {str(known)[:16]}; give the model and data that "
                "the run began with"
            )
    if any(entry.rho_bar_MQ is None for entry in so_far.rounds):
        raise InvalidInputError(f"{request.path}: its log has rounds without their averages")


def _rows_sha256(rows: Encoded) -> str:
    digest = hashlib.sha256()
    for tensor in (rows.token_ids_RL, rows.last_R, rows.label_R):
        digest.update(f"{tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy())
    return digest.hexdigest()
