"""Whoever starts a server hears how it ended, also where it could not say so."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from zorba_core.cli import federation as command
from zorba_core.errors import RunError
from zorba_core.federation.flower import locks, loopback, server_app
from zorba_core.federation.flower.app_folder import write_request
from zorba_core.federation.flower.locks import held, is_held
from zorba_core.federation.request import request_config
from zorba_core.files import write_json

HOLD = """
import sys, time
from pathlib import Path
from zorba_core.federation.flower.locks import held
with held(Path(sys.argv[1])) as alone:
    assert alone
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def superlink():
    """A SuperLink that lives on, whatever its server does."""
    return SimpleNamespace(running=lambda name: True)


@pytest.fixture
def server(tmp_path):
    """Another process that holds the request of a folder."""
    write_request(tmp_path, {"lr": 0.01}, runs_folder=tmp_path / "runs")
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "request.json"], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def within(seconds: float):
    """A look that ends a wait that is not to be."""
    until = time.monotonic() + seconds

    def look() -> None:
        assert time.monotonic() < until, "it is waited for"

    return look


def test_a_server_that_the_system_killed_is_not_waited_for(server, superlink, tmp_path):
    looks, not_for_long = [], within(20.0)

    def look() -> None:
        not_for_long()
        looks.append(server.poll())
        if len(looks) == 3:
            server.kill()
            server.wait()

    with pytest.raises(RunError, match=r"^the server ended without a word of how; see .*superlink/log\.txt$"):
        loopback.await_result(superlink, tmp_path, look)
    assert looks[:3] == [None, None, None]


def test_a_server_that_never_begins_is_not_waited_for(superlink, tmp_path, monkeypatch):
    monkeypatch.setattr(loopback, "_SECONDS_TO_BEGIN", 0.5)
    write_request(tmp_path, {"lr": 0.01}, runs_folder=tmp_path / "runs")
    with pytest.raises(RunError, match="the server ended without a word of how"):
        loopback.await_result(superlink, tmp_path, within(20.0))


def test_a_server_that_was_started_again_on_a_request_of_its_own_is_waited_for(
    server, superlink, tmp_path, monkeypatch
):
    monkeypatch.setattr(loopback, "_LOOK", 0.05)
    looks = []

    def again(deployment) -> None:
        looks.append(None)
        if len(looks) == 2:
            server.kill()
            server.wait()
            write_request(tmp_path, {"lr": 0.01}, runs_folder=tmp_path / "runs", resume=tmp_path)
        if len(looks) == 40:
            write_json(tmp_path / "result.json", {"state": "done", "run": "r"})

    assert loopback.await_result(superlink, tmp_path, watch=again)["run"] == "r"
    assert len(looks) == 40


def test_a_server_holds_its_request_until_it_has_said_how_it_ended(make_config, server_settings, tmp_path, monkeypatch):
    request = write_request(tmp_path, request_config(make_config(), server_settings), runs_folder=tmp_path / "runs")
    seen = []

    def full(path, content) -> None:
        seen.append(is_held(request))
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(server_app, "serve", lambda *arguments, **options: seen.append(is_held(request)))
    monkeypatch.setattr(server_app, "write_json", full)
    with pytest.raises(OSError, match="No space left"):
        server_app.serve_request(None, request)
    assert seen == [True, True]
    assert not is_held(request)


def test_a_server_that_is_ended_from_outside_says_so(make_config, server_settings, superlink, tmp_path, monkeypatch):
    """Flower's handler of signals raises SystemExit."""
    request = write_request(tmp_path, request_config(make_config(), server_settings), runs_folder=tmp_path / "runs")
    monkeypatch.setattr(server_app, "serve", lambda *arguments, **options: sys.exit(0))
    with pytest.raises(SystemExit):
        server_app.serve_request(None, request)
    with pytest.raises(RunError, match="the server failed: it was ended from outside"):
        loopback.finished(loopback.await_result(superlink, tmp_path, within(10.0)))


def test_one_holds_a_file_and_nobody_waits_for_it(tmp_path):
    missing, pipe = tmp_path / "none", tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not is_held(missing)
    assert not is_held(pipe)
    with held(pipe) as first, held(pipe) as second, held(missing) as third:
        assert (first, second, third) == (True, False, None)
        assert is_held(pipe)
    assert not is_held(pipe)


def test_a_server_that_begins_while_somebody_looks_holds_its_request_all_the_same(tmp_path):
    """A look has the lock for a moment; a server without it would be given up while it lives."""
    path = tmp_path / "request.json"
    path.write_text("{}")
    looking = os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_EX)
    look_ends = threading.Timer(0.2, os.close, [looking])
    look_ends.start()
    with held(path) as alone:
        assert alone
        assert is_held(path)
    look_ends.join()


def test_a_file_system_without_locks_is_no_other_process(tmp_path, monkeypatch):
    def none(handle, operation) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", none)
    with locks.alone_in(tmp_path / "folder"):
        assert is_held(tmp_path / "folder")  # nobody can tell, so it is waited for as long as the SuperLink lives


def test_a_full_disk_is_named_with_the_place_of_the_logs(tmp_path, monkeypatch):
    assert command._how_to_resume(tmp_path) == f"logs and replicas are in {tmp_path}"
    monkeypatch.setattr(command.shutil, "disk_usage", lambda path: SimpleNamespace(free=4096))
    assert command._how_to_resume(tmp_path).endswith(", whose disk is full: make room there first")
    monkeypatch.undo()
    gone = tmp_path / "gone"
    assert command._how_to_resume(gone) == f"logs and replicas are in {gone}"
