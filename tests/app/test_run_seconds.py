"""What else a machine does, for the estimate of a run's seconds."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from app.shared import run_seconds

_SPIN = "print('begun', flush=True)\nwhile True: pass"
_WAIT = "print('begun', flush=True)\nimport time\ntime.sleep(600)"


@pytest.fixture
def beside():
    """Starts another process and lets it be for a second."""
    started = []

    def start(code: str) -> None:
        started.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE))
        started[-1].stdout.readline()
        time.sleep(1.0)

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def _seen_at_work(at_least: float) -> bool:
    """A busy process is not on a core at every moment: asked a few times."""
    return any(run_seconds._at_work() >= at_least or time.sleep(0.1) for _ in range(20))


@pytest.mark.parametrize(("code", "more"), [(_SPIN, True), (_WAIT, False)])
def test_a_process_counts_while_it_computes(beside, monkeypatch, code, more):
    monkeypatch.setattr(run_seconds, "_YOUNG_S", 0.1)
    monkeypatch.setattr(run_seconds, "_BUSY", 0.1)  # two share a core where others run beside this test
    monkeypatch.setattr(run_seconds.psutil, "process_iter", _children_alone(run_seconds.psutil.process_iter))
    beside(code)
    assert _seen_at_work(0.1) is more


def _children_alone(process_iter):
    """What else this machine does belongs to no test."""
    own = run_seconds.psutil.Process()
    return lambda attrs: (
        process for process in process_iter(attrs) if process.pid in {child.pid for child in own.children()}
    )


def test_a_process_that_begins_does_not_count(beside, monkeypatch):
    monkeypatch.setattr(run_seconds, "_YOUNG_S", 600.0)
    monkeypatch.setattr(run_seconds.psutil, "process_iter", _children_alone(run_seconds.psutil.process_iter))
    beside(_SPIN)
    assert run_seconds._at_work() == 0.0


@pytest.mark.parametrize(("average", "at_work", "load"), [(0.4, 2.0, 0.0), (3.5, 2.0, 2.0), (2.5, 2.0, 1.5)])
def test_what_has_ended_is_not_counted_although_the_last_minute_still_is(monkeypatch, average, at_work, load):
    monkeypatch.setattr(run_seconds.os, "getloadavg", lambda: (average, 0.0, 0.0))
    monkeypatch.setattr(run_seconds, "_at_work", lambda: at_work)
    assert run_seconds._load() == load
