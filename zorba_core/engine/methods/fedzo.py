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
from collections.abc import Callable, Sequence

import numpy as np

from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.methods.interface import ScalarMethod
from zorba_core.engine.randomness import stream
from zorba_core.engine.round import MethodState, Reports, RoundContext
from zorba_core.engine.rows import Rows


def client_seeds(seeds_Q: Sequence[int], client: int) -> list[int]:
    """Client n's seeds for the round's seeds, in the same order."""
    return [_client_seed(int(seed), int(client)) for seed in seeds_Q]


@functools.lru_cache(maxsize=2**14)
def _client_seed(seed: int, client: int) -> int:
    return int(stream("client-direction", seed, client).integers(2**64, dtype=np.uint64))


def own_coefficients(rho_NQ: np.ndarray, reported_N: np.ndarray) -> np.ndarray:
    """rho[n, q] / (N Q) for the N clients that reported, 0 for the others, client by client: (U,)."""
    count = max(int(reported_N.sum()), 1) * rho_NQ.shape[1]
    return np.where(reported_N[:, None], rho_NQ / count, 0.0).ravel()


class FedZO(ScalarMethod):
    """The log has the scalars, which rebuild the estimates; a deployment would send the estimates."""

    def measure(
        self, context: RoundContext, estimator: Callable[..., Estimate], batches: Sequence[Rows], clients: np.ndarray
    ) -> Estimate:
        """The scalars of some clients, one client after another, because no two of them perturb the same weights."""
        seeds_Q = context.seeds_Q
        estimates = [
            estimator(context.network, [batch], context.A_MN[:, [n]], client_seeds(seeds_Q, n), context.directions)
            for batch, n in zip(batches, clients, strict=True)
        ]
        return Estimate(
            np.concatenate([estimate.rho_NQ for estimate in estimates]),
            np.concatenate([estimate.loss_N for estimate in estimates]),
            sum(estimate.forward_passes for estimate in estimates),
            sum(estimate.backward_passes for estimate in estimates),
        )

    def update(
        self, context: RoundContext, reports: Reports, reported_N: np.ndarray, state: MethodState
    ) -> tuple[None, MethodState]:
        coefficients_U = own_coefficients(reports.rho_NQ, reported_N)
        coefficients_MU = np.broadcast_to(coefficients_U, (context.network.num_blocks, len(coefficients_U)))
        seeds_U = [seed for n in range(len(reported_N)) for seed in client_seeds(context.seeds_Q, n)]
        update_blocks(context.network, coefficients_MU, seeds_U, context.directions, context.lr)
        return None, state
