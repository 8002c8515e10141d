"""The clients of a federation, for :mod:`zorba_core.engine.loop`: each is a process behind a Flower grid.

The server sends each client an instruction, and checks the form of its answer. The loop decides which scalars can be
used. A client gets the averages of a round with its next instruction. A server that starts again sends all averages of
its log in a new line, so a client that has applied a round which the log lost starts from the base model.

Shapes: N clients, Q directions of a round, C labels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zorba_core.data.task import Task
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.reports import MALFORMED, NOT_ASKED, REPORTED, SILENT, STATUSES
from zorba_core.engine.round import Reports, Round, RoundPlan
from zorba_core.errors import RunError
from zorba_core.federation.members import Members
from zorba_core.federation.options import ServerOptions
from zorba_core.federation.protocol import (
    CATCH_UP,
    EVALUATE,
    PROMPTS,
    TRAIN,
    Answer,
    Average,
    Instruction,
    ProtocolError,
)

_PAUSE = 0.5  # seconds to wait while there are no clients
_MOST_VOID = 3  # tries of a round without an answer before the run fails


class RemoteClients:
    """The clients behind a grid."""

    def __init__(self, members: Members, options: ServerOptions, task: Task, prompt: str = "") -> None:
        """``prompt``: the run's, if it was chosen and is not that of the terms."""
        self.members, self.prompt, self.prior_C = members, prompt, task.prior
        self._labels, self._options, self._answered_at = task.num_classes, options, time.monotonic()

    def collect(self, plan: RoundPlan) -> Reports:
        """The answers to the round's instructions. While there is none, the instructions are sent again.

        Raises:
            RunError: several tries in a row had no answer that can be read.
        """
        tries = 0
        while not (reports := self._collect(plan)).status_N.tolist().count(REPORTED):
            tries += 1
            self.members.note("no usable answer", round=plan.round, asked=int((reports.status_N != NOT_ASKED).sum()))
            waited = time.monotonic() - self._answered_at
            if tries >= _MOST_VOID and (self.members.seats or waited > self._options.start_timeout):
                raise RunError(
                    f"round {plan.round}: no client gave a usable answer in {tries} tries; look at their logs, then "
                    "resume the run"
                )
            if not self.members.seats:
                time.sleep(_PAUSE)
        self._answered_at = time.monotonic()
        return reports

    def _collect(self, plan: RoundPlan) -> Reports:
        clients, Q = len(plan.asked_N), len(plan.seeds_Q)
        self.members.send_hello()
        free = self.members.free()
        instructions = {
            client: self.instruction(
                client,
                round=plan.round,
                seeds_Q=plan.seeds_Q,
                blocks=tuple(np.flatnonzero(plan.A_MN[:, client]).tolist()),
            )
            for client in [client for client in free if plan.asked_N[client]] or free
        }
        rho_NQ, loss_N, passes = np.zeros((clients, Q)), np.zeros(clients), 0
        status_N = np.full(clients, NOT_ASKED, np.uint8)
        status_N[list(instructions)] = SILENT
        answers = self.members.exchange(TRAIN, instructions)
        status_N[list(answers)] = MALFORMED
        for client, report in self.read(answers, lambda answer: _report(answer, plan.round, Q)).items():
            rho_NQ[client], loss_N[client], own_passes = report
            passes += own_passes
            status_N[client] = REPORTED
        return Reports(rho_NQ, loss_N, status_N, passes)

    def publish(self, done: Round) -> tuple[dict[str, Any], ...]:
        """Note the clients whose scalars were refused, and keep the averages for the next instructions."""
        for client in np.flatnonzero(done.refused_N & (done.status_N != MALFORMED)):
            self.members.refuse(int(client), f"its scalars are {STATUSES[done.status_N[client]]}")
        if not done.diverged:
            self.members.line.averages.append(Average.of(done))
        return self.members.take_events()

    def finish(self, network: Blocks) -> dict[str, Any]:
        """After the last round: every client applies all averages. Returns whether its weights equal those of
        ``network``, and the last events, for the run's summary."""
        weights, shown = network.weights_sha256(), {}
        for _ in range(2):  # the first answer of a restarted client may be an error with its replica_round
            left = [client for client in self.members.free() if client not in shown]
            answers = self.members.exchange(CATCH_UP, {client: self.instruction(client) for client in left})
            shown |= self.read(answers, lambda answer: answer.text("weights"))
        replicas = [
            {"client": client, "weights_sha256": sha256, "equal": sha256 == weights}
            for client, sha256 in sorted(shown.items())
        ]
        return {"replicas": replicas, "events": self.members.take_events()}

    def preference(self, network: Blocks) -> np.ndarray:
        """The mean of the clients' preferences among the label words, on their rows and with the weights of now, (C,).

        Raises:
            RunError: no client answers.
        """
        return self._mean("prior_C", self._labels, EVALUATE)

    def prompt_losses(self, prompts: Sequence[str], rows: int) -> np.ndarray:
        """The mean over clients of each prompt's loss on ``rows`` rows of each client, nats.

        Raises:
            RunError: no client answers.
        """
        # Each prompt is a pass over as many rows as a round has, so each gets a round's time.
        return self._mean("losses", len(prompts), PROMPTS, deadlines=len(prompts), prompts=tuple(prompts), rows=rows)

    def _mean(self, name: str, count: int, kind: str, *, deadlines: int = 1, **fields: Any) -> np.ndarray:
        values: dict[int, np.ndarray] = {}
        for _ in range(_MOST_VOID):
            self.members.send_hello()
            asked = {client: self.instruction(client, **fields) for client in self.members.free()}
            answers = self.members.exchange(kind, asked, deadlines=deadlines)
            values = self.read(answers, lambda answer: answer.numbers(name, count))
            if values:
                return np.mean([values[client] for client in sorted(values)], axis=0)
            time.sleep(_PAUSE)
        raise RunError(f"no client sent its {name} in {_MOST_VOID} tries; look at their logs, then resume the run")

    def go_back(self, to: int) -> None:
        """Begin a line with the averages up to round ``to``."""
        line = self.members.line
        averages = [average for average in line.averages if average.round <= to]
        self.members.begin(replace(line, number=line.number + 1, averages=averages))

    def instruction(self, client: int, **fields: Any) -> Instruction:
        """An instruction with the averages that the client has not applied."""
        line, seat = self.members.line, self.members.seats[client]
        same = {"after": line.end, "prior_C": self.prior_C, "prompt": self.prompt}
        return Instruction(self.members.run, line.number, line.after(seat.replica_round), **same, **fields)

    def read(self, answers: Mapping[int, Answer], read: Callable[[Answer], Any]) -> dict[int, Any]:
        """``read`` of each client's answer, without those that are malformed."""
        values: dict[int, Any] = {}
        for client, answer in answers.items():
            try:
                values[client] = read(answer)
            except ProtocolError as error:
                self.members.refuse(client, str(error))
        return values


def _report(answer: Answer, t: int, count: int) -> tuple[np.ndarray, float, int]:
    """rho_Q, the loss and the forward passes of a client's answer for round t.

    Raises:
        ProtocolError: the answer is of another round, or malformed.
    """
    if answer.whole("round") != t:
        raise ProtocolError(f"an answer of round {answer.whole('round')}")
    return answer.scalars(count), answer.number("loss"), answer.whole("passes")
