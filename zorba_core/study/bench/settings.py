"""What the benchmark is asked for. No torch in here: the command makes its options of these fields."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Self

from pydantic import Field, model_validator

from zorba_core.allocation.problem import MAX_CELLS
from zorba_core.checked import Checked, OneOf
from zorba_core.engine.direction_kinds import DIRECTIONS
from zorba_core.engine.settings import PRECISIONS, Settings
from zorba_core.errors import InvalidInputError


class BenchSettings(Checked):
    """What is timed.

    Raises:
        InvalidInputError: a count below 1.
    """

    model: str = "opt-mini"
    """opt-mini, a Hugging Face folder, or a hub id."""
    clients: int = Field(50, ge=1, le=100_000)
    """Number of clients, N."""
    batch_size: int = Field(8, ge=1)
    """Rows of a client, B."""
    seq_len: int = Field(32, ge=1)
    """Tokens of a row, L."""
    directions: int = Field(10, ge=1)
    """Directions of a round, Q."""
    total: int = Field(200, ge=1, le=MAX_CELLS)
    """Activated blocks of the routed allocations, T."""
    mu: float = 1e-3
    """Length of a finite difference, in units of the direction."""
    direction: Annotated[str, OneOf(DIRECTIONS.meanings)] = "rademacher"
    """{choices}."""
    repeats: int = Field(5, ge=1, le=10_000)
    """Turns that are timed; medians are compared."""
    seed: int = 0
    """Random seed for rows and budgets."""
    threads: int = Field(1, ge=1)
    """CPU threads."""
    device: str = "cpu"
    """cpu or cuda."""
    precision: str = ""
    """Of products, of profile gpu, with commas between; default: all that the device has."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        unknown = [name for name in self.precisions if name not in self._all_precisions]
        if unknown:
            known = ", ".join(self._all_precisions)
            raise InvalidInputError(f"precision {unknown[0]!r} is not one of {known}, which device {self.device} has")
        self.run_settings  # noqa: B018 - refuses a step, a seed or a device that cannot be
        return self

    @property
    def run_settings(self) -> Settings:
        """The settings of a run of the same kind."""
        return Settings(
            directions=self.directions,
            batch_size=self.batch_size,
            seq_len=self.seq_len,
            mu=self.mu,
            direction=self.direction,
            seed=self.seed,
            device=self.device,
        )

    @property
    def precisions(self) -> tuple[str, ...]:
        """Those that are timed."""
        return tuple(part.strip() for part in self.precision.split(",")) if self.precision else self._all_precisions

    @property
    def _all_precisions(self) -> tuple[str, ...]:
        return PRECISIONS if self.device == "cuda" else tuple(name for name in PRECISIONS if name != "tf32")

    @property
    def clock(self) -> Callable[[], float]:
        return time.process_time if self._own_time else time.perf_counter

    @property
    def clock_name(self) -> str:
        return "process CPU seconds" if self._own_time else "wall seconds"

    @property
    def _own_time(self) -> bool:
        return self.device == "cpu" and self.threads == 1
