"""A whole run of the engine in one call."""

from __future__ import annotations

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import Training, run_rounds
from zorba_core.engine.round import FederatedRows, Round
from zorba_core.engine.settings import Settings


def run_all(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> list[Round]:
    """Every round, the base model's evaluation first."""
    return list(run_rounds(Training.local(network, allocation, rows, settings)))
