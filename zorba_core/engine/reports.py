"""The clients that take part in a round, and the check of their reports.

The server refuses a client's whole report (its loss and its Q scalars) if

- one number is not finite (``non-finite``);
- the loss changes by more than ``MOST_NATS`` over one step of mu (``absurd``). A cross-entropy over label words is a
  few nats, so a hundred nats mean an error or an attack;
- the root mean square of its scalars is more than ``OUTLIER_RATIO`` times the median over clients (``outlier``). The
  ratio is large because scalars of clients with one block and with all blocks differ by several times. The rule needs
  three clients with finite scalars that are not absurd, and a median above zero.

A refused client does not count in this round: c_m is the number of the other clients of a block, and a block without
reports does not change. Over a network there are two more reasons: no answer came before the deadline (``silent``), or
the answer was not a report of this round (``malformed``).

Shapes: N clients, Q directions of a round.
"""

from __future__ import annotations

import numpy as np

from zorba_core.engine.randomness import stream

STATUSES = ("reported", "not asked", "non-finite", "absurd", "outlier", "silent", "malformed")
REPORTED, NOT_ASKED, NON_FINITE, ABSURD, OUTLIER, SILENT, MALFORMED = range(len(STATUSES))
MOST_NATS = 100.0
OUTLIER_RATIO = 100.0
_FEWEST_FOR_MEDIAN = 3


def asked_clients(num_clients: int, participation: float, run_seed: int, round_index: int) -> np.ndarray:
    """The clients that take part in a round, bool (N,): round(participation * N) of them, at least one. The draw
    depends on (run seed, round) alone."""
    asked_N = np.zeros(num_clients, dtype=bool)
    count = max(1, round(participation * num_clients))
    chosen = stream("participation", run_seed, round_index).choice(num_clients, size=count, replace=False)
    asked_N[chosen] = True
    return asked_N


def check_reports(rho_NQ: np.ndarray, loss_N: np.ndarray, asked_N: np.ndarray, *, mu: float) -> np.ndarray:
    """Each client's index in ``STATUSES``, uint8 (N,). Reports of clients that were not asked are ignored. Without
    scalars (FedIT) only losses are checked."""
    status_N = np.where(asked_N, REPORTED, NOT_ASKED).astype(np.uint8)
    finite_N = np.isfinite(rho_NQ).all(axis=1) & np.isfinite(loss_N)
    status_N[asked_N & ~finite_N] = NON_FINITE
    with np.errstate(invalid="ignore", over="ignore"):
        largest_N = np.abs(rho_NQ).max(axis=1, initial=0.0) * mu
        status_N[(status_N == REPORTED) & (largest_N > MOST_NATS)] = ABSURD
        size_N = np.sqrt(np.square(rho_NQ).sum(axis=1) / max(rho_NQ.shape[1], 1))
    usual_N = status_N == REPORTED
    if usual_N.sum() >= _FEWEST_FOR_MEDIAN:
        median = float(np.median(size_N[usual_N]))
        if median > 0:
            status_N[usual_N & (size_N > OUTLIER_RATIO * median)] = OUTLIER
    return status_N


def describe_refusals(status_N: np.ndarray) -> str:
    """For example ``"3 of 4 clients without a usable report (2 non-finite, 1 silent; first client 0)"``."""
    refused = np.flatnonzero(status_N > NOT_ASKED)
    codes, counts = np.unique(status_N[refused], return_counts=True)
    kinds = ", ".join(f"{count} {STATUSES[code]}" for code, count in zip(codes, counts, strict=True))
    who = f"{refused.size} of {(status_N != NOT_ASKED).sum()} clients"
    return f"{who} without a usable report ({kinds}; first client {refused[0]})"
