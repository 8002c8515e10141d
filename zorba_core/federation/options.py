"""Options of a federation's server. The import loads no torch."""

from __future__ import annotations

from pydantic import Field

from zorba_core.checked import Checked


class ServerOptions(Checked, frozen=True):
    """Options of the server alone; clients do not get them.

    Raises:
        InvalidInputError: a value out of range.
    """

    deadline: float = Field(default=60.0, gt=0)
    """Seconds that a round waits for answers."""
    start_timeout: float = Field(default=120.0, gt=0)
    """Seconds to wait for clients at the start."""
    min_clients: int = Field(default=0, ge=0)
    """Clients needed after that wait; 0: all."""
