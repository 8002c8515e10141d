"""Options that several commands share: budgets given directly, or from a model and a fleet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zorba_core.allocation import Problem
from zorba_core.checked import Checked
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import Fleet
from zorba_core.vram import ModelSpec, Workload, model_spec

DEFAULT_MODEL = "opt-125m"


class FleetOptions(Checked):
    """Whose blocks a command divides."""

    budgets: str | None = None
    """Whole blocks of each client, e.g. 11,9,3."""
    blocks: int | None = None
    """Number of blocks, M, with --budgets."""
    model: str | None = None
    """Model whose VRAM gives the budgets: a preset or a Hugging Face path."""
    clients: int | None = None
    """Draw a uniform fleet of this size, N, as in the paper (50)."""
    fleet: Path | None = None
    """CSV or Excel file with columns client,vram_gib, or CSV of nvidia-smi."""
    seed: int = Field(0, ge=0)
    """Random seed for the fleet and the solver."""

    def request(self, workload: Workload) -> Fleet | Problem:
        """A problem from ``--budgets --blocks``, or a fleet from a model with ``--clients`` or ``--fleet``.

        Raises:
            InvalidInputError: two ways given at once, none, or half of one.
            InfeasibleError: budgets that do not cover every block.
        """
        if self.budgets is not None:
            for name in ("model", "clients", "fleet"):
                if getattr(self, name) is not None:
                    raise InvalidInputError(f"give --budgets or --{name}, not both")
            if self.blocks is None:
                raise InvalidInputError("--budgets needs --blocks, the number of blocks M")
            return Problem(parse_budgets(self.budgets), self.blocks)
        if self.blocks is not None:
            raise InvalidInputError("--blocks belongs to --budgets; a model brings its own number of blocks")
        if self.model is None and self.clients is None and self.fleet is None:
            raise InvalidInputError("give --budgets with --blocks, or --model with --clients, or --fleet with a CSV")
        return read_fleet(model_spec(self.model or DEFAULT_MODEL), workload, self.clients, self.fleet, self.seed)


def read_fleet(spec: ModelSpec, workload: Workload, clients: int | None, fleet: Path | None, seed: int) -> Fleet:
    """The fleet of a table, or the paper's uniform fleet of ``clients`` (default 50).

    Raises:
        InvalidInputError: both given.
    """
    if fleet is not None and clients is not None:
        raise InvalidInputError("give --clients or --fleet, not both: a fleet file has its own clients")
    if fleet is not None:
        return Fleet.from_csv(fleet, spec, workload=workload)
    return Fleet.uniform(spec, 50 if clients is None else clients, seed=seed, workload=workload)


def parse_budgets(text: str) -> NDArray[np.int64]:
    """``"11,9,3"`` as whole numbers; spaces are fine.

    Raises:
        InvalidInputError: a part that is no whole number, naming the client.
    """
    numbers = []
    for client, part in enumerate(text.replace(",", " ").split()):
        try:
            numbers.append(int(part))
        except ValueError:
            raise InvalidInputError(
                f"client {client}: budget is {part!r}; it must be a whole number of blocks, such as 4"
            ) from None
        if abs(numbers[-1]) >= 2**62:
            raise InvalidInputError(f"client {client}: budget {part} is out of range")
    if not numbers:
        raise InvalidInputError("--budgets is empty; give whole numbers such as 11,9,3")
    return np.array(numbers, np.int64)
