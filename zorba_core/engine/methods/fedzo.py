"""FedZO: every client has its own directions and sends a whole estimate of the gradient.

In a deployment a client's directions are private, so it must send the estimate. In this simulation client n's direction
for the round's seed s has a seed that is derived from both: the first 64 bits of the stream ("client-direction", s, n)
of :mod:`zorba_core.engine.randomness`. So a run can be repeated, and its scalars alone rebuild the updates. Derived
seeds have 64 bits and shared ones 32, so two clients, rounds or methods share a direction with a probability of about
2**-32 or less.

A round moves block m by

    w_m <- w_m - lr (1/N) sum_n (1/Q) sum_q rho[n, q] v_nq,m    over the N clients that reported.

Shapes: M blocks, N clients, Q directions of a round and client, U = N Q.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from zorba_core.engine.methods.interface import Method
from zorba_core.engine.parts import estimator_of
from zorba_core.engine.randomness import stream
from zorba_core.engine.round import MethodState, Reports, RoundPlan, Step

if TYPE_CHECKING:
    from zorba_core.engine.rows import Rows


class FedZO(Method):
    """The log has the scalars, which rebuild the estimates; a deployment would send the estimates."""

    name, title = "fedzo", "FedZO"
    help = "each client's own directions, all blocks, exchanges full estimates"
    default_directions = 1
    exchanges = "estimates"

    def report(self, plan: RoundPlan, batches: Mapping[int, Rows]) -> Reports:
        """rho[n, q] = (F_n(w + mu v_nq) - F_n(w)) / mu, one client after another, because no two of them perturb the
        same weights."""
        clients, estimator = sorted(batches), estimator_of(plan.settings)
        estimates = [
            estimator(plan.network, [batches[n]], plan.A_MN[:, [n]], client_seeds(plan.seeds_Q, n), plan.directions)
            for n in clients
        ]
        return Reports.of_clients(
            plan,
            clients,
            np.concatenate([estimate.rho_NQ for estimate in estimates]),
            np.concatenate([estimate.loss_N for estimate in estimates]),
            forward_passes=sum(estimate.forward_passes for estimate in estimates),
            backward_passes=sum(estimate.backward_passes for estimate in estimates),
        )

    def update(
        self, plan: RoundPlan, reports: Reports, reported_N: np.ndarray, state: MethodState
    ) -> tuple[Step, MethodState]:
        """(1/N) sum_n (1/Q) sum_q rho[n, q] v_nq, the same for every block: a step along U = N Q directions."""
        coefficients_U = own_coefficients(reports.rho_NQ, reported_N)
        coefficients_MU = np.broadcast_to(coefficients_U, (len(plan.A_MN), len(coefficients_U)))
        seeds_U = [seed for n in range(len(reported_N)) for seed in client_seeds(plan.seeds_Q, n)]
        return Step(coefficients_MU, seeds_U), state


def client_seeds(seeds_Q: Sequence[int] | np.ndarray, client: int) -> list[int]:
    """Client n's seeds for the round's seeds, in the same order."""
    return [_client_seed(int(seed), int(client)) for seed in seeds_Q]


@functools.lru_cache(maxsize=2**14)
def _client_seed(seed: int, client: int) -> int:
    return int(stream("client-direction", seed, client).integers(2**64, dtype=np.uint64))


def own_coefficients(rho_NQ: np.ndarray, reported_N: np.ndarray) -> np.ndarray:
    """rho[n, q] / (N Q) for the N clients that reported, 0 for the others, client by client: (U,)."""
    count = max(int(reported_N.sum()), 1) * rho_NQ.shape[1]
    return np.where(reported_N[:, None], rho_NQ / count, 0.0).ravel()
