"""Which clients are asked in a round, and whose scalars are taken.

A client's report of a round (its loss and its Q scalars) is refused as a whole when

- one of them is not a finite number (``non-finite``);
- the loss would change by more than ``MOST_NATS`` over one step of mu (``absurd``). A cross-entropy over a few label
  words is some nats; a hundred means broken arithmetic, or worse;
- its scalars are, by their root mean square, more than ``OUTLIER_RATIO`` times the median client's (``outlier``). The
  ratio is generous on purpose: clients with one block and with all of them differ several times over by right. The
  rule needs three clients with finite, not absurd scalars and a median above zero.

Refused clients count as silent for the round: the popularity of their blocks is that of the others, and a block nobody
reported on keeps its weights. Over a network there are two more reasons to go without a client: no answer came before
the deadline (``silent``), or what came was not a report of this round (``malformed``).

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
    """Who takes part in the round, bool (N,): round(participation * N) clients, at least one, drawn afresh each round
    by (run seed, round) alone."""
    asked_N = np.zeros(num_clients, dtype=bool)
    count = max(1, round(participation * num_clients))
    chosen = stream("participation", run_seed, round_index).choice(num_clients, size=count, replace=False)
    asked_N[chosen] = True
    return asked_N


def check_reports(rho_NQ: np.ndarray, loss_N: np.ndarray, asked_N: np.ndarray, *, mu: float) -> np.ndarray:
    """Each client's place in ``STATUSES``, uint8 (N,). The scalars of a client not asked are ignored; where there are
    none (FedIT), only losses are judged."""
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
    """``"3 of 4 refused (2 non-finite, 1 outlier; first client 0)"``; ``"none refused"`` when so."""
    refused = np.flatnonzero(status_N > NOT_ASKED)
    if refused.size == 0:
        return "none refused"
    counts = [f"{(status_N == code).sum()} {STATUSES[code]}" for code in range(NON_FINITE, len(STATUSES))]
    kinds = ", ".join(count for count in counts if not count.startswith("0 "))
    participants = int((status_N != NOT_ASKED).sum())
    return f"{refused.size} of {participants} refused ({kinds}; first client {refused[0]})"
