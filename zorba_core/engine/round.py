"""A round of training: the clients' input, their reports, and the record for the log.

Shapes: M blocks, N clients, B rows of a batch, P shared seeds, Q directions of a round, D_m parameters of block m.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zorba_core.engine.randomness import stream
from zorba_core.engine.reports import NOT_ASKED, REPORTED, SILENT
from zorba_core.engine.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

    from zorba_core.engine.blocks import Blocks
    from zorba_core.engine.directions import Directions
    from zorba_core.engine.rows import Examples, Rows

# The server's state of a method between rounds: a few float64 arrays by name. Empty for most methods.
MethodState = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Round:
    """One round: all data of its update, its costs, and the evaluation after it if one was due.

    The base model and the rounds of a run give the weights after each round. Round 0 is the base model before the first
    round, and has an evaluation alone.
    """

    round: int  # 1 is the first
    lr: float = 0.0
    # Server to clients, uint32.
    seeds_Q: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))
    # Clients to server, float64; zeros for clients without a usable report, as in loss_N.
    rho_NQ: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    # Each client's index in zorba_core.engine.reports.STATUSES, uint8.
    status_N: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    loss_N: np.ndarray = field(default_factory=lambda: np.zeros(0))  # F_n at the round's start
    rho_bar_MQ: np.ndarray | None = None  # applied, and sent to clients; None if the method exchanges no scalars
    method_state: MethodState = field(default_factory=dict)  # after the round
    forward_passes: int = 0  # number of passes of one client's batch
    backward_passes: int = 0
    scalars_up: int = 0  # numbers that the clients sent: scalars, estimates or weights
    scalars_down: int = 0
    seconds: float = 0.0  # without the evaluation
    eval_loss: float | None = None  # nats
    eval_accuracy: float | None = None
    prior_C: np.ndarray | None = None  # calibration batch: the preference taken out in the evaluation
    weights_sha256: str | None = None  # of the evaluated weights, to check a replay
    after: int | None = None  # the round whose weights it started from, if that is not the one before
    diverged: bool = False  # the weights after it are of no use
    events: tuple[dict[str, Any], ...] = ()  # clients of a federation that joined, left or were refused

    @property
    def start(self) -> int:
        """The round whose weights this round started from."""
        return self.round - 1 if self.after is None else self.after

    @property
    def reported_N(self) -> np.ndarray:
        """The clients whose scalars are in the update."""
        return self.status_N == REPORTED

    @property
    def refused_N(self) -> np.ndarray:
        """The clients whose reports were not usable."""
        return (self.status_N > NOT_ASKED) & (self.status_N != SILENT)

    @property
    def train_loss(self) -> float | None:
        """Mean of F_n over the clients that reported."""
        return float(self.loss_N[self.reported_N].mean()) if self.reported_N.any() else None


@dataclass(frozen=True, eq=False)
class FederatedRows:
    """The clients' training rows and the evaluation rows."""

    train: Examples  # all clients' rows
    held_N: Sequence[np.ndarray]  # indices of each client's rows
    evaluation: Rows


@dataclass(frozen=True, eq=False)
class RoundPlan:
    """The server's plan of a round, from which the clients compute their reports."""

    round: int
    seeds_Q: np.ndarray  # uint32; empty for a method that uses the gradient
    asked_N: np.ndarray  # bool
    network: Blocks  # with the weights before the round
    A_MN: np.ndarray
    settings: Settings
    directions: Directions


@dataclass(frozen=True, eq=False)
class Reports:
    """The clients' reports, with zeros for clients without one."""

    rho_NQ: np.ndarray  # float64
    loss_N: np.ndarray  # float64, F_n at the round's start
    status_N: np.ndarray  # uint8: REPORTED (not checked so far), NOT_ASKED, SILENT or MALFORMED
    forward_passes: int = 0  # number of passes of one client's batch
    backward_passes: int = 0
    gradient_M: tuple[Tensor, ...] | None = None  # FedIT: the mean over clients whose loss is finite, (D_m,) each

    @classmethod
    def of_clients(
        cls, plan: RoundPlan, clients: Sequence[int], rho_KQ: np.ndarray, loss_K: np.ndarray, **counts: Any
    ) -> Self:
        """The reports of K clients, in the order of ``clients``; the others were not asked."""
        num_clients = plan.A_MN.shape[1]
        rho_NQ, loss_N = np.zeros((num_clients, rho_KQ.shape[1])), np.zeros(num_clients)
        status_N = np.full(num_clients, NOT_ASKED, np.uint8)
        rho_NQ[clients], loss_N[clients], status_N[clients] = rho_KQ, loss_K, REPORTED
        return cls(rho_NQ, loss_N, status_N, **counts)


@dataclass(frozen=True, eq=False)
class Step:
    """The server's step: block m moves by ``-lr sum_q rho_bar[m, q] v_q,m``, or by ``-lr gradient_M[m]``."""

    rho_bar_MQ: np.ndarray | None = None
    seeds_Q: Sequence[int] | np.ndarray = ()
    gradient_M: tuple[Tensor, ...] | None = None


def client_batch(rows: FederatedRows, settings: Settings, round_index: int, client: int, device: Any = "cpu") -> Rows:
    """Client n's mini-batch of round t, without positions that are padding in all rows."""
    chosen = client_rows(rows.held_N[client], settings.seed, round_index, client, settings.batch_size)
    return rows.train.rows(chosen).to(device)


def client_rows(held: np.ndarray, run_seed: int, round_index: int, client: int, batch_size: int) -> np.ndarray:
    """Row indices of client n's mini-batch in round t, shape (B,), drawn from ``held``, without repeats if it has at
    least B rows. The draw depends on (run seed, t, n) alone, so any round can be computed again."""
    generator = stream("batch", run_seed, round_index, client)
    return generator.choice(held, size=batch_size, replace=len(held) < batch_size)
