"""What the benchmark is asked for. No torch in here: the command makes its options of these fields."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from zorba_core.allocation.feasibility import MAX_CELLS
from zorba_core.engine.settings import PRECISIONS, TrainSettings
from zorba_core.errors import InvalidInputError
from zorba_core.fields import check, declared, setting


@dataclass(frozen=True)
class BenchSettings:
    """What is timed.

    Raises:
        InvalidInputError: a count below 1.
    """

    model: str = setting("opt-mini", "opt-mini, a Hugging Face folder, or a hub id.")
    num_clients: int = setting(50, "number of clients.", symbol="N", at_least=1, at_most=100_000, option="clients")
    batch_size: int = setting(8, "rows a client.", symbol="B", at_least=1)
    seq_len: int = setting(32, "tokens a row.", symbol="L", at_least=1)
    num_perturbations: int = setting(10, "directions a round.", symbol="Q", at_least=1, option="perturbations")
    total_blocks: int = setting(
        200, "activated blocks of the routed allocations.", symbol="T", at_least=1, at_most=MAX_CELLS, option="total"
    )
    mu: float = setting(1e-3, "Length of a finite difference, in units of the direction.")
    direction: str = setting("rademacher", "{choices}.", choices=declared(TrainSettings)["direction"].choices)
    repeats: int = setting(5, "Turns that are timed; medians are compared.", at_least=1, at_most=10_000)
    seed: int = setting(0, "Of rows and budgets.")
    threads: int = setting(1, "CPU threads.", at_least=1)
    device: str = setting("cpu", "cpu or cuda.")
    precision: str = setting("", "Of products, of profile gpu, with commas between; default: all that the device has.")

    def __post_init__(self) -> None:
        check(self)
        unknown = [name for name in self.precisions if name not in self._all_precisions]
        if unknown:
            known = ", ".join(self._all_precisions)
            raise InvalidInputError(f"precision {unknown[0]!r} is not one of {known}, which device {self.device} has")
        self.run_settings  # noqa: B018 - refuses a step, a seed or a device that cannot be

    @property
    def run_settings(self) -> TrainSettings:
        """The settings of a run of the same kind."""
        return TrainSettings(
            num_perturbations=self.num_perturbations,
            batch_size=self.batch_size,
            seq_len=self.seq_len,
            mu=self.mu,
            direction=self.direction,
            seed=self.seed,
            threads=self.threads,
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
