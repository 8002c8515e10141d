"""The ServerApp: trains with the clients of a Flower grid and writes the run's folder.

:class:`Server` computes the rounds for :mod:`zorba_core.engine.loop`, the loop of every run. It sends each client an
instruction, averages each block over the clients that answered, and updates its own replica of the model. It evaluates
this replica, and compares it with those of the clients after the last round. :mod:`zorba_core.federation.members` has
the list of clients.

The server writes a round to the log, and the log to disk, before it sends the round's average. So the log of a killed
server has every average that a client has applied, and a resumed run continues with the next round.

Shapes: M blocks, N clients, Q directions of a round, C labels.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from zorba_core.allocation import Allocation
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import TrainState, init, plan_round
from zorba_core.engine.methods.interface import Scalars
from zorba_core.engine.parts import method_of
from zorba_core.engine.reports import MALFORMED, NOT_ASKED, REPORTED, SILENT, STATUSES, check_reports
from zorba_core.engine.round import FederatedRows, Round, lr_of_round
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.federation.members import Members
from zorba_core.federation.options import robust_average
from zorba_core.federation.protocol import CATCH_UP, EVALUATE, TRAIN, Answer, Average, Instruction, Line, ProtocolError
from zorba_core.federation.request import Request
from zorba_core.runs import Run
from zorba_core.runs.folder import SUMMARY, Notice, check_name, plain_name
from zorba_core.runs.load import check_rows, check_tokens, evaluation_rows, open_network, use_threads
from zorba_core.runs.log import Log
from zorba_core.runs.preflight import preflight
from zorba_core.runs.rate import announcement, held_out_positions, search_rate
from zorba_core.runs.record import Callback, Start, begin, complete
from zorba_core.runs.replay import replay_rounds
from zorba_core.runs.resume import check_unfinished
from zorba_core.runs.terminal import Progress

app = ServerApp()
_PAUSE = 0.5  # seconds to wait while there are no clients
_MOST_VOID = 3  # tries of a round without a usable answer before the run fails


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Begin or resume the run of a ``flwr run`` command."""
    request = Request.of(context.run_config)
    progress = Progress(request.terms.settings.rounds, metric=request.task.counted)
    serve(request, grid, callbacks=[progress], notice=lambda line: print(line, file=sys.stderr, flush=True))


class Server:
    """The rounds of one run. ``network`` is the server's replica."""

    def __init__(self, request: Request, network: Blocks, members: Members, state: TrainState | None = None) -> None:
        """``network`` has the base model's weights; with the ``state`` of a resumed run, those after its last round."""
        self.settings, self.allocation, self.network = request.terms.settings, request.allocation, network
        self.members, self.prior_C, self.written = members, request.task.prior, request.task.kind == "text"
        self._options, self._state = request.options, state or init(network, self.settings)
        self._method = method_of(self.settings)
        self._held_out: list[tuple[int, ...]] = [()] * self.allocation.num_clients
        self._void, self._usable_at = 0, time.monotonic()

    @property
    def rounds_done(self) -> int:
        return self._state.rounds_done

    def next_round(self, lr_factor: float = 1.0) -> Round | None:
        """One round with the clients that answer, at the schedule's rate times ``lr_factor``. None if no scalars are
        usable: the weights are then unchanged, and the loop tries again.

        Raises:
            RunError: several tries in a row had no usable scalars.
        """
        done = self._round(lr_factor * lr_of_round(self.settings, self.rounds_done + 1))
        if done is not None:
            self._void, self._usable_at = 0, time.monotonic()
            return replace(done, events=self.members.take_events())
        self._void += 1
        waited = time.monotonic() - self._usable_at
        if self._void >= _MOST_VOID and (self.members.seats or waited > self._options.start_timeout):
            raise RunError(
                f"round {self.rounds_done + 1}: no client gave a usable answer in {self._void} tries; look at their "
                "logs, or try a smaller learning rate; then resume the run"
            )
        if not self.members.seats:
            time.sleep(_PAUSE)
        return None

    def _round(self, lr: float) -> Round | None:
        settings, clients, blocks_N = self.settings, self.allocation.num_clients, self.allocation.blocks_per_client
        self.members.send_hello()
        t, seeds_Q, asked_N = plan_round(self._state, clients, settings)
        free = self.members.free()
        instructions = {
            client: self._instruction(client, round=t, seeds_Q=seeds_Q, blocks=tuple(blocks_N[client]))
            for client in [client for client in free if asked_N[client]] or free
        }
        rho_NQ, loss_N, passes = np.zeros((clients, len(seeds_Q))), np.zeros(clients), 0
        status_N = np.full(clients, NOT_ASKED, np.uint8)
        status_N[list(instructions)] = SILENT
        answers = self.members.exchange(TRAIN, instructions)
        status_N[list(answers)] = MALFORMED
        for client, report in self._read(answers, lambda answer: _report(answer, t, len(seeds_Q))).items():
            rho_NQ[client], loss_N[client], own_passes = report
            passes += own_passes
            status_N[client] = REPORTED
        answered_N = status_N == REPORTED
        status_N[answered_N] = check_reports(rho_NQ, loss_N, answered_N, mu=settings.mu)[answered_N]
        for client in np.flatnonzero(answered_N & (status_N != REPORTED)):
            self.members.refuse(int(client), f"its scalars are {STATUSES[status_N[client]]}")
        reported_N = status_N == REPORTED
        if not reported_N.any():
            self.members.note("no usable answer", round=t, asked=len(instructions))
            return None
        A_MN = self.allocation.A_MN
        average_MQ = robust_average(rho_NQ, A_MN, reported_N, self._options.rule, self._options.trim)
        scalars = Scalars(average_MQ, rho_NQ, A_MN, reported_N)
        rho_bar_MQ, method_state = self._method.checked_coefficients(self._state.method_state, scalars, settings)
        update_blocks(self.network, rho_bar_MQ, seeds_Q, self._state.directions, lr)
        self.members.line.averages.append(Average(t, lr, seeds_Q, rho_bar_MQ))
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

    def _instruction(self, client: int, **fields: Any) -> Instruction:
        line, seat = self.members.line, self.members.seats[client]
        same = {"held_out": self._held_out[client], "prior_C": self.prior_C}
        return Instruction(self.members.run, line.number, line.start, line.after(seat.replica_round), **same, **fields)

    def _read(self, answers: Mapping[int, Answer], read: Callable[[Answer], Any]) -> dict[int, Any]:
        """``read`` of each client's answer, without those that are malformed."""
        values: dict[int, Any] = {}
        for client, answer in answers.items():
            try:
                values[client] = read(answer)
            except ProtocolError as error:
                self.members.refuse(client, str(error))
        return values

    def finish(self) -> dict[str, Any]:
        """After the last round: every client applies all averages. Returns whether its weights equal the server's, and
        the last events, for the run's summary."""
        weights, shown = self.network.weights_sha256(), {}
        for _ in range(2):  # the first answer of a restarted client may be an error with its replica_round
            left = [client for client in self.members.free() if client not in shown]
            answers = self.members.exchange(CATCH_UP, {client: self._instruction(client) for client in left})
            shown |= self._read(answers, lambda answer: answer.text("weights"))
        replicas = [
            {"client": client, "weights_sha256": sha256, "equal": sha256 == weights}
            for client, sha256 in sorted(shown.items())
        ]
        return {"replicas": replicas, "events": self.members.take_events()}

    # Before the first round: label priors, and a learning rate by trial rounds.

    def mean_prior(self) -> tuple[float, ...]:
        """The mean of the clients' label priors, (C,)."""
        seats = self.members.seats
        return tuple(np.mean([seats[client].prior_C for client in sorted(seats)], axis=0).tolist())

    def begin(self, start: int) -> None:
        """Start a line of trial rounds at the base model, whose weights ``network`` has now; the first is start + 1."""
        if self.members.line.number == 0:
            rows_N = [
                self.members.seats[client].rows if client in self.members.seats else 0
                for client in range(self.allocation.num_clients)
            ]
            self._held_out = [tuple(map(int, rows)) for rows in held_out_positions(rows_N, self.settings.seed)]
        self.members.begin(Line(self.members.line.number + 1, start))
        self._state = replace(init(self.network, self.settings), rounds_done=start)

    def step(self, lr: float) -> None:
        """A trial round.

        Raises:
            RunError: no client's scalars were usable.
        """
        if self._round(lr) is None:
            raise RunError(f"no client's scalars were usable at a learning rate of {lr:g}")

    def loss(self) -> float:
        """The mean loss over the clients' held-out rows, nats, after the line's last round."""
        chosen = [client for client in self.members.free() if self._held_out[client]]
        answers = self.members.exchange(EVALUATE, {client: self._instruction(client) for client in chosen})
        losses = self._read(answers, lambda answer: (answer.number("loss"), answer.number("weight"))).values()
        loss, weight = sum(loss for loss, _ in losses), sum(weight for _, weight in losses)
        return loss / weight if weight else float("inf")

    @property
    def held_out_rows(self) -> int:
        return sum(map(len, self._held_out))

    def end_trials(self, lr: float) -> None:
        """Start the run, at the base model and at the rate ``lr``."""
        self.settings = self.settings.replace(lr=lr)
        self._held_out = [()] * self.allocation.num_clients
        self._state = init(self.network, self.settings)
        self.members.begin(Line())


def _report(answer: Answer, t: int, count: int) -> tuple[np.ndarray, float, int]:
    """rho_Q, the loss and the forward passes of a client's answer for round t.

    Raises:
        ProtocolError: the answer is of another round, or malformed.
    """
    if answer.whole("round") != t:
        raise ProtocolError(f"an answer of round {answer.whole('round')}")
    return answer.scalars(count), answer.number("loss"), answer.whole("passes")


def serve(
    request: Request,
    grid: Grid,
    *,
    callbacks: Sequence[Callback] = (),
    notice: Notice = lambda line: None,
    started: Mapping[str, Any] | None = None,
) -> Run:
    """Wait for clients, train with them, and return the finished run. A resumed run continues in its folder.

    Args:
        started: how the clients were started; ``zorba resume`` starts them in the same way.

    Raises:
        InvalidInputError, MissingDataError: the request is invalid, or its settings cannot learn; nothing was written.
        RunError: too few clients joined or answered, or the run diverged. A run with a folder can be resumed.
    """
    with use_threads(request.threads):
        if request.resume is not None:
            return _resume(request, grid, callbacks, notice)
        return _begin(request, grid, callbacks, notice, started or {})


def _begin(
    request: Request, grid: Grid, callbacks: Sequence[Callback], notice: Notice, started: Mapping[str, Any]
) -> Run:
    terms, task, token = request.terms, request.task, secrets.token_hex(16)
    name = check_name(request.name or plain_name(f"federated-{task.name}-{Path(terms.model).name}"))
    network, evaluation, facts = _open(request)
    base_sha256 = network.weights_sha256()
    members = Members(
        grid, token, terms, request.options, base_sha256, line=Line(), needs_prior=request.prior, notice=notice
    )
    server = Server(request, network, members)
    members.gather(request.options.min_clients or terms.clients)
    if request.prior:
        server.prior_C = server.mean_prior()
        evaluation = replace(evaluation, prior_C=torch.tensor(server.prior_C, dtype=torch.float64))
        task = replace(task, prior=server.prior_C)
    rate = None
    if request.find_lr:
        notice(announcement(server.settings))
        rate = search_rate(server, network, server.settings)
        server.end_trials(rate.lr)
        notice(rate.sentence())
    settings = server.settings
    checks = {} if request.force or rate is not None else _check(network, evaluation, settings)
    path = begin(
        request.runs_folder,
        name,
        Start(task, network, request.allocation, settings, facts, checks, rate),
        model=terms.model,
        origin=request.origin,
        asked={"alpha": terms.alpha, "division": terms.division, "threads": request.threads, "force": request.force},
        federation={**request.options.model_dump(), **started},
        token=token,
    )
    with Log(path) as log:
        complete(path, log, server, evaluation, callbacks, server.finish, backs_off=rate is not None)
    return Run.read(path)


def _resume(request: Request, grid: Grid, callbacks: Sequence[Callback], notice: Notice) -> Run:
    path = request.resume.path
    with Log(path) as log:
        started = Run.read(path)
        check_unfinished(started)
        network, evaluation, facts = _open(request)
        base_sha256 = network.weights_sha256()
        if base_sha256 != started.environment["base_weights_sha256"]:
            raise InvalidInputError(f"{request.terms.model} is not the base model of {path}; put the original back")
        check_rows(facts, started.environment["data"], path, "evaluation")
        state = replay_rounds(started, network, started.settings, started.rounds_done)
        averages = [Average(done.round, done.lr, done.seeds_Q, done.rho_bar_MQ) for done in started.rounds[1:]]
        how = {"line": Line(averages=averages), "notice": notice}
        members = Members(
            grid, started.environment["federation_run"], request.terms, request.options, base_sha256, **how
        )
        server = Server(request, network, members, state)
        notice(f"resuming after round {started.rounds_done}")
        (path / SUMMARY).unlink(missing_ok=True)
        members.gather(1)  # the others can join later
        backs_off = "rate" in started.config
        complete(path, log, server, evaluation, callbacks, server.finish, backs_off=backs_off)
    return Run.read(path)


def _open(request: Request) -> tuple[Blocks, Rows, dict[str, Any]]:
    """The base model, the evaluation rows and facts about them. The server has no training rows."""
    settings = request.terms.settings
    network, tokenizer = open_network(request.terms.model, settings)
    evaluation, facts = evaluation_rows(request.task, tokenizer, settings)
    check_tokens(network, tokenizer, evaluation)
    return network, evaluation, facts


def _check(network: Blocks, evaluation: Rows, settings: Settings) -> dict[str, Any]:
    """Check on the evaluation rows that the settings can learn; return the measured values.

    Raises:
        InvalidInputError: the settings cannot learn.
    """
    everything = Allocation([[True]] * network.num_blocks)
    rows = FederatedRows(evaluation, [list(range(len(evaluation)))], evaluation)
    checked = preflight(network, everything, rows, settings)
    if checked.failed:
        raise InvalidInputError(checked.reason())
    return checked.describe()
