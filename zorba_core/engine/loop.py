"""The fine-tuning loop, Algorithm 3 of the paper, for runs in one process and for federations.

A round (:func:`next_round`): the server sends seeds, the clients report, the server averages, and all move the weights.
The method (:mod:`zorba_core.engine.methods`) defines the reports and the average; the clients (:class:`Clients`) are in
this process (:class:`LocalClients`), or behind a network (:mod:`zorba_core.federation.remote`). Everything else stands
here once.

A round depends only on (network, allocation, data, settings, round index, the method's state): every random choice has
its own stream, named by its purpose. A round changes nothing but the network's weights, in place.

Shapes: M blocks, N clients, P shared seeds, Q directions of a round.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from torch import Tensor

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.communication import numbers_a_round
from zorba_core.engine.course import Course, is_over
from zorba_core.engine.directions import Directions, directions_of
from zorba_core.engine.evaluation import evaluate, shared_preference
from zorba_core.engine.methods.interface import method_of
from zorba_core.engine.parts import method_facts
from zorba_core.engine.randomness import round_seeds, shared_seeds
from zorba_core.engine.rate import length_of_step, rate_of_round, size_of_step
from zorba_core.engine.reports import NOT_ASKED, REPORTED, asked_clients, check_reports, describe_refusals
from zorba_core.engine.round import FederatedRows, MethodState, Reports, Round, RoundPlan, Step, client_batch
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.engine.update import apply_step
from zorba_core.errors import InvalidInputError, RunError

_log = logging.getLogger(__name__)


class Clients(Protocol):
    """The clients of a run."""

    def collect(self, plan: RoundPlan) -> Reports:
        """The reports of a round's clients."""
        ...

    def publish(self, done: Round) -> tuple[dict[str, Any], ...]:
        """Take a round's averages, for the clients to apply before the next round; return the events of the round. A
        round that diverged for want of a usable report has no averages.

        The clients get the averages with the next plan.
        """
        ...

    def preference(self, network: Blocks) -> np.ndarray:
        """The mean over clients of the model's preference among the label words on their training rows, (C,)."""
        ...

    def go_back(self, to: int) -> None:
        """Return every client to the weights after round ``to``."""


class LocalClients:
    """All clients in this process. They share the network, so there is nothing to publish."""

    def __init__(self, rows: FederatedRows) -> None:
        self._rows = rows

    def collect(self, plan: RoundPlan) -> Reports:
        settings, device = plan.settings, plan.network.device
        asked = np.flatnonzero(plan.asked_N).tolist()
        batches = {n: client_batch(self._rows, settings, plan.round, n, device) for n in asked}
        return method_of(settings).report(plan, batches)

    def publish(self, done: Round) -> tuple[dict[str, Any], ...]:
        return ()

    def preference(self, network: Blocks) -> np.ndarray:
        return shared_preference(network, self._rows.train, self._rows.held_N)

    def go_back(self, to: int) -> None:
        pass


class BestWeights:
    """A copy of the blocks after the best evaluated round, to go back to."""

    def __init__(self) -> None:
        self.state: TrainState | None = None
        self.weights_M: list[Tensor] = []

    def keep(self, network: Blocks, state: TrainState) -> None:
        """Copy the network's blocks."""
        self.state, blocks = state, range(network.num_blocks)
        if self.weights_M:  # no new memory
            for m in blocks:
                self.weights_M[m].copy_(network.block_weights(m))
        else:
            self.weights_M = [network.block_weights(m).clone() for m in blocks]


@dataclass(frozen=True, eq=False)
class Training:
    """What all rounds of a run share."""

    network: Blocks  # its weights change from round to round
    allocation: Allocation
    settings: Settings
    clients: Clients
    evaluation: Rows
    best: BestWeights = field(default_factory=BestWeights)

    @classmethod
    def local(cls, network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> Self:
        """With all clients in this process.

        Raises:
            InvalidInputError: as :func:`check_fit`.
        """
        check_fit(network, allocation, rows, settings)
        return cls(network, allocation, settings, LocalClients(rows), rows.evaluation)


@dataclass(frozen=True, eq=False)
class TrainState:
    """The state of a run, except the weights, which are in the network."""

    rounds_done: int
    seeds_P: np.ndarray  # uint32, shared with all clients before the first round
    directions: Directions
    method_state: MethodState = field(default_factory=dict)


def init(network: Blocks, settings: Settings) -> TrainState:
    """The state before the first round, with the P shared seeds, all different."""
    method_state = _as_logged(method_of(settings).init(network.num_blocks, settings), settings.method)
    seeds_P = shared_seeds(settings.seed, settings.num_seeds)
    return TrainState(0, seeds_P, directions_of(network, settings), method_state)


def run_rounds(training: Training, state: TrainState | None = None, before: Sequence[Round] = ()) -> Iterator[Round]:
    """Yield the base model as round 0, and then each round, with an evaluation if one is due.

    Ends after ``settings.rounds`` rounds, or with the first evaluation that reaches the target. Where the losses show
    that the rate was too large, goes back to the best evaluated round (:class:`zorba_core.engine.course.Course`). At
    the end the network has the weights of round ``Course.final``.

    Args:
        state, before: of a resumed run: its state and its rounds so far. The network has the weights that the next
            round starts from, and ``training.best`` those of the best round.

    Raises:
        RunError: no client reports, or not even the base model has a finite loss.
    """
    settings, network, best = training.settings, training.network, training.best
    course, latest = Course(before), before[-1] if before else None
    state = state or init(network, settings)
    if latest is None:
        latest = _evaluated(Round(0), training)
        if latest.diverged:
            raise RunError("round 0: the base model's loss is not finite; look at its weights and at the rows")
        course.add(latest)
        best.keep(network, state)
        yield latest
    while not is_over(latest, settings):
        state, latest = next_round(training, state, course)
        if settings.evaluates_after(latest.round) and not latest.diverged:
            latest = _evaluated(latest, training)
        course.add(latest)
        if course.best == latest.round:
            best.keep(network, state)
        over = is_over(latest, settings)
        to = course.weights(over)
        if to != latest.round:
            seen = "the loss is above the first one; the run's result is round %d"
            back = "the loss is far above the first one; back to round %d, at half the rate"
            _log.warning("round %d: " + (seen if over else back), latest.round, to)
            network.copy_to_blocks(best.weights_M)
            state = best.state or state
            training.clients.go_back(to)
        yield latest


def next_round(training: Training, state: TrainState, course: Course) -> tuple[TrainState, Round]:
    """One round of Algorithm 3, without evaluation. The network has w^(t+1) afterwards.

    Args:
        course: of the rounds so far. It gives the round's number and the factor of its rate.

    Raises:
        RunError: no client's report is usable although the weights were evaluated. The weights are unchanged.
    """
    started = time.perf_counter()
    network, settings, clients = training.network, training.settings, training.clients
    t = course.last + 1
    # Server: this round's seeds and clients.
    plan = plan_round(t, state, training)
    # Clients: scalars along the seeds, the finite differences of eq. (1) or their limit (estimator exact).
    reports = clients.collect(plan)
    # Server: the reports that can be used, and their average for each block, eq. (2).
    answered_N = reports.status_N == REPORTED
    checked_N = check_reports(reports.rho_NQ, reports.loss_N, answered_N, mu=settings.mu)
    status_N = np.where(answered_N, checked_N, reports.status_N)
    reported_N = status_N == REPORTED
    if not reported_N.any():
        if course.start in (0, course.best):
            raise RunError(f"round {t}: {describe_refusals(status_N)}; look at the clients' rows and at the settings")
        lost = Round(t, seeds_Q=plan.seeds_Q, status_N=status_N, diverged=True, **_origin(course, t))
        return state, replace(lost, events=clients.publish(lost))
    method = method_of(settings)
    step, method_state = _checked(method.update(plan, reports, reported_N, state.method_state), plan)
    # Server and clients: w_m <- w_m - lr sum_q rho_bar[m, q] v_q,m.
    length = length_of_step(settings.directions, sum(network.sizes_M))
    lr = rate_of_round(settings, t, size_of_step(step, settings.directions), length, course.factor)
    apply_step(network, step, state.directions, lr)
    done = Round(
        t,
        lr,
        plan.seeds_Q,
        np.where(reported_N[:, None], reports.rho_NQ, 0.0),
        status_N,
        np.where(reported_N, reports.loss_N, 0.0),
        step.rho_bar_MQ if method.exchanges == "scalars" else None,
        method_state,
        forward_passes=reports.forward_passes,
        backward_passes=reports.backward_passes,
        **_numbers_sent(plan, status_N),
        **_origin(course, t),
    )
    done = replace(done, events=clients.publish(done), seconds=time.perf_counter() - started)
    return replace(state, rounds_done=t, method_state=done.method_state), done


def _origin(course: Course, t: int) -> dict[str, Any]:
    """``after``, if the round does not start from the one before."""
    return {} if course.start == t - 1 else {"after": course.start}


def repeat_round(
    state: TrainState, done: Round, network: Blocks, allocation: Allocation, settings: Settings
) -> TrainState:
    """Repeat the update of a logged round, without clients."""
    step = Step(done.rho_bar_MQ, done.seeds_Q)
    if done.rho_bar_MQ is None:
        asked_N = done.status_N != NOT_ASKED
        plan = RoundPlan(done.round, done.seeds_Q, asked_N, network, allocation.A_MN, settings, state.directions)
        reports = Reports(done.rho_NQ, done.loss_N, done.status_N)
        step, _ = method_of(settings).update(plan, reports, done.reported_N, state.method_state)
    apply_step(network, step, state.directions, done.lr)
    return replace(state, rounds_done=done.round, method_state=done.method_state)


def plan_round(t: int, state: TrainState, training: Training) -> RoundPlan:
    """Q of the P seeds and the participating clients of round t."""
    settings, allocation = training.settings, training.allocation
    seeds_Q = round_seeds(settings.seed, t, state.seeds_P, settings.directions)
    asked_N = asked_clients(allocation.num_clients, settings.participation, settings.seed, t)
    return RoundPlan(t, seeds_Q, asked_N, training.network, allocation.A_MN, settings, state.directions)


def _evaluated(done: Round, training: Training) -> Round:
    """The round with the evaluation after it, or marked as diverged."""
    network, rows, prior_C = training.network, training.evaluation, None
    if training.settings.calibration == "batch":
        prior_C = training.clients.preference(network)
        rows = rows.with_prior(prior_C)
    result = evaluate(network, rows)
    if not math.isfinite(result.loss):
        return replace(done, diverged=True)
    sha256 = network.weights_sha256()
    return replace(done, eval_loss=result.loss, eval_accuracy=result.accuracy, prior_C=prior_C, weights_sha256=sha256)


def _numbers_sent(plan: RoundPlan, status_N: np.ndarray) -> dict[str, Any]:
    """``scalars_up`` and ``scalars_down`` of a round."""
    sizes, settings = sum(plan.network.sizes_M), plan.settings
    per_report, down = numbers_a_round(settings.method, len(status_N), len(plan.A_MN), settings.directions, sizes)
    return {"scalars_up": int((status_N != NOT_ASKED).sum()) * per_report, "scalars_down": down}


def _as_logged(state: MethodState, method: str) -> MethodState:
    """The state in the float64 of the log, so that a resumed run continues with the same bits.

    Raises:
        InvalidInputError: it has something else than finite numbers.
    """
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        logged = {name: np.asarray(value, np.float64) for name, value in state.items()}
        if all(np.isfinite(value).all() for value in logged.values()):
            return logged
    raise InvalidInputError(f"method {method}: its state must map names to arrays of finite numbers")


def _checked(answer: tuple[Step, MethodState], plan: RoundPlan) -> tuple[Step, MethodState]:
    """A method's step, with averages in float64, and its state as the log has it.

    Raises:
        InvalidInputError: the averages do not fit the blocks and the round's seeds, or the state has no numbers.
        RunError: the step is not finite.
    """
    (step, state), name = answer, plan.settings.method
    shape = len(plan.A_MN), len(step.seeds_Q)
    if method_facts(name).exchanges == "scalars" and not np.array_equal(step.seeds_Q, plan.seeds_Q):
        raise InvalidInputError(f"method {name} steps along other seeds than the round's, plan.seeds_Q")
    if step.gradient_M is not None:
        finite = all(bool(gradient.isfinite().all()) for gradient in step.gradient_M)
    elif step.rho_bar_MQ is None or np.shape(step.rho_bar_MQ) != shape:
        given = () if step.rho_bar_MQ is None else np.shape(step.rho_bar_MQ)
        raise InvalidInputError(f"method {name} returns averages of shape {given} in place of {shape}")
    else:
        rho_bar_MQ = np.asarray(step.rho_bar_MQ, np.float64)
        finite, step = bool(np.isfinite(rho_bar_MQ).all()), replace(step, rho_bar_MQ=rho_bar_MQ)
    if not finite:
        raise RunError(f"round {plan.round}: the step of method {name} is not finite; the run diverged")
    return step, _as_logged(state, name)


def check_fit(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> None:
    """Check that allocation, rows, settings and network fit each other.

    Raises:
        InvalidInputError: they do not.
    """
    num_blocks, num_clients = allocation.A_MN.shape
    if num_blocks != network.num_blocks:
        raise InvalidInputError(f"the allocation is for {num_blocks} blocks and the model has {network.num_blocks}")
    if not method_facts(settings.method).allocates and not allocation.A_MN.all():
        raise InvalidInputError(
            f"method {settings.method} activates every block of every client; leave the allocation out, or use zorba"
        )
    if num_clients != len(rows.held_N):
        raise InvalidInputError(f"the allocation is for {num_clients} clients and the data for {len(rows.held_N)}")
    for n, held in enumerate(rows.held_N):
        if len(held) == 0:
            raise InvalidInputError(f"client {n} has no rows; use fewer clients or a larger alpha")
    check_model(network, settings)


def check_model(network: Blocks, settings: Settings) -> None:
    """Check that the model has enough positions for the rows.

    Raises:
        InvalidInputError: it has too few.
    """
    if settings.seq_len > network.max_positions:
        raise InvalidInputError(
            f"seq_len is {settings.seq_len} and the model has {network.max_positions} positions; use at most that"
        )
