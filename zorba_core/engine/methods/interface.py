"""The interface of a method: its facts, and three functions with an explicit server state.

    init(num_blocks, settings) -> state                                             before the first round
    report(context) -> Reports                                                      the clients' reports
    update(context, reports, reported_N, state) -> (rho_bar_MQ or None, state)      the server updates the weights

Plans, checks of reports, evaluation, data, seeds and logging are the same for all methods, so two runs of one seed
differ by the method alone. A state is a mapping from names to float64 arrays. A function never changes its state
argument; it returns a new state.

Most methods are a :class:`ScalarMethod`: clients send one number a direction, and the server moves block m by
``-lr sum_q c[m, q] v_q``. Such a method only defines the coefficients c (EXTENDING.md shows one with a state). An
installed package can register facts alone, with ``code="my_package.momentum:Momentum"``, so that a list of the methods
imports no torch.

``coefficients`` is a pure function of a few numbers. A federation sends its result to the clients, whose replicas apply
it along the shared directions. Clients do not need the method's code.

The log has the coefficients of every round and the state after it, so resume and replay do not compute them again. A
method that exchanges whole estimates has no coefficients; its updates are computed again from the log's scalars.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from zorba_core.engine.aggregation import average_per_block, update_blocks
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.parts import MethodFacts, estimator_of
from zorba_core.engine.round import MethodState, Reports, RoundContext
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError


class Method(MethodFacts, ABC):
    """A federated algorithm: one object with the method's facts and its three functions."""

    def init(self, num_blocks: int, settings: Settings) -> MethodState:
        """The state before the first round."""
        return {}

    @abstractmethod
    def report(self, context: RoundContext) -> Reports:
        """The reports of the clients in ``context.asked_N``. Must not change the weights."""

    @abstractmethod
    def update(
        self, context: RoundContext, reports: Reports, reported_N: np.ndarray, state: MethodState
    ) -> tuple[np.ndarray | None, MethodState]:
        """Update the network's weights, in place, by the reports of the clients in ``reported_N``.

        For replay from the log, a method must use nothing of the reports but ``rho_NQ``.

        Returns:
            rho_bar_MQ if scalars are exchanged, else None; and the new state.

        Raises:
            RunError: the reports are not usable; the weights are unchanged.
        """


def logged_state(state: MethodState) -> MethodState:
    """The state in the float64 of the log, so that a resumed run continues with the same bits."""
    return {name: np.asarray(value, np.float64) for name, value in state.items()}


@dataclass(frozen=True, eq=False)
class Scalars:
    """The server's data after a round in which clients sent one number a direction."""

    rho_bar_MQ: np.ndarray  # average over clients for each block, by the run's rule
    rho_NQ: np.ndarray  # each client's scalars
    A_MN: np.ndarray
    reported_N: np.ndarray  # the clients in the average


class ScalarMethod(Method):
    """Clients send one scalar a shared direction; the server steps along the same directions. This class is ZorBA."""

    def coefficients(self, state: MethodState, scalars: Scalars, settings: Settings) -> tuple[np.ndarray, MethodState]:
        """The coefficients c, (M, Q), and the new state. A pure function that does not change its arguments."""
        return scalars.rho_bar_MQ, state

    def measure(
        self, context: RoundContext, estimator: Callable[..., Estimate], batches: Sequence[Rows], clients: np.ndarray
    ) -> Estimate:
        """The scalars of some clients for their batches."""
        return estimator(context.network, batches, context.A_MN[:, clients], context.seeds_Q, context.directions)

    def report(self, context: RoundContext) -> Reports:
        num_clients, asked = context.A_MN.shape[1], np.flatnonzero(context.asked_N)
        batches = [context.batch(int(n)) for n in asked]
        estimate = self.measure(context, estimator_of(context.settings), batches, asked)
        rho_NQ, loss_N = np.zeros((num_clients, len(context.seeds_Q))), np.zeros(num_clients)
        rho_NQ[asked], loss_N[asked] = estimate.rho_NQ, estimate.loss_N
        return Reports(rho_NQ, loss_N, estimate.forward_passes, estimate.backward_passes)

    def update(
        self, context: RoundContext, reports: Reports, reported_N: np.ndarray, state: MethodState
    ) -> tuple[np.ndarray | None, MethodState]:
        rho_bar_MQ = average_per_block(reports.rho_NQ, context.A_MN, reported_N)
        scalars = Scalars(rho_bar_MQ, reports.rho_NQ, context.A_MN, reported_N)
        coefficients_MQ, state = self.checked_coefficients(state, scalars, context.settings)
        update_blocks(context.network, coefficients_MQ, context.seeds_Q, context.directions, context.lr)
        return coefficients_MQ, state

    def checked_coefficients(
        self, state: MethodState, scalars: Scalars, settings: Settings
    ) -> tuple[np.ndarray, MethodState]:
        """:meth:`coefficients` in float64.

        Raises:
            InvalidInputError: their shape is not that of the averages.
            RunError: they are not finite.
        """
        coefficients_MQ, state = self.coefficients(state, scalars, settings)
        given, shape = np.shape(coefficients_MQ), scalars.rho_bar_MQ.shape
        if given != shape:
            raise InvalidInputError(f"method {self.name} returns coefficients of shape {given} in place of {shape}")
        if not np.isfinite(coefficients_MQ).all():
            raise RunError(f"method {self.name} returns coefficients that are not finite")
        return np.asarray(coefficients_MQ, np.float64), logged_state(state)
