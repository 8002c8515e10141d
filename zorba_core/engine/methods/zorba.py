"""ZorBA, the method of the paper: each client trains some blocks, and sends one number a direction.

All clients share the weights w and the directions v_q, which seeds determine. In round t client n sends, for each of Q
seeds, a finite difference of its loss F_n along v_q, restricted to the blocks that it activates (a_mn = 1):

    rho[n, q] = (F_n(w + mu sum_m a_mn v_q,m) - F_n(w)) / mu                                              in eq. (1)

The server averages these numbers and moves each block along the same directions:

    w_m <- w_m - lr sum_n (a_mn / c_m) (1/Q) sum_q rho[n, q] v_q,m  =  w_m - lr sum_q rho_bar[m, q] v_q,m     eq. (2)

Why the average of block m is over the c_m = sum_n a_mn clients that train the block: rho[n, q] v_q,m estimates the
gradient of F_n by block m only if client n perturbed block m. For another client v_q,m is independent of rho[n, q], so
its product is noise of mean zero. An average over all N clients would add this noise, and shrink the step of a block by
c_m / N. So the weights depend on the block, and there is one average for each block and direction, rho_bar[m, q].

A client whose report is not usable does not count, neither in the sum nor in c_m. A block without reports stays.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from zorba_core.engine.methods.interface import Method
from zorba_core.engine.parts import average_of, estimator_of
from zorba_core.engine.round import MethodState, Reports, RoundPlan, Step

if TYPE_CHECKING:
    from zorba_core.engine.rows import Rows


class ZorBA(Method):
    """A method of another package that keeps a state overrides ``init`` and ``update`` (EXTENDING.md)."""

    name, title = "zorba", "ZorBA"
    help = "shared directions, allocated blocks, exchanges scalars"
    default_directions = 10
    allocates = True

    def report(self, plan: RoundPlan, batches: Mapping[int, Rows]) -> Reports:
        """rho of eq. (1). :mod:`zorba_core.engine.estimators.reference` computes it as it is written, ``cohort`` for
        all clients at once, and ``exact``, the default of simulations, its limit for mu -> 0."""
        clients = sorted(batches)
        estimate = estimator_of(plan.settings)(
            plan.network, [batches[n] for n in clients], plan.A_MN[:, clients], plan.seeds_Q, plan.directions
        )
        passes = {"forward_passes": estimate.forward_passes, "backward_passes": estimate.backward_passes}
        return Reports.of_clients(plan, clients, estimate.rho_NQ, estimate.loss_N, **passes)

    def update(
        self, plan: RoundPlan, reports: Reports, reported_N: np.ndarray, state: MethodState
    ) -> tuple[Step, MethodState]:
        """Eq. (2), with the average of the settings; the paper's is the mean."""
        rho_bar_MQ = average_per_block(reports.rho_NQ, plan.A_MN, reported_N, average_of(plan.settings))
        return Step(rho_bar_MQ, plan.seeds_Q), state


def mean(rho_NQ: np.ndarray, counted_MN: np.ndarray, trim: float = 0.0) -> np.ndarray:
    """sum_n (a_mn / c_m) rho[n, q], (M, Q), float64. ``trim`` is for other averages."""
    popularity_M = counted_MN.sum(axis=1)
    weight_MN = counted_MN / np.maximum(popularity_M, 1)[:, None]
    # A sum over clients in their order, because the order within a matrix product depends on machine and threads, and a
    # replay on another machine must give the same bits.
    return (weight_MN[:, :, None] * rho_NQ[None]).sum(axis=1)


def average_per_block(
    rho_NQ: np.ndarray,
    A_MN: np.ndarray,
    reported_N: np.ndarray | None = None,
    average: Callable[[np.ndarray, np.ndarray], np.ndarray] = mean,
) -> np.ndarray:
    """rho_bar_MQ = (1/Q) times the average over the clients that activate block m and are in ``reported_N`` (bool,
    default all), float64; zeros for a block without reports."""
    counted_MN = np.asarray(A_MN, dtype=bool)
    rho_NQ = np.asarray(rho_NQ, dtype=np.float64)
    if reported_N is not None:
        counted_MN = counted_MN & reported_N
        rho_NQ = np.where(reported_N[:, None], rho_NQ, 0.0)
    return average(rho_NQ, counted_MN) / rho_NQ.shape[1]
