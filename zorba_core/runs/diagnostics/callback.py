"""Measure the clients' gradients every so many rounds, into ``diagnostics.parquet`` of the run's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zorba_core.engine.callbacks import Callback, RoundRecord
from zorba_core.engine.loop import Rounds
from zorba_core.engine.rounds import FederatedRows, client_batch
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError, RunError, in_short
from zorba_core.runs.diagnostics.gradients import gradient_products
from zorba_core.runs.diagnostics.records import (
    DIAGNOSTICS,
    Measured,
    described,
    measured_rounds,
    read_measured,
    write_measured,
)


def check_diagnostics(every: int | None, settings: TrainSettings) -> None:
    """
    Raises:
        InvalidInputError: settings under which clients have no gradients of one model, or it is not all in memory.
    """
    if every is None:
        return
    if isinstance(every, bool) or not isinstance(every, int) or not 1 <= every <= 10**9:
        raise InvalidInputError(f"diagnostics is {in_short(every)}; it must be a number of rounds from 1 to 10**9")
    if settings.inactive != "frozen":
        raise InvalidInputError(
            f"diagnostics compare the clients' gradients of one model, and inactive is {settings.inactive}, which "
            "gives each client another; use frozen, or leave diagnostics out"
        )


class Diagnostics(Callback):
    """Measures before the first round and after every ``every`` rounds. A resumed run keeps what it had measured of the
    rounds that it had done, and measures what is missing of the last.

    Raises:
        InvalidInputError: the folder's file is damaged.
        RunError: while writing: the disk is full, or fails. The file before stays.
    """

    def __init__(
        self, folder: Path, rounds: Rounds, rows: FederatedRows, every: int, *, evaluated: bool = False
    ) -> None:
        """``evaluated``: the run is resumed, and the model at hand was evaluated before."""
        self._path, self._rounds, self._rows, self._every = folder / DIAGNOSTICS, rounds, rows, every
        A_MN = rounds.allocation.A_MN
        self._evaluated = evaluated
        self._measured = [row for row in read_measured(self._path, *A_MN.shape) if row.round <= rounds.rounds_done]

    @property
    def lost(self) -> list[int]:
        """The rounds after which a resumed run had measured, and whose measurements are not there any more."""
        there = {row.round for row in self._measured}
        done = self._rounds.rounds_done
        return [round_index for round_index in measured_rounds(self._every, done - 1) if round_index not in there]

    def describe(self) -> dict[str, Any]:
        """For the run's summary."""
        return {"diagnostics": described(self._measured)}

    def on_start(self, folder: Path) -> None:
        # A new run is measured after its first evaluation, which a run that died behind it does not make again.
        if self._rounds.rounds_done or self._evaluated:
            self._measure(self._rounds.rounds_done)

    def on_round(self, record: RoundRecord) -> None:
        self._measure(record.round)

    def _measure(self, round_index: int) -> None:
        if round_index % self._every or any(row.round == round_index for row in self._measured):
            return
        network, settings, A_MN = self._rounds.network, self._rounds.settings, self._rounds.allocation.A_MN
        batches_N = [
            client_batch(self._rows, settings, round_index + 1, n, network.device) for n in range(A_MN.shape[1])
        ]
        product_MNN, loss_N = gradient_products(network, batches_N)
        self._measured.append(Measured.of_products(round_index, loss_N, product_MNN, A_MN))
        try:
            write_measured(self._path, self._measured)
        except OSError as error:
            raise RunError(f"{self._path} cannot be written ({error.strerror}); make room and resume the run") from None
