"""Ctrl-C before a command listens to it."""

from __future__ import annotations

from tests.damage import call, check_refused


def test_ctrl_c_while_a_command_loads_is_one_line_and_status_1(monkeypatch, tmp_path):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("zorba_core.cli.runs.indexed", interrupted)
    left = call("runs", str(tmp_path))
    check_refused(left)
    assert left.status == 1
