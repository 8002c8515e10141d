"""Bytes that a run has sent, round by round, as the messages of ``zorba_core.wire`` have them.

Shapes: P moments of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import AllocationMetrics
from zorba_core.communication import run_communication
from zorba_core.errors import ZorbaError
from zorba_core.methods import METHODS

_BYTES_A_NUMBER = 4  # of the weights or estimates that FedIT and FedZO send


def bytes_sent(
    config: Mapping[str, Any],
    allocation: AllocationMetrics,
    rounds_P: NDArray[np.float64],
    *,
    reports: int | None,
    numbers: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Both ways, all clients, up to each moment: the setup before the first round, then in every round the run's mean.

    Args:
        rounds_P: rounds done at each moment, rising.
        reports: that clients sent up to the last moment; None: all clients in every round.
        numbers: that had been sent up to each moment, for methods that send weights or estimates.

    NaN where the config does not tell what it takes.
    """
    method = str(config.get("method", "zorba"))
    if method in METHODS and METHODS[method].exchanges != "scalars":
        return _BYTES_A_NUMBER * numbers
    done = int(rounds_P[-1]) if len(rounds_P) else 0
    try:
        total, setup = (
            run_communication(
                method,
                allocation.A_MN,
                rounds=count,
                reports=(done * allocation.num_clients if reports is None else reports) if count else 0,
                num_directions=int(config["num_perturbations"]),
                num_seeds=int(config["num_seeds"]),
            ).total("wire_bytes")
            for count in (done, 0)
        )
    except (ZorbaError, KeyError, TypeError, ValueError):
        return np.full(len(rounds_P), np.nan)
    return setup + (total - setup) * rounds_P / max(1, done)
