"""FedKSeed: clients make several steps of their own, along directions of a fixed set of K seeds.

Qin, Chen, Qian, Ding, Li, Deng: "Federated Full-Parameter Tuning of Billion-Sized Language Models with Communication
Cost under 18 Kilobytes", ICML 2024, arXiv:2312.06353. K candidate seeds are agreed on once (``--num-seeds``). In a
round client n makes Q steps (``--perturbations``; the paper's tau, its local steps) from the shared weights, each with
rows of its own and along one of the K seeds that it draws itself:

    w_n <- w_n - lr rho v_j,    rho = (F_n(w_n + mu v_j) - F_n(w_n)) / mu    (its equations 2 and 3)

and sends the pairs (j, rho). The server adds them up, seed by seed, and every client follows with
w <- w - lr sum_n (1/N) sum_j rho_nj v_nj (equations 4 and 5): at most K numbers, whatever the number of rounds.

What differs from the paper: all clients weigh alike, as with the other methods here, not by their rows; differences are
to one side; seeds are drawn alike (FedKSeed, not FedKSeed-Pro, which prefers those with larger scalars). What client n
draws in round t follows from (run's seed, t, n), so that scalars alone repeat a run; the ledger counts the seeds that
it would send.

Shapes: M blocks, N clients, Q local steps, U = N Q steps of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.methods.interface import ScalarMethod, Scalars
from zorba_core.engine.methods.steps import lr_of_round
from zorba_core.engine.randomness import shared_seeds, stream
from zorba_core.engine.records import MethodState
from zorba_core.engine.rounds import RoundContext
from zorba_core.engine.row_kinds import Rows
from zorba_core.engine.settings import TrainSettings


class FedKSeed(ScalarMethod):
    """The steps of a round, of all clients, are the directions of its update: ``num_clients * Q`` of them."""

    def update_seeds(
        self, settings: TrainSettings, round_index: int, seeds_Q: np.ndarray, num_clients: int
    ) -> np.ndarray:
        return np.concatenate([local_seeds(settings, round_index, n) for n in range(num_clients)])

    def coefficients(
        self, state: MethodState, scalars: Scalars, settings: TrainSettings
    ) -> tuple[np.ndarray, MethodState]:
        """(a_mn / c_m) rho[n, j] for client n's step j: (M, U). Steps follow each other, so there is no 1/Q."""
        active_MN = scalars.A_MN & scalars.reported_N
        weight_MN = active_MN / np.maximum(active_MN.sum(axis=1), 1)[:, None]
        rho_NQ = np.where(scalars.reported_N[:, None], scalars.rho_NQ, 0.0)
        return (weight_MN[:, :, None] * rho_NQ[None]).reshape(len(active_MN), -1), state

    def measure(
        self, context: RoundContext, estimator: Callable[..., Estimate], batches: Sequence[Rows], clients: np.ndarray
    ) -> Estimate:
        """One client after another, each from the shared weights, which it leaves as they were."""
        network, settings = context.network, context.settings
        rho_CQ, loss_C = np.zeros((len(clients), settings.num_perturbations)), np.zeros(len(clients))
        passes = np.zeros(2, int)
        before_M = [network.block_weights(m).clone() for m in range(network.num_blocks)]
        for row, n in enumerate(clients):
            try:
                for step, seed in enumerate(local_seeds(settings, context.plan.round, int(n))):
                    batch = batches[row] if step == 0 else context.batch(int(n), step)
                    own = estimator(network, [batch], context.A_MN[:, [n]], [seed], context.directions)
                    rho_CQ[row, step] = own.rho_NQ[0, 0]
                    loss_C[row] = own.loss_N[0] if step == 0 else loss_C[row]
                    passes += own.forward_passes, own.backward_passes
                    self._move(context, float(own.rho_NQ[0, 0]), context.A_MN[:, n], int(seed))
            finally:
                network.copy_to_blocks(before_M)
        return Estimate(rho_CQ, loss_C, *map(int, passes))

    def _move(self, context: RoundContext, rho: float, active_M: np.ndarray, seed: int) -> None:
        if not np.isfinite(rho):
            return  # the report says it; the server refuses it
        settings, t = context.settings, context.plan.round
        update_blocks(context.network, rho * active_M[:, None], [seed], context.directions, lr_of_round(settings, t))


def local_seeds(settings: TrainSettings, round_index: int, client: int) -> np.ndarray:
    """The seeds of client n's steps in round t, (Q,) uint32: drawn from the K candidates, with repeats."""
    drawn = stream("local-seeds", settings.seed, round_index, client)
    return drawn.choice(shared_seeds(settings.seed, settings.num_seeds), size=settings.num_perturbations)
