"""Round after round over a transport: greet, plan, ask, conclude, write down, evaluate.

A round is in the log, forced to disk, before its average is told to anyone. So a server that dies and is started again
on the same folder knows at least what any replica knows, and goes on with the next round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from zorba_core.allocation.storage import allocation_sha256
from zorba_core.engine.callbacks import Callback, RoundRecord
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.loop import Outcome, record_of
from zorba_core.engine.records import EvaluationEntry, RoundEntry
from zorba_core.engine.reports import NOT_ASKED
from zorba_core.engine.rows import Encoded
from zorba_core.errors import RunError
from zorba_core.federation.fleet import Address
from zorba_core.federation.membership import Incoming, Outgoing
from zorba_core.federation.messages import Standing
from zorba_core.federation.server import Concluded, Server
from zorba_core.planning.communication import numbers_a_round
from zorba_core.runs.session import use_threads

_PAUSE = 0.5  # seconds between looks for clients while nobody is there
_MOST_VOID = 3  # rounds in a row without a usable answer before the run is given up, at least start_timeout apart
_MOST_CATCH_UPS = 10_000


class Transport(Protocol):
    """What carries messages between one server and its clients."""

    def present(self) -> Sequence[Address]:
        """Addresses of the clients that are connected now."""

    def exchange(self, outgoing: Sequence[Outgoing], deadline: float) -> list[Incoming]:
        """Send all, and give what came back within ``deadline`` seconds. Late answers are never given later."""


def gather(
    server: Server, transport: Transport, *, again: bool = False, clock: Callable[[], float] = time.monotonic
) -> None:
    """Greet clients until ``min_clients`` are registered. A run that goes on (``again``) waits a deadline for them and
    then takes whoever is there: the others can come back later.

    Raises:
        RunError: too few registered within ``start_timeout``.
    """
    settings, started = server.settings, clock()
    while True:
        # A client that is greeted for the first time loads its model: it may take as long as the start may.
        left = settings.start_timeout - (clock() - started)
        _greet(server, transport, settings.deadline if again else max(settings.deadline, left))
        waited = clock() - started
        if len(server.fleet) >= settings.min_clients or (again and len(server.fleet) and waited > settings.deadline):
            return
        if waited > settings.start_timeout:
            raise RunError(
                f"{len(server.fleet)} of {settings.min_clients} clients registered within {settings.start_timeout:g} "
                "seconds; look at their logs, or wait longer (start_timeout)"
            )
        time.sleep(_PAUSE)


def run_rounds(
    server: Server,
    transport: Transport,
    evaluation: Encoded,
    callbacks: Sequence[Callback] = (),
    before: Sequence[RoundRecord] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """From where the server stands to the last round. There is a plan already.

    Raises:
        RunError: the run diverged, or nobody gave a usable answer for a long time.
    """
    settings, records = server.config.settings, list(before)
    latest = records[-1] if records else RoundRecord(0, None, None, None, 0.0, 0, 0, 0)

    def record(entry: RoundRecord, evaluated: bool) -> RoundRecord:
        if evaluated:
            with use_threads(settings.threads):
                judged = evaluate(server.network, evaluation)
            if not math.isfinite(judged.loss):
                raise RunError(
                    f"round {entry.round}: the evaluation loss is {judged.loss}; the run diverged, "
                    f"try a smaller learning rate (lr is {settings.lr:g})"
                )
            entry = replace(entry, eval_loss=judged.loss, eval_accuracy=judged.accuracy)
            fingerprint = server.network.weights_sha256()
            for callback in callbacks:
                callback.on_evaluation(EvaluationEntry(entry.round, judged.loss, judged.accuracy, fingerprint))
        records.append(entry)
        for callback in callbacks:
            callback.on_round(entry)
        return entry

    def is_due(round_index: int) -> bool:
        return round_index % settings.eval_every == 0 or round_index == settings.rounds

    def at_target(entry: RoundRecord) -> bool:
        return settings.stop_at_target and entry.eval_accuracy is not None and entry.eval_accuracy >= settings.target

    if not records or (is_due(latest.round) and latest.eval_accuracy is None):
        latest = record(records.pop() if records else latest, evaluated=True)
    stop, void, good_at = False, 0, clock()
    while server.rounds_done < settings.rounds and not stop and not at_target(latest):
        started = clock()
        concluded = _round(server, transport)
        stop = any(callback.wants_stop() for callback in callbacks)
        if concluded is None:
            void += 1
            if void >= _MOST_VOID and clock() - good_at > server.settings.start_timeout:
                raise RunError(
                    f"round {server.rounds_done + 1}: no client gave a usable answer in {void} tries; "
                    "look at their logs, then go on with the run"
                )
            continue
        void, good_at = 0, clock()
        entry = entry_of(server, concluded, latest, clock() - started)
        for callback in callbacks:
            callback.on_step(entry)
        latest = record(record_of(entry), evaluated=is_due(server.rounds_done) or stop)
    stopped_by = "target" if at_target(latest) else "interrupt" if stop else "rounds"
    return Outcome(tuple(records), server.rounds_done, stopped_by)


def entry_of(server: Server, concluded: Concluded, so_far: RoundRecord, seconds: float) -> RoundEntry:
    """The round as the log keeps it."""
    settings, plan = server.config.settings, concluded.plan
    numbers = numbers_a_round(
        settings.method, server.fleet.num_seats, server.network.num_blocks, settings.num_perturbations, 0
    )
    return RoundEntry(
        round=plan.round,
        seeds_Q=plan.seeds_Q,
        rho_NQ=concluded.rho_NQ,
        status_N=concluded.status_N,
        loss_N=concluded.loss_N,
        allocation=allocation_sha256(server.plan.allocation)[:16],
        lr=settings.lr,
        mu=settings.mu,
        seconds=so_far.seconds + seconds,
        forward_passes=so_far.forward_passes + concluded.forward_passes,
        scalars_up=so_far.scalars_up + int((concluded.status_N != NOT_ASKED).sum()) * numbers.up_per_report,
        scalars_down=so_far.scalars_down + numbers.down,
        rho_bar_MQ=concluded.rho_bar_MQ,
    )


def bring_together(server: Server, transport: Transport) -> dict[int, Standing]:
    """After the last round: every replica, one that only just came included, gets what it lacks and says how its
    weights hash; by seat."""
    standing: dict[int, Standing] = {}
    server.keep_present(transport.present())
    _greet(server, transport, server.settings.deadline)
    for _ in range(_MOST_CATCH_UPS):
        server.keep_present(transport.present())
        behind = [
            one for one in server.catch_ups()
            if (seat := server.fleet[one.address].seat) not in standing or standing[seat].round < server.rounds_done
        ]  # fmt: skip
        known = dict(standing)
        standing |= server.hear_standing(transport.exchange(behind, server.settings.deadline))
        if not behind or standing == known:
            break
    return standing


def _round(server: Server, transport: Transport) -> Concluded | None:
    present = transport.present()
    server.keep_present(present)
    if not server.fleet:
        _greet(server, transport, server.settings.deadline)
    server.replan()
    greetings = server.greetings(present)
    if not server.fleet:
        time.sleep(_PAUSE)
        return None
    plan, tasks = server.begin_round()
    incoming = transport.exchange([*tasks, *greetings], server.settings.deadline)
    greeted = {one.address for one in greetings}
    concluded = server.conclude_round(plan, [one for one in incoming if one.address not in greeted])
    _register(server, [one for one in incoming if one.address in greeted], present)
    return concluded


def _greet(server: Server, transport: Transport, deadline: float) -> None:
    present = transport.present()
    greetings = server.greetings(present)
    if greetings:
        _register(server, transport.exchange(greetings, deadline), present)


def _register(server: Server, incoming: Iterable[Incoming], present: Iterable[Address]) -> None:
    heard: set[Address] = set()
    for one in incoming:
        if one.address not in heard:
            heard.add(one.address)
            server.register(one, present)
