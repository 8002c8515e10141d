"""The fine-tuning loop: seeds out, the clients' reports up, one update of every block; evaluations in between.

A round is a function of (network, allocation, data, settings, round index) and nothing else: every random choice has a
stream of its own, keyed by what it is for. The one thing changed in place is the network's weights. What the clients
report and how it moves the weights is the method's (:mod:`zorba_core.engine.methods.registry`).

Shapes: M blocks, N clients, P shared seeds, Q directions of a round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zorba_core.allocation import AllocationMetrics
from zorba_core.allocation.storage import allocation_sha256
from zorba_core.engine.callbacks import Callback, RoundRecord
from zorba_core.engine.directions import directions_of
from zorba_core.engine.evaluation import Evaluation, evaluate
from zorba_core.engine.methods.registry import method_of
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.randomness import stream
from zorba_core.engine.ranks import ALONE, Ranks
from zorba_core.engine.records import EvaluationEntry, RoundEntry
from zorba_core.engine.reports import NOT_ASKED, REPORTED, asked_clients, describe_refusals, judge_reports
from zorba_core.engine.rounds import FederatedRows, Reports, RoundPlan, RoundResult, TrainState
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.planning.communication import numbers_a_round
from zorba_core.planning.methods import method_facts


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    records: tuple[RoundRecord, ...]  # round 0 is the model before fine-tuning
    rounds_done: int
    stopped_by: str  # "rounds", "target" or "interrupt"


def init(network: BlockNetwork, settings: TrainSettings) -> TrainState:
    """Draw the P shared seeds, all different."""
    seeds_P = stream("shared-seeds", settings.seed).choice(2**32, size=settings.num_seeds, replace=False)
    directions = directions_of(network, settings)
    return TrainState(rounds_done=0, seeds_P=seeds_P.astype(np.uint32), directions=directions)


def plan_round(state: TrainState, num_clients: int, settings: TrainSettings) -> RoundPlan:
    """What the server sends out at a round's start: Q of the P seeds, to the clients that it asks."""
    t = state.rounds_done + 1
    seeds_Q = stream("round-seeds", settings.seed, t).choice(state.seeds_P, settings.num_perturbations, replace=False)
    return RoundPlan(t, seeds_Q, asked_clients(num_clients, settings.participation, settings.seed, t))


def compute_reports(
    plan: RoundPlan,
    network: BlockNetwork,
    allocation: AllocationMetrics,
    rows: FederatedRows,
    settings: TrainSettings,
    directions: Directions,
    ranks: Ranks = ALONE,
) -> Reports:
    """What the clients answer. Each rank computes its share of them and learns of all; no weight is changed."""
    return method_of(settings).report(plan, network, allocation.A_MN, rows, settings, directions, ranks)


def conclude_round(
    plan: RoundPlan,
    reports: Reports,
    network: BlockNetwork,
    allocation: AllocationMetrics,
    settings: TrainSettings,
    directions: Directions,
) -> RoundResult:
    """Judge the reports, average those that can be used, and update the network: it holds w^(t+1) afterwards.

    Raises:
        RunError: no client's report can be used. The weights are those before the round.
    """
    status_N = judge_reports(
        reports.rho_NQ, reports.loss_N, plan.asked_N, mu=settings.mu, outlier_ratio=settings.outlier_ratio
    )
    reported_N = status_N == REPORTED
    if not reported_N.any():
        why = f"no client's loss and scalars could be used, {describe_refusals(status_N)}"
        raise RunError(_diverged(why, plan.round, settings))
    try:
        rho_bar_MQ = method_of(settings).update(
            network, reports, allocation.A_MN, reported_N, plan.seeds_Q, directions, settings.lr
        )
    except RunError as error:
        raise RunError(_diverged(str(error), plan.round, settings)) from None
    return RoundResult(
        plan.seeds_Q,
        reports.rho_NQ,
        status_N,
        rho_bar_MQ,
        reports.loss_N,
        reports.forward_passes,
        reports.backward_passes,
    )


def step(
    state: TrainState,
    network: BlockNetwork,
    allocation: AllocationMetrics,
    rows: FederatedRows,
    settings: TrainSettings,
    ranks: Ranks = ALONE,
) -> tuple[TrainState, RoundResult]:
    """One round in one process: plan, reports, conclusion. The network holds w^(t+1) afterwards.

    Raises:
        RunError: as :func:`conclude_round`.
    """
    plan = plan_round(state, allocation.num_clients, settings)
    reports = compute_reports(plan, network, allocation, rows, settings, state.directions, ranks)
    result = conclude_round(plan, reports, network, allocation, settings, state.directions)
    return TrainState(plan.round, state.seeds_P, state.directions), result


def run(
    network: BlockNetwork,
    allocation: AllocationMetrics,
    rows: FederatedRows,
    settings: TrainSettings,
    callbacks: Sequence[Callback] = (),
    *,
    before: Sequence[RoundRecord] = (),
    ranks: Ranks = ALONE,
) -> Outcome:
    """Fine-tune for ``settings.rounds`` rounds, or until the target or a callback ends it.

    ``before`` are the records of a run that is taken up again; the network must then hold the weights after the last
    of them. Every rank calls this; they must agree on everything but ``callbacks``, which rank 0 alone needs.

    Raises:
        InvalidInputError: allocation, data and network do not fit each other.
        RunError: the run diverged, or the ranks' weights did.
    """
    check_fit(network, allocation, rows, settings)
    state = init(network, settings)
    records = list(before)
    if records:
        state = replace(state, rounds_done=records[-1].round)
    total = records[-1] if records else RoundRecord(0, None, None, None, 0.0, 0, 0, 0)
    numbers = numbers_a_round(
        settings.method, allocation.num_clients, allocation.num_blocks, settings.num_perturbations, sum(network.sizes_M)
    )
    allocation_id = allocation_sha256(allocation)[:16]

    def judge() -> Evaluation:
        # One rank evaluates, so that all see the same bits whatever their load.
        judged = ranks.from_first(evaluate(network, rows.evaluation) if ranks.writes else None)
        if not math.isfinite(judged.loss):
            raise RunError(_diverged(f"the evaluation loss is {judged.loss}", state.rounds_done, settings))
        weights = ranks.gather(network.weights_sha256())
        strays = [rank for rank, fingerprint in enumerate(weights) if fingerprint != weights[0]]
        if strays:
            raise RunError(f"round {state.rounds_done}: rank {strays[0]}'s weights differ from rank 0's")
        for callback in callbacks:
            callback.on_evaluation(EvaluationEntry(state.rounds_done, judged.loss, judged.accuracy, weights[0]))
        return judged

    def record(entry: RoundRecord, evaluated: bool) -> RoundRecord:
        if evaluated:
            judged = judge()
            entry = replace(entry, eval_loss=judged.loss, eval_accuracy=judged.accuracy)
        records.append(entry)
        for callback in callbacks:
            callback.on_round(entry)
        return entry

    def is_due(round_index: int) -> bool:
        return round_index % settings.eval_every == 0 or round_index == settings.rounds

    def at_target(entry: RoundRecord) -> bool:
        return settings.stop_at_target and entry.eval_accuracy is not None and entry.eval_accuracy >= settings.target

    if not records or (is_due(total.round) and total.eval_accuracy is None):
        latest = record(records.pop() if records else total, evaluated=True)
    else:
        latest = total
    stop = False
    while state.rounds_done < settings.rounds and not stop and not at_target(latest):
        started = time.perf_counter()
        state, result = step(state, network, allocation, rows, settings, ranks)
        step_entry = RoundEntry(
            round=state.rounds_done,
            seeds_Q=result.seeds_Q,
            rho_NQ=result.rho_NQ,
            status_N=result.status_N,
            loss_N=result.loss_N,
            allocation=allocation_id,
            lr=settings.lr,
            mu=settings.mu,
            seconds=latest.seconds + time.perf_counter() - started,
            forward_passes=latest.forward_passes + result.forward_passes,
            scalars_up=latest.scalars_up + int((result.status_N != NOT_ASKED).sum()) * numbers.up_per_report,
            scalars_down=latest.scalars_down + numbers.down,
            backward_passes=latest.backward_passes + result.backward_passes,
        )
        for callback in callbacks:
            callback.on_step(step_entry)
        stop = bool(ranks.sum(np.array([any(callback.wants_stop() for callback in callbacks)], float))[0])
        latest = record(record_of(step_entry), evaluated=is_due(state.rounds_done) or stop)
    stopped_by = "target" if at_target(latest) else "interrupt" if stop else "rounds"
    return Outcome(tuple(records), state.rounds_done, stopped_by)


def record_of(entry: RoundEntry) -> RoundRecord:
    """The round's row of metrics, before any evaluation."""
    return RoundRecord(
        round=entry.round,
        train_loss=entry.train_loss,
        eval_loss=None,
        eval_accuracy=None,
        seconds=entry.seconds,
        forward_passes=entry.forward_passes,
        scalars_up=entry.scalars_up,
        scalars_down=entry.scalars_down,
        clients_reported=int(entry.reported_N.sum()),
        clients_refused=int(entry.refused_N.sum()),
        backward_passes=entry.backward_passes,
    )


def check_fit(
    network: BlockNetwork, allocation: AllocationMetrics, rows: FederatedRows, settings: TrainSettings
) -> None:
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
    if settings.seq_len > network.max_positions:
        raise InvalidInputError(
            f"seq_len is {settings.seq_len} and the model has {network.max_positions} positions; use at most that"
        )


def _diverged(what: str, t: int, settings: TrainSettings) -> str:
    return f"round {t}: {what}; the run diverged, try a smaller learning rate (lr is {settings.lr:g})"
