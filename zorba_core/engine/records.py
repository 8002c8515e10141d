"""The loop's records of a round and of an evaluation: all that an update needs, and what metrics are made of.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from zorba_core.engine.reports import NOT_ASKED, REPORTED, SILENT

# What a method's server carries from round to round: a few float64 arrays by name. Empty for most methods.
MethodState = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class RoundEntry:
    """One round: all that an update needs, and what the round's metrics are made of. Totals are since the start."""

    round: int  # 1 is the first
    seeds_Q: np.ndarray  # uint32
    rho_NQ: np.ndarray  # float64; a client that was not asked has zeros
    status_N: np.ndarray  # uint8, places in zorba_core.engine.reports.STATUSES
    loss_N: np.ndarray  # float64, F_n at the round's start
    allocation: str  # the first digits of the allocation's sha256
    lr: float
    mu: float
    seconds: float
    forward_passes: int
    scalars_up: int
    scalars_down: int
    backward_passes: int = 0
    # float64; what was applied, and the method's state after the round, where they do not follow from rho_NQ alone
    rho_bar_MQ: np.ndarray | None = None
    A_MN: np.ndarray | None = None  # bool; who activated what, where it is not the run's own allocation
    method_state: MethodState = field(default_factory=dict)

    @property
    def reported_N(self) -> np.ndarray:
        """Whose scalars entered the update."""
        return self.status_N == REPORTED

    @property
    def refused_N(self) -> np.ndarray:
        """Who reported what could not be used."""
        return (self.status_N > NOT_ASKED) & (self.status_N != SILENT)

    @property
    def train_loss(self) -> float:
        """Mean of F_n over the clients that reported."""
        return float(self.loss_N[self.reported_N].mean())


@dataclass(frozen=True)
class EvaluationEntry:
    """The model after ``round`` rounds. Its weights' fingerprint lets a replay prove itself."""

    round: int
    loss: float
    accuracy: float
    weights_sha256: str
