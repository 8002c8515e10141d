"""A deployment without certificates stays on this machine."""

from __future__ import annotations

import os
import socket
import sys

import pytest

pytest.importorskip("flwr")

from zorba_core.errors import InvalidInputError, RunError
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.flower import resident, server_app
from zorba_core.federation.flower.deployment import Deployment


def test_a_listener_of_somebody_else_is_not_taken_for_the_superlink(tmp_path, monkeypatch):
    monkeypatch.setattr("zorba_core.federation.flower.deployment._SECONDS_TO_START", 1.0)
    with Deployment(tmp_path) as deployment, socket.socket() as other:
        other.bind(("127.0.0.1", deployment.port("superlink")))
        other.listen()
        deployment.start("superlink", [sys.executable, "-c", "import time; time.sleep(60)"])
        with pytest.raises(RunError, match="superlink does not listen"):
            deployment._wait_for_port("superlink", deployment.port("superlink"))


@pytest.mark.skipif(os.name != "posix", reason="modes of folders are POSIX's")
def test_messages_and_rows_lie_where_other_users_do_not_read(tmp_path):
    (tmp_path / "node-0").mkdir(mode=0o755)  # also where it was there
    with Deployment(tmp_path) as deployment:
        deployment.start("node-0", [sys.executable, "-c", ""])
        assert (tmp_path / "node-0").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name != "posix", reason="named pipes are POSIX's")
def test_a_pipe_in_the_place_of_a_log_is_refused_and_not_waited_for(tmp_path):
    (tmp_path / "node-0").mkdir()
    os.mkfifo(tmp_path / "node-0" / "log.txt")
    with (
        Deployment(tmp_path) as deployment,
        pytest.raises(InvalidInputError, match=r"log\.txt': it is a device or a pipe"),
    ):
        deployment.start("node-0", [sys.executable, "-c", ""])


@pytest.mark.skipif(os.name != "posix", reason="named pipes are POSIX's")
@pytest.mark.parametrize("name", ["replica.lock", "replica.log"])
def test_a_pipe_in_the_place_of_a_residents_file_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    called = {
        "replica.lock": lambda: resident.main([str(tmp_path), str(os.getpid()), "{}"]),
        "replica.log": lambda: resident._start(ClientSettings(0, blocks=1), tmp_path, os.getpid()),
    }
    with pytest.raises(InvalidInputError, match=f"{name}': it is a device or a pipe"):
        called[name]()


@pytest.mark.parametrize("name", ["replica.lock", "replica.log", "node-0/log.txt", "server.log"])
def test_a_link_in_the_place_of_a_log_or_a_lock_is_refused_and_what_it_leads_to_stays(tmp_path, name):
    (tmp_path / "other").write_text("precious")
    (tmp_path / "node-0").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "other")

    def start():
        with Deployment(tmp_path) as deployment:
            deployment.start("node-0", [sys.executable, "-c", ""])

    called = {
        "replica.lock": lambda: resident.main([str(tmp_path), str(os.getpid()), "{}"]),
        "replica.log": lambda: resident._start(ClientSettings(0, blocks=1), tmp_path, os.getpid()),
        "node-0/log.txt": start,
        "server.log": lambda: server_app._open_log(tmp_path),
    }
    with pytest.raises(InvalidInputError, match=f"{name}': it is a link"):
        called[name]()
    assert (tmp_path / "other").read_text() == "precious"
