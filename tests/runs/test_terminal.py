from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

from zorba_core.engine.round import Round
from zorba_core.errors import RunError
from zorba_core.runs.terminal import Interrupt, Progress


def record(t: int, accuracy: float | None = None) -> Round:
    return Round(t, eval_loss=None if accuracy is None else 0.6, eval_accuracy=accuracy)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(stream: io.StringIO, tmp_path) -> str:
    progress = Progress(4, stream)
    progress.on_start(tmp_path)
    for t, accuracy in [(0, 0.5), (1, None), (2, 0.75), (3, None), (4, 0.8)]:
        progress.on_round(record(t, accuracy))
    progress.close()
    return stream.getvalue()


def test_in_a_file_progress_is_one_line_an_evaluation_with_the_time_left(tmp_path):
    lines = show(io.StringIO(), tmp_path).splitlines()
    assert lines[0] == f"run {tmp_path}"
    assert [line.split(":")[0] for line in lines[1:]] == ["round 0/4", "round 2/4", "round 4/4"]
    assert lines[2].startswith("round 2/4: accuracy 0.750, loss 0.600, 00:0")
    assert lines[2].endswith("left")


def test_on_a_terminal_progress_is_a_bar_with_the_latest_accuracy(tmp_path):
    shown = show(Terminal(), tmp_path)
    assert "4/4" in shown
    assert "accuracy=0.800" in shown


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


def test_a_refused_client_is_said_once(capsys):
    stream = io.StringIO()
    progress = Progress(5, stream)
    for t in (1, 2, 3):
        status_N = np.array([0, 2, 0 if t < 3 else 4], np.uint8)
        progress.on_round(Round(t, status_N=status_N))
    said = stream.getvalue().split()
    assert said.count("without") == 2
    assert "round 1: 1 of 3 clients without a usable report (1 non-finite; first client 1)" in stream.getvalue()
    assert (
        "round 3: 2 of 3 clients without a usable report (1 non-finite, 1 outlier; first client 1)" in stream.getvalue()
    )
