"""Ctrl-C before a command listens to it."""

from __future__ import annotations

import subprocess
import sys

from tests.command import call, check_refused


def test_ctrl_c_while_a_command_loads_is_one_line_and_status_1(monkeypatch, tmp_path):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("zorba_core.cli.runs.list_runs", interrupted)
    left = call("runs", str(tmp_path))
    check_refused(left)
    assert left.status == 1


def test_ctrl_c_while_the_interpreter_cleans_up_changes_nothing():
    """What is registered before the command runs at its end: so this is pressed when everything has been reported."""
    code = (
        "import atexit, os, signal; from zorba_core.cli import main; "
        "atexit.register(os.kill, os.getpid(), signal.SIGINT); main()"
    )
    for arguments, status in ((["--version"], 0), (["nonsense"], 2)):
        ended = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=400)
        assert (ended.returncode, len((ended.stdout + ended.stderr).splitlines())) == (status, 1)
