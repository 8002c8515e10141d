"""What a client checks of a server's messages before it applies them.

A run's config says in advance which seeds, learning rate and rounds it will have; a server that sends others is not
running that run, whatever its reasons. What a config cannot say is how large the averages are. They are bounded twice:
by what losses can give at all, and by how far one round may move a block, relative to the length of its weights, which
is the client's operator to decide (``max_step``).

A refused message changes nothing; the refusal says what was wrong, to the server and in the client's log.

Shapes: M blocks, Q directions of a round, D parameters of a block.
"""

from __future__ import annotations

import functools

import numpy as np
import torch

from zorba_core.engine.methods.interface import Method
from zorba_core.engine.methods.registry import method_of
from zorba_core.engine.methods.steps import lr_of_round
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.randomness import stream
from zorba_core.engine.reports import MOST_NATS
from zorba_core.engine.settings import TrainSettings
from zorba_core.federation.messages import Aggregate, MessageError, RoundTask
from zorba_core.runs.streaming.network import StreamedNetwork

MAX_STEP = 1.0  # of a block in one round, times the length of its weights
# Methods may scale averages; none is known that does so by more than its number of blocks and directions allows.
_SLACK = 10.0
_SAME = 1e-12  # of two learning rates


class Agreed:
    """What a run's settings allow its server to send."""

    def __init__(self, settings: TrainSettings, num_blocks: int, max_step: float = MAX_STEP) -> None:
        self._settings, self._num_blocks, self.max_step = settings, num_blocks, max_step
        self.most_blocks = num_blocks  # that this client is asked to activate

    @functools.cached_property
    def _seeds_P(self) -> np.ndarray:
        return stream("shared-seeds", self._settings.seed).choice(
            2**32, size=self._settings.num_seeds, replace=False
        ).astype(np.uint32)  # fmt: skip

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

    def check_average(self, average: Aggregate, network: BlockNetwork) -> None:
        """
        Raises:
            MessageError: seeds, a round or a learning rate that the run does not have, or a step that is too large.
        """
        settings, t = self._settings, average.round
        self._check_update_seeds(t, average.seeds_Q)
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
        if not isinstance(network, StreamedNetwork):  # its blocks are read from their files only to be visited
            self._check_step(average, network)

    def _check_step(self, average: Aggregate, network: BlockNetwork) -> None:
        """By the step's expected length: entries of a direction have variance 1 and directions are independent."""
        for m in np.flatnonzero(average.rho_bar_MQ.any(axis=1)):
            weights = network.block_weights(int(m))
            length = float(torch.linalg.vector_norm(weights, dtype=torch.float64))
            step = average.lr * float(np.linalg.norm(average.rho_bar_MQ[m])) * weights.numel() ** 0.5
            if length > 0 and step > self.max_step * length:
                raise MessageError(
                    f"round {average.round}: block {m} would move by {step / length:.3g} times the length of its "
                    f"weights, and this client's max-step is {self.max_step:g}"
                )

    def _check_update_seeds(self, round_index: int, seeds_U: np.ndarray) -> None:
        """A method whose clients draw seeds of their own may use any of the run's, others the round's."""
        if type(method_of(self._settings)).update_seeds is Method.update_seeds:
            self._check_round(round_index, seeds_U)
        elif round_index > self._settings.rounds or not np.isin(seeds_U, self._seeds_P).all():
            raise MessageError(f"round {round_index}: its seeds are not among those that the run's config draws")

    def _check_round(self, round_index: int, seeds_Q: np.ndarray) -> None:
        settings = self._settings
        if round_index > settings.rounds:
            raise MessageError(f"round {round_index} is after the run's last, {settings.rounds}")
        expected_Q = stream("round-seeds", settings.seed, round_index).choice(
            self._seeds_P, settings.num_perturbations, replace=False
        )
        if not np.array_equal(expected_Q, seeds_Q):
            raise MessageError(f"round {round_index}: its seeds are not those that the run's config draws")
