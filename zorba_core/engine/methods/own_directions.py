"""Methods whose clients perturb along directions of their own: FedZO, and ZorBA with own directions.

Q directions that all N clients share leave the noise of Q directions in a round's average, however many clients there
are; with own ones it is that of N Q. The price: whoever follows needs every client's scalars, N Q numbers instead of
an average for each of Q, and draws N Q directions. A round moves block m by

    w_m <- w_m - lr sum_n (a_mn / c_m) (1/Q) sum_q rho[n, q] v_nq,m    over the clients that reported.

* FedZO: in a deployment nobody else learns a client's directions; that is why it must send a whole estimate. Here
  client n's direction for the round's seed s is that of a seed derived from both, the first 64 bits of the stream
  ("client-direction", s, n) of :mod:`zorba_core.engine.randomness`, so that a run is repeatable and its scalars alone
  can rebuild it. Derived seeds are 64 bits long and shared ones 32, so that two clients, rounds or methods meet in one
  direction only by a chance of about one in 2**32 or less.
* ZorBA with own directions: who draws what follows from (run's seed, round), among the run's shared seeds, no two
  clients the same while there are N Q of them. So scalars are all that is sent.

Shapes: M blocks, N clients, Q directions of a round and client, U = N Q.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.methods.interface import ScalarMethod, Scalars
from zorba_core.engine.randomness import shared_seeds, stream
from zorba_core.engine.records import MethodState
from zorba_core.engine.rounds import Reports, RoundContext
from zorba_core.engine.row_kinds import Rows
from zorba_core.engine.settings import TrainSettings


def client_seeds(seeds_Q: Sequence[int], client: int) -> list[int]:
    """FedZO's client n's own seeds for the round's seeds, in their order."""
    return [_client_seed(int(seed), int(client)) for seed in seeds_Q]


@functools.lru_cache(maxsize=2**14)
def _client_seed(seed: int, client: int) -> int:
    return int(stream("client-direction", seed, client).integers(2**64, dtype=np.uint64))


def own_coefficients(rho_NQ: np.ndarray, A_MN: np.ndarray, reported_N: np.ndarray) -> np.ndarray:
    """(a_mn / c_m) rho[n, q] / Q, clients after each other: (M, U)."""
    active_MN = np.asarray(A_MN, bool) & reported_N
    divisor_M = np.maximum(active_MN.sum(axis=1), 1) * rho_NQ.shape[1]
    rho_NQ = np.where(reported_N[:, None], rho_NQ, 0.0)
    return np.where(active_MN[:, :, None], rho_NQ / divisor_M[:, None, None], 0.0).reshape(len(active_MN), -1)


class OwnDirections(ScalarMethod):
    """ZorBA with own directions."""

    def client_seeds(
        self, settings: TrainSettings, round_index: int, seeds_Q: np.ndarray, num_clients: int
    ) -> np.ndarray:
        """The seeds of every client in a round, (N, Q): the same for client n however many clients follow."""
        order_P = stream("own-seeds", settings.seed, round_index).permutation(settings.num_seeds)
        places = np.arange(num_clients * len(seeds_Q)) % settings.num_seeds
        return shared_seeds(settings.seed, settings.num_seeds)[order_P[places]].reshape(num_clients, -1)

    def update_seeds(
        self, settings: TrainSettings, round_index: int, seeds_Q: np.ndarray, num_clients: int
    ) -> np.ndarray:
        return self.client_seeds(settings, round_index, seeds_Q, num_clients).ravel()

    def coefficients(
        self, state: MethodState, scalars: Scalars, settings: TrainSettings
    ) -> tuple[np.ndarray, MethodState]:
        return own_coefficients(scalars.rho_NQ, scalars.A_MN, scalars.reported_N), state

    def measure(
        self, context: RoundContext, estimator: Callable[..., Estimate], batches: Sequence[Rows], clients: np.ndarray
    ) -> Estimate:
        """No two clients meet the same weights, so there is nothing to share but the base weights: one client after
        another."""
        plan, A_MN = context.plan, context.A_MN
        seeds_NQ = self.client_seeds(context.settings, plan.round, plan.seeds_Q, A_MN.shape[1])
        estimates = [
            estimator(context.network, [batch], A_MN[:, [n]], seeds_NQ[n], context.directions)
            for batch, n in zip(batches, clients, strict=True)
        ]
        return Estimate(
            np.concatenate([estimate.rho_NQ for estimate in estimates]),
            np.concatenate([estimate.loss_N for estimate in estimates]),
            sum(estimate.forward_passes for estimate in estimates),
            sum(estimate.backward_passes for estimate in estimates),
        )


class FedZO(OwnDirections):
    """Its log has scalars, since they can rebuild the estimates; on the wire there would be the estimates."""

    def client_seeds(
        self, settings: TrainSettings, round_index: int, seeds_Q: np.ndarray, num_clients: int
    ) -> np.ndarray:
        return np.array([client_seeds(seeds_Q, n) for n in range(num_clients)], dtype=np.uint64)

    def update(
        self, context: RoundContext, reports: Reports, reported_N: np.ndarray, state: MethodState
    ) -> tuple[None, MethodState]:
        return None, super().update(context, reports, reported_N, state)[1]
