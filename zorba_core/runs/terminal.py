"""A run at a terminal: its progress, and a stop on Ctrl-C that keeps the work."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import numpy as np
from tqdm import tqdm

from zorba_core.engine.callbacks import Callback, RoundRecord
from zorba_core.engine.records import RoundEntry
from zorba_core.engine.reports import describe_refusals


class Progress(Callback):
    """A bar with the time left on a terminal; one line an evaluation where stderr is a file."""

    def __init__(self, num_rounds: int, stream: TextIO | None = None, metric: str = "accuracy") -> None:
        """``metric``: what the evaluations count as right."""
        self._num_rounds, self._stream, self._metric = num_rounds, stream or sys.stderr, metric
        self._started, self._first = 0.0, -1
        self._refused: set[int] = set()
        self._bar: tqdm | None = None

    def on_start(self, folder: Path) -> None:
        print(f"run {folder}", file=self._stream, flush=True)

    def on_step(self, entry: RoundEntry) -> None:
        refused = set(np.flatnonzero(entry.refused_N).tolist())
        if refused - self._refused:  # reported once for each client
            print(f"\nround {entry.round}: {describe_refusals(entry.status_N)}", file=self._stream, flush=True)
        self._refused |= refused

    def on_round(self, record: RoundRecord) -> None:
        if self._first < 0:  # round 0, or where a resumed run was left
            self._started, self._first = time.monotonic(), record.round
            if self._stream.isatty():
                self._bar = tqdm(
                    total=self._num_rounds,
                    initial=record.round,
                    unit="round",
                    file=self._stream,
                    dynamic_ncols=True,
                )
        if self._bar is not None:
            self._bar.update(record.round - self._bar.n)
            if record.eval_accuracy is not None:
                self._bar.set_postfix({self._metric: f"{record.eval_accuracy:.3f}", "loss": f"{record.eval_loss:.3f}"})
            if record.round == self._num_rounds:
                self._bar.close()
        elif record.eval_accuracy is not None:
            elapsed, done = time.monotonic() - self._started, record.round - self._first
            left = elapsed / done * (self._num_rounds - record.round) if done else None
            ending = "" if left is None else f", {tqdm.format_interval(left)} left"
            print(
                f"round {record.round}/{self._num_rounds}: {self._metric} {record.eval_accuracy:.3f}, "
                f"loss {record.eval_loss:.3f}{ending}",
                file=self._stream,
                flush=True,
            )

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class Interrupt(Callback):
    """Turns the first Ctrl-C into "stop after this round"; a second one, or one during loading, stops at once."""

    def __init__(self) -> None:
        self.folder: Path | None = None  # of the run, once there is something to keep
        self._asked = False

    def on_start(self, folder: Path) -> None:
        self.folder = folder

    def wants_stop(self) -> bool:
        return self._asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen for SIGINT within the context (only the main thread can; elsewhere nothing changes)."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _handle(self, number: int, frame: object) -> None:
        asked, self._asked = self._asked, True  # also where the exception is lost, in a weak reference's callback
        if asked or self.folder is None:
            raise KeyboardInterrupt
        with suppress(RuntimeError):  # the signal came while the stream was being written to
            print("\nstopping after this round; press Ctrl-C again to stop at once", file=sys.stderr, flush=True)
