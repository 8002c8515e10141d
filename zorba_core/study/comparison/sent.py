"""Bytes that a run has sent, round by round, as the messages of ``zorba_core.engine.communication`` have them.

Shapes: P moments of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import Allocation
from zorba_core.engine.communication import run_communication
from zorba_core.engine.methods.registry import METHODS
from zorba_core.errors import ZorbaError

_BYTES_A_NUMBER = 4  # of the weights or estimates that FedIT and FedZO send


def bytes_sent(
    config: Mapping[str, Any],
    allocation: Allocation,
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
                num_directions=int(config["directions"]),
                num_seeds=int(config["num_seeds"]),
            ).total("wire_bytes")
            for count in (done, 0)
        )
    except (ZorbaError, KeyError, TypeError, ValueError):
        return np.full(len(rounds_P), np.nan)
    return _shared_out(rounds_P, done, setup, total)


def bytes_of_total(
    method: str, num_blocks: int, num_clients: int, rounds_P: NDArray[np.float64], total: float | None
) -> NDArray[np.float64]:
    """As :func:`bytes_sent`, where only the sum over the whole run is known; NaN where it is not."""
    if total is None or not len(rounds_P) or method not in METHODS:
        return np.full(len(rounds_P), np.nan)
    setup = 0
    if METHODS[method].exchanges == "scalars":  # before the first round; who activates what does not change its size
        all_blocks_MN = np.ones((num_blocks, num_clients), bool)
        setup = run_communication(method, all_blocks_MN, rounds=0, reports=0, num_directions=1).total("wire_bytes")
    return _shared_out(rounds_P, int(rounds_P[-1]), setup, total)


def _shared_out(rounds_P: NDArray[np.float64], done: int, setup: float, total: float) -> NDArray[np.float64]:
    return setup + (total - setup) * rounds_P / max(1, done)
