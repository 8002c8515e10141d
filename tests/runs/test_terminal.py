from __future__ import annotations

import contextlib
import io
import logging

import numpy as np
import pytest

from zorba_core.engine.round import Round
from zorba_core.errors import RunError
from zorba_core.logs import shown
from zorba_core.runs.terminal import Interrupt, Progress


def record(t: int, accuracy: float | None = None) -> Round:
    return Round(t, eval_loss=None if accuracy is None else 0.6, eval_accuracy=accuracy)


def watch(progress: Progress, tmp_path) -> None:
    with progress:
        progress.on_start(tmp_path)
        for t, accuracy in [(0, 0.5), (1, None), (2, 0.75), (3, None), (4, 0.8)]:
            progress.on_round(record(t, accuracy))


def test_each_evaluation_is_a_line_with_the_time_left(tmp_path, logged):
    watch(Progress(4), tmp_path)
    lines = logged()
    assert lines[0] == f"run {tmp_path}"
    assert [line.split(":")[0] for line in lines[1:]] == ["round 0/4", "round 2/4", "round 4/4"]
    assert lines[2].startswith("round 2/4: accuracy 0.750, loss 0.600, 00:0")
    assert lines[2].endswith("left")


def test_on_a_terminal_there_is_a_bar_unless_it_is_to_be_quiet(tmp_path, monkeypatch):
    for quiet in (False, True):
        stream = io.StringIO()
        stream.isatty = lambda: True
        monkeypatch.setattr("sys.stderr", stream)
        watch(Progress(4, quiet=quiet), tmp_path)
        assert ("4/4" in stream.getvalue()) == (not quiet)


def test_a_program_that_handles_no_log_shows_it_and_quiet_silences_it(monkeypatch):
    """Python's root logger has a handler in a test."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    for quiet in (False, True):
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        with shown(quiet):
            logging.getLogger("zorba_core.runs.train").info("the rate is 3")
        assert stream.getvalue() == ("" if quiet else "the rate is 3\n")
        assert logging.getLogger("zorba_core").handlers == []


def test_ctrl_c_before_there_is_a_run_stops_at_once():
    with pytest.raises(KeyboardInterrupt):
        Interrupt()._handle(2, None)


def test_ctrl_c_that_is_lost_while_a_run_loads_stops_it_after_a_round(tmp_path):
    """Raised within a weak reference's callback, an exception is printed and forgotten."""
    interrupt = Interrupt()
    with contextlib.suppress(KeyboardInterrupt):
        interrupt._handle(2, None)
    interrupt.on_start(tmp_path)
    with pytest.raises(RunError, match="interrupted after round 1; resume with: zorba resume"):
        interrupt.on_round(Round(1))


def test_the_first_ctrl_c_asks_for_a_stop_and_the_second_stops(tmp_path):
    interrupt = Interrupt()
    interrupt.on_start(tmp_path)
    interrupt.on_round(Round(1))
    interrupt._handle(2, None)
    with pytest.raises(RunError, match="interrupted after round 2"):
        interrupt.on_round(Round(2))
    with pytest.raises(KeyboardInterrupt):
        interrupt._handle(2, None)


def test_a_refused_client_is_said_once(logged):
    progress = Progress(5)
    for t in (1, 2, 3):
        status_N = np.array([0, 2, 0 if t < 3 else 4], np.uint8)
        progress.on_round(Round(t, status_N=status_N))
    assert logged() == [
        "round 1: 1 of 3 clients without a usable report (1 non-finite; first client 1)",
        "round 3: 2 of 3 clients without a usable report (1 non-finite, 1 outlier; first client 1)",
    ]
