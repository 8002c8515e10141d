"""The fine-tuning loop: seeds out, the clients' reports up, one update of every block; evaluations in between.

A round is a function of (network, allocation, data, settings, round index, the method's state) and nothing else: every
random choice has a stream of its own, keyed by what it is for. The one thing changed in place is the network's weights.
What the clients report and how it moves the weights is the method's (:mod:`zorba_core.engine.methods.interface`).

The loop, :func:`run_rounds`, knows only :class:`Rounds`: all clients in this process (:class:`LocalRounds`), or a
server and its clients over a network (:mod:`zorba_core.federation.rounds`).

Shapes: M blocks, N clients, P shared seeds, Q directions of a round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from zorba_core.allocation import Allocation
from zorba_core.allocation.storage import allocation_sha256
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.callbacks import Callback, RoundRecord
from zorba_core.engine.communication import numbers_a_round
from zorba_core.engine.directions import directions_of
from zorba_core.engine.evaluation import Evaluation, evaluate
from zorba_core.engine.methods.registry import method_facts, method_of
from zorba_core.engine.randomness import round_seeds, shared_seeds
from zorba_core.engine.records import EvaluationEntry, MethodState, RoundEntry
from zorba_core.engine.reports import NOT_ASKED, REPORTED, asked_clients, describe_refusals, judge_reports
from zorba_core.engine.rounds import FederatedRows, Reports, RoundContext, RoundPlan, RoundResult, TrainState
from zorba_core.engine.rows import Rows
from zorba_core.engine.schedule import lr_of_round
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    records: tuple[RoundRecord, ...]  # round 0 is the model before fine-tuning
    rounds_done: int
    stopped_by: str  # "rounds", "target" or "interrupt"


class Rounds(Protocol):
    """The source of rounds for the loop. The network holds the weights after ``rounds_done`` of them."""

    settings: Settings
    network: Blocks

    @property
    def rounds_done(self) -> int: ...

    @property
    def allocation(self) -> Allocation:
        """The run's; it changes where clients come and go. A round's own is in its result."""

    def next_round(self) -> RoundResult | None:
        """One round. None where no client gave a usable answer: the weights are as before, the round is to be tried
        again."""


def init(network: Blocks, settings: Settings) -> TrainState:
    """Draw the P shared seeds, all different."""
    seeds_P = shared_seeds(settings.seed, settings.num_seeds)
    method = method_of(settings)
    method_state = method.checked_state(method.init(network.num_blocks, settings))
    return TrainState(0, seeds_P, directions_of(network, settings), method_state)


def plan_round(state: TrainState, num_clients: int, settings: Settings) -> RoundPlan:
    """What the server sends out at a round's start: Q of the P seeds, to the clients that it asks."""
    t = state.rounds_done + 1
    seeds_Q = round_seeds(settings.seed, t, state.seeds_P, settings.directions)
    return RoundPlan(t, seeds_Q, asked_clients(num_clients, settings.participation, settings.seed, t))


def step(
    state: TrainState,
    network: Blocks,
    allocation: Allocation,
    rows: FederatedRows,
    settings: Settings,
) -> tuple[TrainState, RoundResult]:
    """One round in one process: plan, reports, update. The network holds w^(t+1) afterwards.

    Raises:
        RunError: no client's report can be used. The weights are those before the round.
    """
    plan = plan_round(state, allocation.num_clients, settings)
    context = RoundContext(plan, network, allocation.A_MN, rows, settings, state.directions)
    reports = method_of(settings).report(context)
    status_N = judge_reports(reports.rho_NQ, reports.loss_N, plan.asked_N, mu=settings.mu)
    reported_N = status_N == REPORTED
    try:
        if not reported_N.any():
            raise RunError(f"no client's loss and scalars could be used, {describe_refusals(status_N)}")
        rho_bar_MQ, method_state = _update(context, reports, reported_N, state.method_state)
    except RunError as error:
        raise RunError(_diverged(str(error), plan.round, settings)) from None
    result = RoundResult(
        plan.round,
        plan.seeds_Q,
        reports.rho_NQ,
        status_N,
        rho_bar_MQ,
        reports.loss_N,
        reports.forward_passes,
        reports.backward_passes,
        method_state,
        log_update=bool(method_state) and rho_bar_MQ is not None,
    )
    return replace(state, rounds_done=plan.round, method_state=method_state), result


def repeat_round(
    state: TrainState,
    done: RoundEntry | RoundResult,
    network: Blocks,
    allocation: Allocation,
    settings: Settings,
) -> TrainState:
    """Repeat a round from its recorded scalars: the same update of the weights, without any client."""
    if done.rho_bar_MQ is not None:
        update_blocks(network, done.rho_bar_MQ, done.seeds_Q, state.directions, lr_of_round(settings, done.round))
        return replace(state, rounds_done=done.round, method_state=done.method_state)
    plan = RoundPlan(done.round, done.seeds_Q, done.status_N != NOT_ASKED)
    A_MN = allocation.A_MN if done.A_MN is None else done.A_MN
    context = RoundContext(plan, network, A_MN, None, settings, state.directions)
    reports = Reports(done.rho_NQ, done.loss_N, forward_passes=0)
    _, method_state = _update(context, reports, done.status_N == REPORTED, state.method_state)
    return replace(state, rounds_done=done.round, method_state=method_state)


def _update(
    context: RoundContext, reports: Reports, reported_N: np.ndarray, state: MethodState
) -> tuple[np.ndarray | None, MethodState]:
    method = method_of(context.settings)
    rho_bar_MQ, state = method.update(context, reports, reported_N, state)
    return rho_bar_MQ, method.checked_state(state)


class LocalRounds:
    """All clients in this process."""

    def __init__(
        self,
        network: Blocks,
        allocation: Allocation,
        rows: FederatedRows,
        settings: Settings,
        state: TrainState | None = None,
    ) -> None:
        check_fit(network, allocation, rows, settings)
        self.network, self.allocation, self.settings = network, allocation, settings
        self._rows, self._state = rows, state or init(network, settings)

    @property
    def rounds_done(self) -> int:
        return self._state.rounds_done

    def next_round(self) -> RoundResult:
        self._state, result = step(self._state, self.network, self.allocation, self._rows, self.settings)
        return result


def run(
    network: Blocks,
    allocation: Allocation,
    rows: FederatedRows,
    settings: Settings,
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """Fine-tune in this process, from the first round; see :func:`run_rounds`.

    Raises:
        InvalidInputError: allocation, data and network do not fit each other.
        RunError: the run diverged.
    """
    return run_rounds(LocalRounds(network, allocation, rows, settings), rows.evaluation, callbacks)


def run_rounds(
    rounds: Rounds, evaluation: Rows, callbacks: Sequence[Callback] = (), before: Sequence[RoundRecord] = ()
) -> Outcome:
    """``settings.rounds`` rounds, or until the target or a callback ends it.

    ``before`` are the records of a run that is resumed; ``rounds`` then stands after the last of them.

    Raises:
        RunError: the run diverged.
    """
    settings, network = rounds.settings, rounds.network
    records = list(before)
    latest = records[-1] if records else RoundRecord(0, None, None, None, 0.0, 0, 0, 0)

    def judge() -> Evaluation:
        judged = evaluate(network, evaluation)
        if not math.isfinite(judged.loss):
            raise RunError(_diverged(f"the evaluation loss is {judged.loss}", rounds.rounds_done, settings))
        entry = EvaluationEntry(rounds.rounds_done, judged.loss, judged.accuracy, network.weights_sha256())
        for callback in callbacks:
            callback.on_evaluation(entry)
        return judged

    def record(entry: RoundRecord, evaluated: bool) -> RoundRecord:
        if evaluated:
            judged = judge()
            entry = replace(entry, eval_loss=judged.loss, eval_accuracy=judged.accuracy)
        records.append(entry)
        for callback in callbacks:
            callback.on_round(entry)
        return entry

    def at_target(entry: RoundRecord) -> bool:
        return settings.stop_at_target and entry.eval_accuracy is not None and entry.eval_accuracy >= settings.target

    if not records or (settings.evaluates_after(latest.round) and latest.eval_accuracy is None):
        latest = record(records.pop() if records else latest, evaluated=True)
    stop = False
    while rounds.rounds_done < settings.rounds and not stop and not at_target(latest):
        started = time.perf_counter()
        result = rounds.next_round()
        seconds = time.perf_counter() - started
        if result is not None:
            entry = _entry_of(rounds, result, latest, seconds)
            for callback in callbacks:
                callback.on_step(entry)
        stop = any(callback.wants_stop() for callback in callbacks)
        if result is not None:
            latest = record(RoundRecord.of(entry), evaluated=settings.evaluates_after(entry.round) or stop)
    stopped_by = "target" if at_target(latest) else "interrupt" if stop else "rounds"
    return Outcome(tuple(records), rounds.rounds_done, stopped_by)


def _entry_of(rounds: Rounds, result: RoundResult, before: RoundRecord, seconds: float) -> RoundEntry:
    """The round as the log keeps it, its totals on top of those before it."""
    settings, network = rounds.settings, rounds.network
    numbers = numbers_a_round(
        settings.method, len(result.status_N), network.num_blocks, settings.directions, sum(network.sizes_M)
    )
    return RoundEntry(
        round=result.round,
        seeds_Q=result.seeds_Q,
        rho_NQ=result.rho_NQ,
        status_N=result.status_N,
        loss_N=result.loss_N,
        allocation=allocation_sha256(rounds.allocation if result.A_MN is None else Allocation(result.A_MN))[:16],
        lr=lr_of_round(settings, result.round),
        mu=settings.mu,
        seconds=before.seconds + seconds,
        forward_passes=before.forward_passes + result.forward_passes,
        scalars_up=before.scalars_up + int((result.status_N != NOT_ASKED).sum()) * numbers.up_per_report,
        scalars_down=before.scalars_down + numbers.down,
        backward_passes=before.backward_passes + result.backward_passes,
        rho_bar_MQ=result.rho_bar_MQ if result.log_update else None,
        A_MN=result.A_MN,
        method_state=result.method_state if result.log_update else {},
    )


def check_fit(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> None:
    num_blocks, num_clients = allocation.A_MN.shape
    if num_blocks != network.num_blocks:
        raise InvalidInputError(f"the allocation is for {num_blocks} blocks and the model has {network.num_blocks}")
    if not method_facts(settings.method).allocates and not allocation.A_MN.all():
        raise InvalidInputError(
            f"method {settings.method} activates every block of every client; leave the allocation out, or use zorba"
        )
    if num_clients != len(rows.held_N):
        raise InvalidInputError(f"the allocation is for {num_clients} clients and data is held by {len(rows.held_N)}")
    for n, held in enumerate(rows.held_N):
        if len(held) == 0:
            raise InvalidInputError(f"client {n} holds no rows; use fewer clients or a larger alpha")
    check_model(network, settings)


def check_model(network: Blocks, settings: Settings) -> None:
    """Refuse rows longer than the model has positions; best before they are encoded."""
    if settings.seq_len > network.max_positions:
        raise InvalidInputError(
            f"seq_len is {settings.seq_len} and the model has {network.max_positions} positions; use at most that"
        )


def _diverged(what: str, t: int, settings: Settings) -> str:
    return f"round {t}: {what}; the run diverged, try a smaller learning rate (lr is {settings.lr:g})"
