"""How a federation's server runs its rounds: options of the command, which load no torch."""

from __future__ import annotations

from pydantic import Field

from zorba_core.checked import Checked
from zorba_core.federation.robust import Rule


class ServerOptions(Checked):
    """How the server runs its rounds; clients need not know.

    Raises:
        InvalidInputError: a value out of range.
    """

    rule: Rule = "mean"
    """How scalars are averaged: {choices}."""
    trim: float = Field(0.2, ge=0, lt=0.5)
    """With --rule trimmed: share cut off at each end."""
    deadline: float = Field(60.0, gt=0)
    """Seconds that a round waits for answers."""
    start_timeout: float = Field(120.0, gt=0)
    """Seconds to wait for clients at the start."""
    min_clients: int = Field(0, ge=0)
    """Clients to begin with after that; 0: all."""
