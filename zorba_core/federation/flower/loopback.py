"""A whole federation on this machine: started, watched and ended. What ``zorba federation up`` does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zorba_core.errors import RunError
from zorba_core.federation.flower.app_folder import write_app, write_request
from zorba_core.federation.flower.deployment import Deployment, ended_by_signals, read_if_whole
from zorba_core.federation.flower.locks import is_held
from zorba_core.runs import Run, read_run

Notice = Callable[[str], None]
FAILED = "failed: "  # how the server's last line begins where it failed
_LOOK = 0.3  # seconds
_GRACE = 20.0  # for a ServerApp to write its result after the SuperLink ended
_SECONDS_TO_BEGIN = 180.0  # for a ServerApp that was submitted: Flower starts it, and it imports


def federate_on_loopback(
    folder: Path,
    config: dict[str, Any],
    nodes: Sequence[Mapping[str, Any]],
    *,
    runs_folder: Path,
    name: str | None = None,
    resume: Path | None = None,
    force: bool = False,
    tell: Notice = lambda line: None,
    watch: Callable[[Deployment], None] = lambda deployment: None,
) -> Run:
    """Run to the end with one SuperNode for each of ``nodes`` (their ``--node-config``, by seat).

    ``folder`` keeps logs and replicas; ``tell`` gets the server's lines as they come; ``watch`` is called with the
    deployment a few times a second. All processes are gone when this returns or raises.

    Raises:
        RunError: the server failed or died.
        MissingDataError: Flower is not installed.
    """
    request = write_request(folder, config, runs_folder=runs_folder, name=name, resume=resume, force=force)
    lines = Tail(folder / "server.log")
    with ended_by_signals(), Deployment(folder) as deployment:
        tell(f"SuperLink on 127.0.0.1:{deployment.port('superlink')}, logs in {folder}")
        deployment.start_superlink()
        for seat, node in enumerate(nodes):
            deployment.start_node(seat, node)
        deployment.submit(write_app(request))
        tell(f"{len(nodes)} SuperNodes started; the first messages take longest, each client loads its model")
        result = await_result(deployment, folder, lambda: lines.tell(tell), watch)
    lines.tell(tell)
    return finished(result)


def finished(result: Mapping[str, Any]) -> Run:
    """The run whose result the server wrote.

    Raises:
        RunError: it failed.
    """
    if result["state"] != "done":
        raise RunError(f"the server failed: {result['error']}")
    return read_run(result["run"])


def await_result(
    deployment: Deployment,
    folder: Path,
    each_look: Callable[[], None] = lambda: None,
    watch: Callable[[Deployment], None] = lambda deployment: None,
    process: str = "superlink",
) -> dict[str, Any]:
    """Wait until the server, which lives no longer than ``process``, has written its result.

    Raises:
        RunError: it ended without a result, as where its disk is full or the system killed it, or never began; or the
            result was damaged.
    """
    server, gone_since = _Server(folder / "request.json"), None
    while (result := read_result(folder / "result.json")) is None:
        each_look()
        watch(deployment)
        running, there = deployment.running(process), server.there()
        if running and there:
            gone_since = None
        elif gone_since is None:
            gone_since = time.monotonic()
        elif time.monotonic() - gone_since > (_LOOK if running else _GRACE):
            who = "the server" if running else f"the {process} process"
            raise RunError(f"{who} ended without a word of how; see {folder / process / 'log.txt'}")
        time.sleep(_LOOK)
    return result


@dataclass
class _Server:
    """What is seen from outside of the server that a request is for: it holds the request's file while it lives."""

    request: Path
    _file: tuple[int, int] | None = None  # a request that is written anew is another server's
    _came: bool = False
    _since: float = field(default_factory=time.monotonic)

    def there(self) -> bool:
        """Whether it lives, or may yet begin."""
        status = self.request.stat() if self.request.exists() else None
        file = status and (status.st_ino, status.st_mtime_ns)
        if file != self._file:
            self._file, self._came, self._since = file, False, time.monotonic()
        held = is_held(self.request)
        self._came |= held
        return held or not (self._came or time.monotonic() - self._since > _SECONDS_TO_BEGIN)


def read_result(path: Path) -> dict[str, Any] | None:
    """How a server says that it ended; None while it has not.

    Raises:
        RunError: the file was damaged: servers write it whole or not at all.
    """
    if not os.path.lexists(path):
        return None
    result = read_if_whole(path) or {}
    says = (("done", "run"), ("failed", "error"))
    if not any(result.get("state") == state and isinstance(result.get(what), str) for state, what in says):
        raise RunError(
            f"{path}: not how a server says that it ended, the file is damaged; see {path.with_name('server.log')}"
        )
    return result


class Tail:
    """The lines that a file gains."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = path.stat().st_size if path.is_file() else 0

    def tell(self, tell: Notice) -> None:
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._at += len(line)
                text = line.decode("utf-8", "replace").strip()
                if text and not text.startswith(FAILED):  # the error that ends the command says it
                    tell(text)
