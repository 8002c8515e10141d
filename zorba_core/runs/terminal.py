"""A run that is watched: its progress, and Ctrl-C without losing a round."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from zorba_core.engine.reports import describe_refusals
from zorba_core.engine.round import Round
from zorba_core.errors import RunError
from zorba_core.runs.record import Callback

_log = logging.getLogger(__name__)


class Progress(Callback):
    """Log each evaluation with the remaining time, and show a bar in a terminal and in a notebook. Context manager: the
    exit closes the bar."""

    def __init__(self, num_rounds: int, metric: str = "accuracy", *, quiet: bool = False) -> None:
        """``metric``: the name for the accuracy of the evaluations. ``quiet``: show no bar."""
        self._num_rounds, self._metric = num_rounds, metric
        self._has_bar = not quiet and (sys.stderr.isatty() or "ipykernel" in sys.modules)
        self._started, self._first = 0.0, 0
        self._refused: set[int] = set()
        self._bar: tqdm | None = None

    def on_start(self, folder: Path) -> None:
        _log.info("run %s", folder)

    def on_round(self, done: Round) -> None:
        refused = set(np.flatnonzero(done.refused_N).tolist())
        if refused - self._refused:  # reported once for each client
            _log.warning("round %d: %s", done.round, describe_refusals(done.status_N))
        self._refused |= refused
        if not self._started:  # round 0, or the first of a resumed run
            self._started, self._first = time.monotonic(), done.round
            if self._has_bar:
                self._bar = tqdm(
                    total=self._num_rounds, initial=done.round, unit="round", file=sys.stderr, dynamic_ncols=True
                )
        if done.eval_accuracy is not None:
            _log.info("%s", self._line(done))
        if self._bar is not None:
            self._bar.update(done.round - self._bar.n)

    def _line(self, done: Round) -> str:
        elapsed, computed = time.monotonic() - self._started, done.round - self._first
        left = elapsed / computed * (self._num_rounds - done.round) if computed else None
        ending = "" if left is None else f", {tqdm.format_interval(left)} left"
        scores = f"{self._metric} {done.eval_accuracy:.3f}, loss {done.eval_loss:.3f}"
        return f"round {done.round}/{self._num_rounds}: {scores}{ending}"

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


@contextmanager
def on_interrupt(handler: Any) -> Iterator[None]:
    """Context manager: ``handler`` handles Ctrl-C. Only the main thread can set it; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def undisturbed() -> AbstractContextManager[None]:
    """Context manager: ignore Ctrl-C, to clean up."""
    return on_interrupt(signal.SIG_IGN)


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Context manager: handle a Ctrl-C after the block, not within it."""
    pressed = []
    with on_interrupt(lambda number, frame: pressed.append(number)):
        yield
    if pressed:
        signal.raise_signal(pressed[0])


class Interrupted(RunError):
    """Ctrl-C was pressed; the run so far is in its folder."""


class Interrupt(Callback):
    """Stop after the current round at the first Ctrl-C; at once at a second one, or at one during loading."""

    def __init__(self) -> None:
        self.folder: Path | None = None  # None while there is no run to resume
        self._asked = False

    def on_start(self, folder: Path) -> None:
        self.folder = folder

    def on_round(self, done: Round) -> None:
        """
        Raises:
            Interrupted: Ctrl-C was pressed; the round is in the log.
        """
        if self._asked:
            raise Interrupted(f"interrupted after round {done.round}; resume with: zorba resume {self.folder}")

    def listening(self) -> AbstractContextManager[None]:
        """Context manager: handle SIGINT."""
        return on_interrupt(self._handle)

    def _handle(self, number: int, frame: object) -> None:
        # Set before raising: in the callback of a weak reference the exception would be lost.
        asked, self._asked = self._asked, True
        if asked or self.folder is None:
            raise KeyboardInterrupt
        with suppress(RuntimeError):  # raised if the signal interrupts a write to the same stream
            print("\nstopping after this round; press Ctrl-C again to stop at once", file=sys.stderr, flush=True)
