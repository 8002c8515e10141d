"""FedZO's directions: each client perturbs along its own.

In a deployment a client draws its directions from whatever randomness it has and nobody else learns them; that is why
it must send a whole estimate. Here client n's direction for the round's seed s is that of a seed derived from both, the
first 64 bits of the stream ("client-direction", s, n) of :mod:`zorba_core.engine.randomness`, so that a run is
repeatable and its scalars alone can rebuild it. Derived seeds are 64 bits long and shared ones 32, so that two clients,
rounds or methods meet in one direction only by a chance of about one in 2**32 or less.

Shapes: M blocks, N clients, Q directions of a round and client.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.methods.interface import ScalarMethod
from zorba_core.engine.methods.steps import lr_of_round
from zorba_core.engine.randomness import stream
from zorba_core.engine.records import MethodState
from zorba_core.engine.rounding import Rounding, rounding_of, subtract
from zorba_core.engine.rounds import Reports, RoundContext
from zorba_core.engine.row_kinds import Rows


def client_seeds(seeds_Q: Sequence[int], client: int) -> list[int]:
    """Client n's own seeds for the round's seeds, in their order."""
    return [_client_seed(int(seed), int(client)) for seed in seeds_Q]


@functools.lru_cache(maxsize=2**14)  # a round asks for each once a block
def _client_seed(seed: int, client: int) -> int:
    return int(stream("client-direction", seed, client).integers(2**64, dtype=np.uint64))


@torch.no_grad()
def own_step(
    weights: Tensor,
    block: int,
    rho_NQ: np.ndarray,
    clients: Sequence[int],
    seeds_Q: Sequence[int],
    directions: Directions,
) -> Tensor:
    """The mean over ``clients`` of their estimates (1/Q) sum_q rho[n, q] v_nq of the block of these weights: (D_m,).
    ``rho_NQ`` has the clients' rows."""
    step = torch.zeros_like(weights, dtype=directions.dtype)
    for row, client in enumerate(clients):
        for q, seed in enumerate(client_seeds(seeds_Q, int(client))):
            directions.sum_into(step, seed, block, float(rho_NQ[row, q]) / rho_NQ.size)
    return step


@dataclass(frozen=True, eq=False)
class OwnStep:
    """w_m <- w_m - lr mean_n (1/Q) sum_q rho[n, q] v_nq,m for one block, in place."""

    block: int
    rho_NQ: np.ndarray
    clients: Sequence[int]
    seeds_Q: Sequence[int]
    directions: Directions
    lr: float
    rounding: Rounding

    @torch.no_grad()
    def __call__(self, weights: Tensor) -> None:
        step = own_step(weights, self.block, self.rho_NQ, self.clients, self.seeds_Q, self.directions)
        subtract(weights, step, self.lr, self.block, self.rounding)

    @property
    def identity(self) -> bytes:
        """Equal for two steps exactly when they do the same."""
        numbers = [np.asarray(self.rho_NQ, np.float64), np.asarray([*self.clients, -1, *self.seeds_Q], np.int64)]
        return f"own {self.directions.identity} {self.lr!r} {self.rounding} ".encode() + b"".join(
            part.tobytes() for part in numbers
        )


class OwnDirections(ScalarMethod):
    """FedZO. Its log has scalars, since they can rebuild the estimates; on the wire there would be the estimates."""

    def measure(
        self, context: RoundContext, estimator: Callable[..., Estimate], batches: Sequence[Rows], clients: np.ndarray
    ) -> Estimate:
        """No two clients meet the same weights, so there is nothing to share but the base weights: one client after
        another."""
        seeds_Q, A_MN = context.plan.seeds_Q, context.A_MN
        estimates = [
            estimator(context.network, [batch], A_MN[:, [n]], client_seeds(seeds_Q, int(n)), context.directions)
            for batch, n in zip(batches, clients, strict=True)
        ]
        return Estimate(
            np.concatenate([estimate.rho_NQ for estimate in estimates]),
            np.concatenate([estimate.loss_N for estimate in estimates]),
            sum(estimate.forward_passes for estimate in estimates),
            sum(estimate.backward_passes for estimate in estimates),
        )

    @torch.no_grad()
    def update(
        self, context: RoundContext, reports: Reports, reported_N: np.ndarray, state: MethodState
    ) -> tuple[None, MethodState]:
        """w_m <- w_m - lr mean_n (1/Q) sum_q rho[n, q] v_nq,m over the clients that reported."""
        network, clients = context.network, np.flatnonzero(reported_N)
        rho_NQ, seeds_Q = reports.rho_NQ[clients], context.plan.seeds_Q
        settings, t = context.settings, context.plan.round
        lr, rounding = lr_of_round(settings, t), rounding_of(settings, t)
        for m in range(network.num_blocks):
            network.change_block(m, OwnStep(m, rho_NQ, clients, seeds_Q, context.directions, lr, rounding))
        return None, state
