"""What a round is made of: the same objects in one process and over a network, for every method.

Shapes: M blocks, N clients, P shared seeds, Q directions of a round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.batches import client_rows
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.records import MethodState
from zorba_core.engine.reports import REPORTED
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings


@dataclass(frozen=True, eq=False)
class FederatedRows:
    """The clients' training rows and the evaluation rows."""

    train: Rows  # all clients' rows
    held_N: Sequence[np.ndarray] | Mapping[int, np.ndarray]  # row indices that each client holds
    evaluation: Rows


@dataclass(frozen=True, eq=False)
class TrainState:
    """The state of a run, except its weights, which the network holds."""

    rounds_done: int
    seeds_P: np.ndarray  # uint32, shared with all clients before the first round
    directions: Directions
    method_state: MethodState = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RoundPlan:
    """What the server decides before a round: the same for every transport."""

    round: int  # 1 is the first
    seeds_Q: np.ndarray  # uint32; none where the method takes the gradient
    asked_N: np.ndarray  # bool


@dataclass(frozen=True, eq=False)
class RoundContext:
    """Everything that a method may look at in a round, wherever it runs."""

    plan: RoundPlan
    network: Blocks
    A_MN: np.ndarray
    rows: FederatedRows | None  # None where no client computes: a round that is replayed
    settings: Settings
    directions: Directions

    def batch(self, client: int) -> Rows:
        """Client n's mini-batch of this round."""
        return client_batch(self.rows, self.settings, self.plan.round, client, self.network.device)


@dataclass(frozen=True, eq=False)
class Reports:
    """The clients' reports. A client that was not asked, or did not answer, has zeros."""

    rho_NQ: np.ndarray  # float64
    loss_N: np.ndarray  # float64, F_n at the round's start
    forward_passes: int  # of one client's batch
    backward_passes: int = 0  # likewise
    gradient_M: tuple[Tensor, ...] | None = None  # FedIT: the mean over clients whose loss is finite, (D_m,) each


@dataclass(frozen=True, eq=False)
class RoundResult:
    """What crossed the wire in one round, and what it cost."""

    round: int
    seeds_Q: np.ndarray  # uint32, server to clients
    rho_NQ: np.ndarray  # float64, clients to server; zeros for a client that was not asked
    status_N: np.ndarray  # uint8: who reported, and who was refused why (zorba_core.engine.reports)
    rho_bar_MQ: np.ndarray | None  # float64, server to clients; None where other things are exchanged
    loss_N: np.ndarray  # F_n at the round's start
    forward_passes: int
    backward_passes: int = 0
    method_state: MethodState = field(default_factory=dict)  # after the round
    # rho_bar_MQ and the state do not follow from rho_NQ and the allocation alone, so the log must hold them.
    log_update: bool = False
    A_MN: np.ndarray | None = None  # bool; who activated what, where it is not the run's own allocation

    @property
    def reported_N(self) -> np.ndarray:
        """Whose scalars entered the update."""
        return self.status_N == REPORTED


def client_batch(
    rows: FederatedRows,
    settings: Settings,
    round_index: int,
    client: int,
    device: torch.device | str = "cpu",
) -> Rows:
    """Client n's mini-batch of round t, without positions that are padding in all of it."""
    chosen = client_rows(rows.held_N[client], settings.seed, round_index, client, settings.batch_size)
    return rows.train.rows(chosen).to(device)
