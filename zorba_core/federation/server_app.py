"""The ServerApp: who takes part, rounds over a Flower grid, and the run that they make.

:class:`Server` is a source of rounds for the loop of every run (:mod:`zorba_core.engine.loop`): it sends each client
its task, takes the answers that come in time, averages each block over the clients that answered and moves its own
replica, on which the model is evaluated and with which the clients' replicas are compared in the end. No answer,
however wrong, raises: it is dropped and noted with its client and reason.

A round is in the log, forced to disk, before its average is sent to anyone. So a server that dies and is started again
on the same folder knows at least what any replica knows, and continues with the next round.

Shapes: M blocks, N clients, Q directions of a round, C labels.
"""

from __future__ import annotations

import re
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from zorba_core.allocation import Allocation
from zorba_core.data.task import METRIC_TITLES
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import TrainState, init, plan_round
from zorba_core.engine.methods.interface import Scalars
from zorba_core.engine.methods.registry import method_of
from zorba_core.engine.reports import MALFORMED, NOT_ASKED, REPORTED, SILENT, STATUSES, judge_reports
from zorba_core.engine.round import FederatedRows, Round, lr_of_round
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError, RunError, name_some, printable
from zorba_core.federation import protocol
from zorba_core.federation.protocol import CATCH_UP, EVALUATE, HELLO, TRAIN, Answer, Average, ProtocolError, Task
from zorba_core.federation.request import Request
from zorba_core.federation.robust import robust_average
from zorba_core.runs import Run
from zorba_core.runs.complete import Callback, allocation_config, complete, new_folder
from zorba_core.runs.environment import describe
from zorba_core.runs.folder import SUMMARY, check_name, task_config
from zorba_core.runs.load import check_rows, evaluation_rows, open_network, use_threads
from zorba_core.runs.log import Log
from zorba_core.runs.preflight import preflight
from zorba_core.runs.rate import held_out_positions, search_rate
from zorba_core.runs.replay import replay_rounds
from zorba_core.runs.resume import check_unfinished
from zorba_core.runs.terminal import Progress
from zorba_core.runs.token_range import check_tokens

Notice = Callable[[str], None]
app = ServerApp()
_TOKEN = "federation_run"  # in a run's environment: its name on the wire
_LOOK_FOR_ANSWERS, _LOOK_FOR_NODES = 0.1, 2.0  # seconds
_SECONDS_TO_RECOVER = 60.0
_MOST_VOID = 3  # rounds in a row without a usable answer before the run is given up


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One run, new or resumed, as ``flwr run`` asks for it."""
    request = Request.of(context.run_config)
    progress = Progress(request.terms.settings.rounds, metric=METRIC_TITLES[request.task.counted])
    serve(request, grid, callbacks=[progress], notice=lambda line: print(line, file=sys.stderr, flush=True))


@dataclass
class Seat:
    """A client that takes part."""

    node: int  # Flower's id of its SuperNode
    rows: int
    stands: int  # the round after which it needs averages
    prior_C: np.ndarray | None
    late: bool = False  # it owes an answer; a round does not wait for it


@dataclass(frozen=True)
class _Sent:
    """A message without an answer yet."""

    node: int
    kind: str
    line: int
    until: float  # it expires


class Server:
    """The state of one run: clients, averages so far and the weights that they make."""

    def __init__(
        self,
        request: Request,
        network: Blocks,
        grid: Grid,
        run: str,
        notice: Notice = lambda line: None,
        *,
        state: TrainState | None = None,
        averages: Iterable[Average] = (),
        base_sha256: str | None = None,
    ) -> None:
        """``network`` holds the base model, or of a resumed run the weights after ``averages``."""
        self.settings, self.allocation, self.network = request.terms.settings, request.allocation, network
        self.seats: dict[int, Seat] = {}
        self.prior_C: tuple[float, ...] = request.task.prior
        self._request, self._grid, self._run, self._notice = request, grid, run, notice
        self._state, self._averages = state or init(network, self.settings), list(averages)
        self._base_sha256 = base_sha256 or network.weights_sha256()
        self._method = method_of(self.settings)
        self._line, self._start, self._held_out = 0, 0, [()] * self.allocation.num_clients
        self._unanswered: dict[str, _Sent] = {}  # by message id
        self._turned_away: dict[int, str] = {}  # why, by node
        self._events: list[dict[str, Any]] = []
        self._void, self._usable_at, self._looked = 0, time.monotonic(), 0.0

    @property
    def rounds_done(self) -> int:
        return self._state.rounds_done

    # -- who takes part ------------------------------------------------------------------------------------------------

    def gather(self, *, again: bool = False) -> None:
        """Wait for all clients; after ``start_timeout`` seconds ``min_clients`` are enough. A resumed run (``again``)
        then takes whoever is there: the others can come back later.

        Raises:
            RunError: too few came, or so many were turned away that too few are left.
        """
        options, clients, started = self._request.options, self.allocation.num_clients, time.monotonic()
        needed = 1 if again else options.min_clients or clients
        self._greet()
        while len(self.seats) < clients:
            self._take_answers(())
            waited = time.monotonic() - started
            # Who was turned away does not come again, so as many nodes as clients are all that there will be.
            settled = self._turned_away and not self._unanswered and len(self.seats) + len(self._turned_away) >= clients
            if (settled or waited > options.start_timeout) and len(self.seats) >= needed:
                return
            if settled or waited > options.start_timeout:
                why = name_some(sorted(set(self._turned_away.values())), 4)
                raise RunError(
                    f"{len(self.seats)} of {needed} clients came within {waited:.0f} seconds"
                    f"{f' (turned away: {why})' if why else ''}; look at their logs, or wait longer (start_timeout)"
                )
            if len(self.seats) < clients:
                time.sleep(_LOOK_FOR_ANSWERS)
                self._greet()

    def _greet(self) -> None:
        """A greeting for every node that is new; the seats of nodes that are gone are free. Nobody waits for it."""
        if time.monotonic() - self._looked < _LOOK_FOR_NODES:
            return
        present, self._looked = set(self._patiently(self._grid.get_node_ids)), time.monotonic()
        for client, seat in list(self.seats.items()):
            if seat.node not in present:
                self._leave(client, "its node is gone")
        greeted = {sent.node for sent in self._unanswered.values()} | {seat.node for seat in self.seats.values()}
        terms = self._request.terms.to_json()
        self._turned_away = {node: why for node, why in self._turned_away.items() if node in present}
        new = sorted(present - greeted - set(self._turned_away))
        records = [protocol.hello(self._run, terms, wants_prior=self._request.prior) for _ in new]
        self._send(HELLO, dict(zip(new, records, strict=True)), self._request.options.start_timeout)

    def _register(self, node: int, message: Message) -> None:
        """Give a client its seat by its answer to a greeting, or turn it away with a note. A client that comes back
        under another node takes its seat over."""
        try:
            answer = Answer(message)
            if answer.error:
                raise ProtocolError(answer.error)
            client, stands, rows = answer.whole("partition"), answer.whole("stands"), answer.whole("rows")
            if client >= self.allocation.num_clients:
                raise ProtocolError(f"partition-id {client} is none of 0 to {self.allocation.num_clients - 1}")
            if answer.text("base") != self._base_sha256:
                raise ProtocolError("its base model is not the server's: the fingerprints differ")
            if self._line == 0 and stands > self.rounds_done:
                raise ProtocolError(
                    f"its replica is at round {stands} and the log ends at {self.rounds_done}: if the log has lost its "
                    "end, restore it; if not, restart the client"
                )
            labels = len(self._request.terms.label_words)
            prior_C = answer.numbers("prior_C", labels) if self._request.prior else None
        except ProtocolError as error:
            self._turned_away[node] = str(error)
            self._note("turned away", node=str(node), reason=str(error))
            return
        if client in self.seats:
            self._turned_away[self.seats[client].node] = reason = "another node has its partition-id"
            self._leave(client, reason)
        self.seats[client] = Seat(node, rows, stands if self._line == 0 else self._start, prior_C)
        self._note("joined", client=client, rows=rows, replica_round=stands)

    def _leave(self, client: int, reason: str) -> None:
        node = self.seats.pop(client).node
        self._unanswered = {name: sent for name, sent in self._unanswered.items() if sent.node != node}
        self._note("left", client=client, reason=reason)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _send(self, kind: str, by_node: Mapping[int, RecordDict], ttl: float) -> list[str]:
        messages = [Message(records, node, kind, ttl=ttl) for node, records in by_node.items()]
        if not messages:
            return []
        ids, until = self._patiently(self._grid.push_messages, messages), time.monotonic() + ttl
        sent = {name: _Sent(node, kind, self._line, until) for name, node in zip(ids, by_node, strict=True) if name}
        self._unanswered |= sent
        return list(sent)

    def _exchange(self, kind: str, tasks: Mapping[int, Task]) -> dict[int, Answer]:
        """The clients' answers to their tasks, by client. It waits ``deadline`` seconds for the clients that answered
        the last time; where there are none, for any answer."""
        deadline = self._request.options.deadline
        records = {self.seats[client].node: protocol.task_records(task) for client, task in tasks.items()}
        asked = dict(zip(self._send(kind, records, 2 * deadline), tasks, strict=False))
        answers, until = {}, time.monotonic() + deadline
        while True:
            answers |= self._take_answers(asked)
            prompt = [client for name, client in asked.items() if name in self._unanswered and not self._late(client)]
            if time.monotonic() > until or (not prompt and (answers or not self._unanswered)):
                break
            time.sleep(_LOOK_FOR_ANSWERS)
            self._greet()
        for name, client in asked.items():
            if name in self._unanswered and client in self.seats:
                self.seats[client].late = True
        return answers

    def _late(self, client: int) -> bool:
        return client not in self.seats or self.seats[client].late

    def _take_answers(self, asked: Mapping[str, int] | Sequence[str]) -> dict[int, Answer]:
        """What has come: usable answers to the messages ``asked``, by client. Greetings are heard here as well, and
        late answers, which only show that the client is there again."""
        answers: dict[int, Answer] = {}
        for message in self._patiently(self._grid.pull_messages, list(self._unanswered)) if self._unanswered else ():
            name = message.metadata.reply_to_message_id
            sent = self._unanswered.pop(name, None)
            if sent is not None and sent.kind == HELLO:
                self._register(sent.node, message)
            client = next((client for client, seat in self.seats.items() if sent and seat.node == sent.node), None)
            if sent is None or sent.kind == HELLO or client is None:
                continue
            seat, seat.late = self.seats[client], False
            try:
                answer = Answer(message)
                if sent.line == self._line:
                    seat.stands = min(answer.whole("stands"), self._start + len(self._averages))
                if answer.error:
                    raise ProtocolError(f"the client declines: {answer.error}")
                if name in asked:
                    answers[client] = answer
                else:
                    self._refuse(client, "it came too late")
            except ProtocolError as error:
                self._refuse(client, str(error))
        now = time.monotonic()
        self._unanswered = {name: sent for name, sent in self._unanswered.items() if sent.until > now}
        return answers

    def _patiently(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        """A call of the grid, repeated where the SuperLink could not answer just now. A message that is pushed twice
        for that is answered twice, and the second answer is not taken."""
        until = time.monotonic() + _SECONDS_TO_RECOVER
        while True:
            try:
                return list(call(*arguments))
            except (httpx.HTTPError, ConnectionError, TimeoutError):
                if time.monotonic() > until:
                    raise
            time.sleep(_LOOK_FOR_ANSWERS)

    def _task(self, client: int, **asks: Any) -> Task:
        averages = protocol.next_averages(self._averages, self._start, self.seats[client].stands)
        return Task(self._run, self._line, self._start, averages, prior_C=self.prior_C, **asks)

    def _free(self) -> list[int]:
        """The clients that owe no answer, in their order."""
        owing = {sent.node for sent in self._unanswered.values()}
        return [client for client in sorted(self.seats) if self.seats[client].node not in owing]

    def _refuse(self, client: int, reason: str) -> None:
        self._note("refused", client=client, round=self._state.rounds_done + 1, reason=reason)

    def _note(self, what: str, **content: Any) -> None:
        """For the next round's record and, in one line, for people."""
        words = ", ".join(f"{name} {value}" for name, value in content.items())
        self._notice(printable(f"{what}: {words}"))  # a client's words may be made for a terminal
        self._events.append({"what": what, **content})

    def take_events(self) -> tuple[dict[str, Any], ...]:
        """What happened to the clients since the last call."""
        events, self._events = tuple(self._events), []
        return events

    # -- rounds --------------------------------------------------------------------------------------------------------

    def next_round(self, lr_factor: float = 1.0) -> Round | None:
        """One round with whoever answers, at the schedule's rate times ``lr_factor``. None where nobody's scalars could
        be used: the weights are as before, and the round is tried again.

        Raises:
            RunError: that happened for a long time, or again and again.
        """
        done = self._round(lr_factor * lr_of_round(self.settings, self.rounds_done + 1))
        if done is None:
            self._void += 1
            waited = time.monotonic() - self._usable_at
            if self._void >= _MOST_VOID and (self.seats or waited > self._request.options.start_timeout):
                raise RunError(
                    f"round {self.rounds_done + 1}: no client gave a usable answer in {self._void} tries; look at "
                    "their logs, or try a smaller learning rate; then resume the run"
                )
            if not self.seats:
                time.sleep(_LOOK_FOR_ANSWERS)
            return None
        self._void, self._usable_at = 0, time.monotonic()
        return replace(done, events=self.take_events())

    def _round(self, lr: float) -> Round | None:
        settings, clients = self.settings, self.allocation.num_clients
        self._greet()
        t, seeds_Q, asked_N = plan_round(self._state, clients, settings)
        free = self._free()
        chosen = [client for client in free if asked_N[client]] or free
        blocks_N = self.allocation.blocks_per_client
        tasks, behind = {}, {}
        for client in chosen:
            task = self._task(client, round=t, seeds_Q=seeds_Q, blocks=tuple(blocks_N[client]))
            task = replace(task, held_out=self._held_out[client])
            (tasks if self._follows_to(client, task) == t - 1 else behind)[client] = task
        if behind:  # far behind: averages, and no round yet
            silent = np.zeros(0, np.uint32)
            self._exchange(CATCH_UP, {client: replace(task, seeds_Q=silent) for client, task in behind.items()})
        answers = self._exchange(TRAIN, tasks)
        rho_NQ, loss_N, passes = np.zeros((clients, len(seeds_Q))), np.zeros(clients), 0
        status_N = np.full(clients, NOT_ASKED, np.uint8)
        status_N[list(tasks)] = SILENT
        for client, answer in answers.items():
            status_N[client] = MALFORMED
            try:
                if answer.whole("round") != t:
                    raise ProtocolError(f"an answer of round {answer.whole('round')}")
                rho_NQ[client], loss_N[client] = answer.scalars(len(seeds_Q)), answer.number("loss")
                passes += answer.whole("passes")
                status_N[client] = REPORTED
            except ProtocolError as error:
                rho_NQ[client] = 0.0
                self._refuse(client, str(error))
        answered_N = status_N == REPORTED
        judged_N = judge_reports(rho_NQ, loss_N, answered_N, mu=settings.mu)
        status_N[answered_N] = judged_N[answered_N]
        for client in np.flatnonzero(answered_N & (status_N != REPORTED)):
            self._refuse(int(client), f"its scalars are {STATUSES[status_N[client]]}")
        reported_N = status_N == REPORTED
        if not reported_N.any():
            self._note("void round", round=t, asked=len(tasks))
            return None
        rule = (self._request.options.rule, self._request.options.trim)
        averages_MQ = robust_average(rho_NQ, self.allocation.A_MN, reported_N, *rule)
        scalars = Scalars(averages_MQ, rho_NQ, self.allocation.A_MN, reported_N)
        rho_bar_MQ, method_state = self._method.checked_coefficients(self._state.method_state, scalars, settings)
        update_blocks(self.network, rho_bar_MQ, seeds_Q, self._state.directions, lr)
        self._averages.append(Average(t, lr, seeds_Q, rho_bar_MQ))
        self._state = replace(self._state, rounds_done=t, method_state=method_state)
        return Round(
            t,
            lr,
            seeds_Q,
            np.where(reported_N[:, None], rho_NQ, 0.0),
            status_N,
            np.where(reported_N, loss_N, 0.0),
            rho_bar_MQ,
            method_state,
            forward_passes=passes,
        )

    def bring_together(self) -> list[dict[str, Any]]:
        """After the last round: every replica follows to the end and shows the hash of its weights."""
        weights, shown = self.network.weights_sha256(), {}
        self._looked = 0.0
        self._greet()
        while behind := [client for client in self._free() if client not in shown]:
            tasks = {client: self._task(client) for client in behind}
            reaches = {client: self._follows_to(client, task) for client, task in tasks.items()}
            answers = self._exchange(CATCH_UP, tasks)
            ends = {client for client in answers if reaches[client] == self.rounds_done}
            shown |= {client: answers[client].text("weights") for client in ends}
            if not answers:
                break
        return [
            {"client": client, "weights_sha256": sha256, "equal": sha256 == weights}
            for client, sha256 in sorted(shown.items())
        ]

    def _follows_to(self, client: int, task: Task) -> int:
        """The round that the client's replica is at once it has followed the task."""
        return max(self.seats[client].stands, self._start) + len(task.averages)

    # -- what is decided with the clients before the first round ---------------------------------------------------

    def mean_prior(self) -> tuple[float, ...]:
        """The mean of the clients' label priors, (C,)."""
        return tuple(np.mean([self.seats[client].prior_C for client in sorted(self.seats)], axis=0).tolist())

    def begin(self, start: int) -> None:
        """A new line of trial rounds from the base model, whose weights the network holds; the first is start + 1."""
        self._line, self._start, self._averages = self._line + 1, start, []
        self._state = replace(init(self.network, self.settings), rounds_done=start)
        if self._line == 1:
            rows_N = [self.seats[client].rows if client in self.seats else 0 for client in range(len(self._held_out))]
            self._held_out = [tuple(map(int, chosen)) for chosen in held_out_positions(rows_N, self.settings.seed)]
        for seat in self.seats.values():
            seat.stands = start

    def step(self, lr: float) -> None:
        """A trial round.

        Raises:
            RunError: nobody's scalars could be used.
        """
        if self._round(lr) is None:
            raise RunError(f"no client's scalars could be used at a learning rate of {lr:g}")

    def loss(self) -> float:
        """The mean loss over the rows that the clients hold out, nats, where the line's weights are now."""
        chosen = [client for client in self._free() if self._held_out[client]]
        tasks = {client: self._task(client, held_out=self._held_out[client]) for client in chosen}
        answers = self._exchange(EVALUATE, tasks)
        loss = sum(answer.number("loss") for answer in answers.values())
        weight = sum(answer.number("weight") for answer in answers.values())
        return loss / weight if weight else float("inf")

    @property
    def held_out_rows(self) -> int:
        return sum(map(len, self._held_out))

    def end_trials(self, lr: float) -> None:
        """Back to the run itself, at the base model."""
        self.settings = self.settings.replace(lr=lr)
        self._line, self._start, self._averages = 0, 0, []
        self._held_out = [()] * len(self._held_out)
        self._state = init(self.network, self.settings)
        for seat in self.seats.values():
            seat.stands = 0


def serve(
    request: Request,
    grid: Grid,
    *,
    callbacks: Sequence[Callback] = (),
    notice: Notice = lambda line: None,
    started: Mapping[str, Any] | None = None,
) -> Run:
    """Wait for clients, fine-tune with them, and read the finished run back; a run to resume goes on in its folder.

    Args:
        started: how the clients were started, for who resumes the run.

    Raises:
        InvalidInputError, MissingDataError: the request is wrong or cannot learn; nothing was written.
        RunError: too few clients came, the run diverged, or everyone fell silent; the folder can be resumed.
    """
    with use_threads(request.threads):
        if request.resume is not None:
            return _resume(request, grid, callbacks, notice)
        return _begin(request, grid, callbacks, notice, started or {})


def _begin(
    request: Request, grid: Grid, callbacks: Sequence[Callback], notice: Notice, started: Mapping[str, Any]
) -> Run:
    terms, task, token = request.terms, request.task, secrets.token_hex(16)
    name = request.name or re.sub(r"[^A-Za-z0-9._-]+", "-", f"federated-{task.name}-{Path(terms.model).name}")[:100]
    check_name(name)
    network, evaluation, facts = _open(request)
    server = Server(request, network, grid, token, notice)
    server.gather()
    if request.prior:
        server.prior_C = server.mean_prior()
        evaluation = replace(evaluation, prior_C=torch.tensor(server.prior_C, dtype=torch.float64))
        task = replace(task, prior=server.prior_C)
    rate = None
    if request.find_lr:
        rate = search_rate(server, network, server.settings)
        server.end_trials(rate.lr)
        notice(rate.sentence())
    settings = server.settings
    checks = {} if request.force or rate is not None else _check(network, evaluation, settings)
    config = {
        **task_config(task),
        "model": terms.model,
        "num_blocks": network.num_blocks,
        "num_clients": terms.clients,
        "alpha": terms.alpha,
        "division": terms.division,
        **settings.model_dump(),
        **({} if rate is None else {"rate": rate.describe()}),
        "threads": request.threads,
        "force": request.force,
        "allocation": allocation_config(request.allocation, request.origin),
        "federation": {**request.options.model_dump(), **started},
    }
    environment = {
        **describe(settings),
        _TOKEN: token,
        "base_weights_sha256": network.weights_sha256(),
        "data": facts,
        "preflight": checks,
    }
    path = new_folder(request.runs_folder, name, config, environment)
    with Log(path) as log:
        complete(path, log, server, evaluation, callbacks, lambda: _finish(server), backs_off=rate is not None)
    return Run.read(path)


def _resume(request: Request, grid: Grid, callbacks: Sequence[Callback], notice: Notice) -> Run:
    path = request.resume.path
    with Log(path) as log:
        begun = Run.read(path)
        check_unfinished(begun)
        network, evaluation, facts = _open(request)
        base_sha256 = network.weights_sha256()
        if base_sha256 != begun.environment["base_weights_sha256"]:
            raise InvalidInputError(f"{request.terms.model} is not the base model of {path}; put the original back")
        check_rows(facts, begun.environment["data"], path, "evaluation")
        state = replay_rounds(begun, network, begun.settings, begun.rounds_done)
        averages = [Average(done.round, done.lr, done.seeds_Q, done.rho_bar_MQ) for done in begun.rounds[1:]]
        token = begun.environment[_TOKEN]
        server = Server(request, network, grid, token, notice, state=state, averages=averages, base_sha256=base_sha256)
        notice(f"resuming after round {begun.rounds_done}")
        (path / SUMMARY).unlink(missing_ok=True)
        server.gather(again=True)
        found = "rate" in begun.config
        complete(path, log, server, evaluation, callbacks, lambda: _finish(server), backs_off=found)
    return Run.read(path)


def _open(request: Request) -> tuple[Blocks, Rows, dict[str, Any]]:
    """The base model and the evaluation rows with facts about them. The server holds no training rows."""
    settings = request.terms.settings
    network, tokenizer = open_network(request.terms.model, settings)
    evaluation, facts = evaluation_rows(request.task, tokenizer, settings)
    check_tokens(network, tokenizer, evaluation)
    if request.task.prior:
        evaluation = replace(evaluation, prior_C=torch.tensor(request.task.prior, dtype=torch.float64))
    return network, evaluation, facts


def _check(network: Blocks, evaluation: Rows, settings: Any) -> dict[str, Any]:
    """Whether the settings can learn, measured on the rows that the server evaluates by.

    Raises:
        InvalidInputError: they cannot.
    """
    everything = Allocation([[True]] * network.num_blocks)
    rows = FederatedRows(evaluation, [list(range(len(evaluation)))], evaluation)
    checked = preflight(network, everything, rows, settings)
    if checked.failed:
        raise InvalidInputError(checked.reason())
    return checked.describe()


def _finish(server: Server) -> dict[str, Any]:
    return {"replicas": server.bring_together(), "events": server.take_events()}
