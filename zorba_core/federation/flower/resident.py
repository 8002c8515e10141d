"""A process that keeps a client's replica in memory: Flower starts a new process for each message, and importing torch
and transformers there takes longer than a round of a small model.

The process that Flower started passes the message through a Unix socket in the replica's folder to one that has all of
it in memory, and starts that one when it is not there. Both belong to the same user on the same machine; the folder is
closed to others (0700). The replica is on disk as well, so whichever process dies, the next one resumes from there.

A resident ends by itself when its owner (the SuperNode's process) is gone, and after ten minutes without a message.
Requests and answers are one line of JSON each.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import psutil

from zorba_core.errors import ZorbaError, one_line
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.messages import Payload
from zorba_core.files import open_own

_SOCKET, _LOCK, _LOG = "replica.sock", "replica.lock", "replica.log"
_IDLE_SECONDS, _START_SECONDS, _LOOK_SECONDS = 600.0, 600.0, 0.5
_MAX_LINE = 2**26


def ask(settings: ClientSettings, folder: Path, payload: Payload, owner: int) -> Payload:
    """The resident's answer. One that is not there is started.

    Raises:
        OSError: none could be started, or it died over the message.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    request = {"owner": owner, "settings": asdict(settings), "what": payload.what, "values": dict(payload.values)}
    until, starting = time.monotonic() + _START_SECONDS, None
    while True:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
            answer = _exchange(folder, request)
            if "what" in answer:
                return Payload(answer["what"], answer["values"])
        # There is none, or it belongs to another owner and ended itself at this request.
        if starting is None or starting.poll() is not None:
            if starting is not None and starting.returncode:
                raise OSError(f"the resident ended with status {starting.returncode}; see {folder / _LOG}")
            starting = _start(settings, folder, owner)
        if time.monotonic() > until:
            raise OSError(f"the resident did not start; see {folder / _LOG}")
        time.sleep(0.05)


def main(arguments: list[str]) -> None:
    """``python -m zorba_core.federation.flower.resident FOLDER OWNER SETTINGS``: answer until the owner is gone."""
    folder, owner, settings = Path(arguments[0]), int(arguments[1]), json.loads(arguments[2])
    threading.Thread(target=_end_with, args=(owner,), daemon=True).start()
    with open(folder / _LOCK, "ab", opener=open_own) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the one before may be on its way out
        from zorba_core.federation.client import Client
        from zorba_core.federation.replica_store import ReplicaStore

        client = Client(ClientSettings(**settings), ReplicaStore(folder))
        with contextlib.suppress(FileNotFoundError):
            (folder / _SOCKET).unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            with _short(folder) as short:
                listener.bind(f"{short}/{_SOCKET}")
            os.chmod(folder / _SOCKET, 0o600)
            listener.listen()
            listener.settimeout(_IDLE_SECONDS)
            with contextlib.suppress(TimeoutError):
                while _serve_one(listener, client, owner, settings):
                    pass


def _serve_one(listener: socket.socket, client, owner: int, settings: dict) -> bool:
    """False when another owner asks, or one with other settings: this resident is not theirs."""
    connection, _ = listener.accept()
    with connection:
        request = _receive(connection)
        if request["owner"] != owner or request["settings"] != settings:
            _send(connection, {})
            return False
        answer = client.answer(Payload(request["what"], request["values"]))
        _send(connection, {"what": answer.what, "values": dict(answer.values)})
    return True


def _exchange(folder: Path, request: dict) -> dict:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        with _short(folder) as short:
            connection.connect(f"{short}/{_SOCKET}")
        _send(connection, request)
        return _receive(connection)


def _send(connection: socket.socket, value: dict) -> None:
    connection.sendall(json.dumps(value).encode() + b"\n")


def _receive(connection: socket.socket) -> dict:
    with connection.makefile("rb") as stream:
        line = stream.readline(_MAX_LINE)
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the other side ended in the middle of a message")
    return json.loads(line)


def _start(settings: ClientSettings, folder: Path, owner: int) -> subprocess.Popen:
    with open(folder / _LOG, "ab", opener=open_own) as log:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder), str(owner), json.dumps(asdict(settings))],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A short name for the folder: a socket's may have 107 bytes."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def _end_with(owner: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(owner)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:  # a number used again is another's
            time.sleep(_LOOK_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ZorbaError as error:
        sys.exit(f"zorba: {one_line(error)}")
