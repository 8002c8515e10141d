"""ZorBA, DeComFL, FedZO and FedIT behind one interface: what the clients report, and how the server moves the weights.

Each method is two functions. Plans, judging, evaluation, data, seeds and logging are the same for all; so a difference
between two runs of one seed is the method's.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from zorba_core.engine.aggregation import apply_scalars
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.estimators.registry import ESTIMATORS, estimator_of
from zorba_core.engine.methods.first_order import gradient_cohort, gradient_reference
from zorba_core.engine.methods.own_directions import apply_own, estimate_own
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.ranks import Ranks
from zorba_core.engine.rounds import FederatedRows, Reports, RoundPlan, client_batch
from zorba_core.engine.rows import Encoded
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import RunError
from zorba_core.planning.methods import METHODS as FACTS
from zorba_core.planning.methods import MethodFacts

# (plan, network, A_MN, rows, settings, directions, ranks): what the clients answer; no weight is changed.
Report = Callable[[RoundPlan, BlockNetwork, np.ndarray, FederatedRows, TrainSettings, Directions, Ranks], Reports]
# (network, reports, A_MN, reported_N, seeds_Q, directions, lr): the update, in place; rho_bar_MQ where there is one.
Update = Callable[[BlockNetwork, Reports, np.ndarray, np.ndarray, Sequence[int], Directions, float], np.ndarray | None]
# (estimator, network, batches, clients, A_MN of them, seeds_Q, directions): the scalars of some clients.
Measure = Callable[
    [Callable[..., Estimate], BlockNetwork, Sequence[Encoded], Sequence[int], np.ndarray, Sequence[int], Directions],
    Estimate,
]


@dataclass(frozen=True)
class Method:
    """A federated algorithm. ``update`` of a method that exchanges numbers a direction needs only what the log keeps
    of the reports, so a run of it can be replayed."""

    facts: MethodFacts
    report: Report
    update: Update


def method_of(settings: TrainSettings) -> Method:
    return METHODS[settings.method]


def _report_scalars(measure: Measure) -> Report:
    """Each rank measures its share of the clients and learns of all."""

    def report(
        plan: RoundPlan,
        network: BlockNetwork,
        A_MN: np.ndarray,
        rows: FederatedRows,
        settings: TrainSettings,
        directions: Directions,
        ranks: Ranks,
    ) -> Reports:
        num_clients = A_MN.shape[1]
        own = ranks.own(np.flatnonzero(plan.asked_N))
        rho_NQ, loss_N, forward_passes = np.zeros((num_clients, len(plan.seeds_Q))), np.zeros(num_clients), 0
        if len(own):
            batches = [client_batch(rows, settings, plan.round, int(n), network.device) for n in own]
            estimator = estimator_of(settings)
            found = measure(estimator, network, batches, own, A_MN[:, own], plan.seeds_Q, directions)
            rho_NQ[own], loss_N[own], forward_passes = found.rho_NQ, found.loss_N, found.forward_passes
        rho_NQ, loss_N = ranks.sum(rho_NQ), ranks.sum(loss_N)
        return Reports(rho_NQ, loss_N, int(ranks.sum(np.array([forward_passes]))[0]))

    return report


def _along_shared(
    estimator: Callable[..., Estimate],
    network: BlockNetwork,
    batches: Sequence[Encoded],
    clients: Sequence[int],
    A_MN: np.ndarray,
    seeds_Q: Sequence[int],
    directions: Directions,
) -> Estimate:
    return estimator(network, batches, A_MN, seeds_Q, directions)


def _move_shared(
    network: BlockNetwork,
    reports: Reports,
    A_MN: np.ndarray,
    reported_N: np.ndarray,
    seeds_Q: Sequence[int],
    directions: Directions,
    lr: float,
) -> np.ndarray:
    return apply_scalars(network, reports.rho_NQ, A_MN, reported_N, seeds_Q, directions, lr)


def _move_own(
    network: BlockNetwork,
    reports: Reports,
    A_MN: np.ndarray,
    reported_N: np.ndarray,
    seeds_Q: Sequence[int],
    directions: Directions,
    lr: float,
) -> None:
    apply_own(network, reports.rho_NQ, reported_N, seeds_Q, directions, lr)


def _report_gradient(
    plan: RoundPlan,
    network: BlockNetwork,
    A_MN: np.ndarray,
    rows: FederatedRows,
    settings: TrainSettings,
    directions: Directions,
    ranks: Ranks,
) -> Reports:
    """One SGD step of each client from the shared weights; the average of the stepped models is the step along the mean
    of the gradients. (Sums over ranks depend in their last bits on how many ranks there are.)"""
    own = ranks.own(np.flatnonzero(plan.asked_N))
    batches = [client_batch(rows, settings, plan.round, int(n), network.device) for n in own]
    if ESTIMATORS[settings.estimator].cohort:
        found = gradient_cohort(network, batches, max_rows=settings.max_rows)
    else:
        found = gradient_reference(network, batches)
    loss_N = np.zeros(A_MN.shape[1])
    loss_N[own] = found.loss_N
    counts = ranks.sum(np.array([found.counted, found.forward_passes, found.backward_passes], float))
    counted, forward_passes, backward_passes = (int(count) for count in counts)
    gradient_M = []
    for total in found.sum_M:
        if ranks.size > 1:
            total = torch.from_numpy(ranks.sum(total.cpu().numpy())).to(total)
        gradient_M.append(total.div_(max(counted, 1)))
    no_scalars = np.zeros((A_MN.shape[1], 0))
    return Reports(no_scalars, ranks.sum(loss_N), forward_passes, backward_passes, tuple(gradient_M))


@torch.no_grad()
def _move_gradient(
    network: BlockNetwork,
    reports: Reports,
    A_MN: np.ndarray,
    reported_N: np.ndarray,
    seeds_Q: Sequence[int],
    directions: Directions,
    lr: float,
) -> None:
    if not all(bool(torch.isfinite(gradient).all()) for gradient in reports.gradient_M):
        raise RunError("the gradient is not finite")
    for m, gradient in enumerate(reports.gradient_M):
        network.block_weights(m).sub_(gradient, alpha=lr)


METHODS: Mapping[str, Method] = {
    "zorba": Method(FACTS["zorba"], _report_scalars(_along_shared), _move_shared),
    "decomfl": Method(FACTS["decomfl"], _report_scalars(_along_shared), _move_shared),
    "fedzo": Method(FACTS["fedzo"], _report_scalars(estimate_own), _move_own),
    "fedit": Method(FACTS["fedit"], _report_gradient, _move_gradient),
}
