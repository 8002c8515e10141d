"""What a client checks of a server's messages before it applies them.

A run's config says in advance which seeds, learning rate and rounds it will have; a server that sends others is not
running that run, whatever its reasons. What a config cannot say is how large the averages are. They are bounded twice:
by what losses can give at all, and by how far one round may move a block, relative to the length of its weights, which
is the client's operator to decide (``max_step``).

Averages are checked before the first of a message is applied, but for the length of a step, which depends on the
weights that the earlier ones leave: where one is refused, those before it stay, which the run and the operator allow.
The refusal says what was wrong, to the server and in the client's log.

Shapes: M blocks, Q directions of a round, D parameters of a block.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from zorba_core.engine.aggregation import shared_step
from zorba_core.engine.directions import Directions
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.randomness import round_seeds, shared_seeds
from zorba_core.engine.reports import MOST_NATS
from zorba_core.engine.schedule import lr_of_round
from zorba_core.engine.settings import TrainSettings
from zorba_core.federation.messages import Aggregate, MessageError, RoundTask

MAX_STEP = 1.0  # of a block in one round, times the length of its weights
# Methods may scale averages; none is known that does so by more than its number of blocks and directions allows.
_SLACK = 10.0
_SAME = 1e-12  # of two learning rates
_FEW = 64  # numbers of a block for each direction: with fewer, directions are long where they agree by chance


class Agreed:
    """What a run's settings allow its server to send."""

    def __init__(self, settings: TrainSettings, num_blocks: int, max_step: float = MAX_STEP) -> None:
        self._settings, self.max_step = settings, max_step
        self.most_blocks = num_blocks  # that this client is asked to activate

    @property
    def _seeds_P(self) -> np.ndarray:
        return shared_seeds(self._settings.seed, self._settings.num_seeds)

    def check_task(self, task: RoundTask) -> None:
        """
        Raises:
            MessageError: seeds, a round or blocks that the run does not have, or this client does not offer.
        """
        self._check_round(task.round, task.seeds_Q)
        if len(task.blocks) > self.most_blocks:
            raise MessageError(
                f"round {task.round}: {len(task.blocks)} blocks are asked for and this client offers {self.most_blocks}"
            )

    def check_average(self, average: Aggregate) -> None:
        """
        Raises:
            MessageError: seeds, a round or a learning rate that the run does not have, or averages that no losses give.
        """
        settings, t = self._settings, average.round
        self._check_round(t, average.seeds_Q)
        lr = lr_of_round(settings, t)
        if not abs(average.lr - lr) <= _SAME * lr:
            raise MessageError(f"round {t}: the learning rate is {average.lr!r} and the run's config says {lr!r}")
        rho_bar_MQ = average.rho_bar_MQ
        if not np.isfinite(rho_bar_MQ).all():
            raise MessageError(f"round {t}: an average is no finite number")
        most = _SLACK * (MOST_NATS / settings.mu + np.sqrt(rho_bar_MQ.size))
        largest = float(np.abs(rho_bar_MQ).max(initial=0.0))
        if largest > most:
            raise MessageError(f"round {t}: an average is {largest:.3g}, and no losses give more than {most:.3g}")

    def check_step(self, average: Aggregate, network: BlockNetwork, directions: Directions) -> None:
        """Of one round, before it is applied to the weights before it.

        Raises:
            MessageError: it would move a block further than this client's operator allows.
        """
        for m in map(int, np.flatnonzero(average.rho_bar_MQ.any(axis=1))):
            weights = network.block_weights(m)
            length = float(torch.linalg.vector_norm(weights, dtype=torch.float64))
            step = average.lr * _length(average.rho_bar_MQ[m], average.seeds_Q, weights, m, directions)
            if not step <= self.max_step * length:
                raise MessageError(
                    f"round {average.round}: block {m} would move by {step / length if length else math.inf:.3g} times "
                    f"the length of its weights, and this client's max-step is {self.max_step:g}"
                )

    def _check_round(self, round_index: int, seeds_Q: np.ndarray) -> None:
        settings = self._settings
        if round_index > settings.rounds:
            raise MessageError(f"round {round_index} is after the run's last, {settings.rounds}")
        expected_Q = round_seeds(settings.seed, round_index, self._seeds_P, settings.num_perturbations)
        if not np.array_equal(expected_Q, seeds_Q):
            raise MessageError(f"round {round_index}: its seeds are not those that the run's config draws")


@torch.no_grad()
def _length(
    rho_bar_Q: np.ndarray, seeds_Q: np.ndarray, weights: torch.Tensor, block: int, directions: Directions
) -> float:
    """Of the sum of a block's directions, each times its average.

    Low-rank directions, and many for a small block, are summed. Of others the length is the expected one, which costs
    nothing: their numbers are independent, with one variance.
    """
    largest = float(np.abs(rho_bar_Q).max())  # squares of very small numbers would be none
    rho_bar_Q = rho_bar_Q / largest
    if directions.kind.low_rank or _FEW * len(seeds_Q) > weights.numel():
        step = shared_step(weights, block, rho_bar_Q, seeds_Q, directions)
        return largest * float(torch.linalg.vector_norm(step, dtype=torch.float64))
    size, norm = sum(directions.sizes_M), directions.kind.norm
    variance = 1.0 if norm is None else norm(size) ** 2 / size
    scale = math.sqrt(variance * weights.numel())
    return largest * scale * float(np.linalg.norm(rho_bar_Q))
