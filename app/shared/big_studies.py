"""Scenarios that take long are solved beside the page: progress, an estimate, and Stop. No Streamlit here.

A page tries for a few seconds. What would take longer is started anew in a thread, and the page shows how far it is;
one at a time, so that pages stay quick.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from app.shared.scenario import Scenario
from app.shared.study import Study, study
from zorba_core.errors import ZorbaError

VARIABLE = "ZORBA_PATIENCE"
_PATIENCE_S = 2.5  # that a page waits for an answer
_YIELD_S = 0.001  # after each solution: a page that is drawn meanwhile gets its turn
_WORKERS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zorba-study")


class Stopped(Exception):
    """Somebody asked for the end of it."""


class TooLong(Exception):
    """A page would have to wait longer than it should."""


@dataclass
class BigStudy:
    """A scenario that is being solved, or what became of it."""

    scenario: Scenario
    of: int
    done: int = 0
    began: float | None = None  # None while another one is being solved
    stop: threading.Event = field(default_factory=threading.Event)
    error: ZorbaError | None = None
    ended: bool = False

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None before the first answer."""
        if self.began is None or not self.done:
            return None
        return (time.monotonic() - self.began) / self.done * max(0, self.of - self.done)


class Solving(ZorbaError):
    """The scenario is being solved beside the page."""

    def __init__(self, job: BigStudy) -> None:
        super().__init__(f"{job.scenario.solved_by.title} is being solved: {job.done} of {job.of} points")
        self.job = job


class BigStudies:
    """The scenarios that are at work; ``keep`` gets each study that is done."""

    def __init__(self, keep: Callable[[Study], None]) -> None:
        self._keep, self._lock = keep, threading.Lock()
        self._jobs: dict[Scenario, BigStudy] = {}

    def of(self, scenario: Scenario) -> BigStudy | None:
        """What is at work for the scenario, or has failed; that is told once."""
        with self._lock:
            job = self._jobs.get(scenario)
            if job is not None and job.ended:
                del self._jobs[scenario]
            return job

    def start(self, scenario: Scenario, of: int) -> BigStudy:
        with self._lock:
            job = self._jobs.get(scenario)
            if job is None:
                job = self._jobs[scenario] = BigStudy(scenario, of)
                _WORKERS.submit(self._work, job)
        return job

    def _work(self, job: BigStudy) -> None:
        job.began = time.monotonic()

        def on_solution(done: int, of: int) -> None:
            job.done, job.of = min(done, of), of
            if job.stop.is_set():
                raise Stopped
            time.sleep(_YIELD_S)

        try:
            if not job.stop.is_set():
                self._keep(study(job.scenario, on_solution))
        except Stopped:
            pass
        except ZorbaError as error:
            job.error = error
        finally:
            job.ended = True
            with self._lock:
                if job.error is None:
                    self._jobs.pop(job.scenario, None)


def patience() -> float:
    """Seconds that a page waits for an answer."""
    try:
        return max(0.0, float(os.environ.get(VARIABLE, _PATIENCE_S)))
    except ValueError:
        return _PATIENCE_S


def within_patience(scenario: Scenario, on_solution: Callable[[int, int], None]) -> Study:
    """The study, if it is done soon.

    Raises:
        TooLong: it will not be.
        ZorbaError: as :func:`app.shared.study.study`.
    """
    began, most = time.monotonic(), patience()

    def watch(done: int, of: int) -> None:
        passed = time.monotonic() - began
        # What is nearly done is waited for: starting anew would take longer.
        if passed > most and passed / done * (of - done) > passed:
            raise TooLong
        on_solution(done, of)

    return study(scenario, watch)
