"""A whole federation on this machine: this process starts a SuperLink and SuperNodes on loopback, serves the run, and
ends them.

All processes listen on 127.0.0.1 alone, on free ports. If this process is killed, the kernel ends its children (Linux).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid

from zorba_core.errors import RunError, printable
from zorba_core.federation import resident
from zorba_core.federation.request import APP, Request
from zorba_core.federation.server_app import serve
from zorba_core.files import write_text
from zorba_core.runs import Run
from zorba_core.runs.record import Callback
from zorba_core.runs.terminal import Interrupted, deferred_interrupt, undisturbed

_log = logging.getLogger(__name__)
_HOST, _SUPERLINK = "127.0.0.1", "loop"
_COMMANDS = Path(sys.executable).parent  # the folder of Flower's commands
_WITH_PARENT = """
import ctypes, os, signal, sys
parent, command = int(sys.argv[1]), sys.argv[2:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # the parent ended before the call
        sys.exit(1)
os.execv(command[0], command)
"""  # runs a command that the kernel ends when its parent ends
_SECONDS_TO_START, _SECONDS_TO_END = 120.0, 10.0


def federate_on_loopback(
    run_config: Mapping[str, Any],
    nodes: Sequence[Mapping[str, Any]],
    *,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
    started: Mapping[str, Any] | None = None,
) -> Run:
    """Serve a run to its end with one SuperNode for each of ``nodes`` (their ``--node-config``). All processes have
    ended when this returns or raises; after a failure their logs remain.

    Args:
        run_config: the values that differ from ``app/pyproject.toml``.

    Raises:
        RunError: the SuperLink or the run failed.
    """
    done: list[Run] = []

    def main(grid: Grid, context: Context) -> None:
        request = Request.of(context.run_config)
        done.append(serve(request, grid, callbacks=callbacks, quiet=quiet, started=started))

    folder = Path(tempfile.mkdtemp(prefix="zorba-federate-"))
    _pass_proxies()
    try:
        with Loopback(folder) as processes:
            port = processes.start_superlink()
            for node in nodes:
                processes.start_node(node)
            _log.info(f"SuperLink on {_HOST}:{port} and {len(nodes)} SuperNodes, which load the model now")
            processes.submit(run_config)
            resident.shorten_waits()
            resident.serve_task(f"{_HOST}:{port}", main)
    except Interrupted:
        raise
    except RunError as error:
        raise RunError(f"{error} (logs: {folder})") from None
    return done[0]


class Loopback:
    """The processes of one federation. Context manager: the exit ends all processes, and removes ``folder`` with their
    logs unless the run failed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._address = ""  # of the SuperLink
        self._processes: list[subprocess.Popen] = []

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: object) -> None:
        failed = isinstance(error, Exception) and not isinstance(error, Interrupted)
        with undisturbed():
            for process in self._processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)  # and what Flower started in its session
            for process in self._processes:
                process.wait()
            until = time.monotonic() + _SECONDS_TO_END
            while not failed and self.folder.exists() and time.monotonic() < until:
                shutil.rmtree(self.folder, ignore_errors=True)  # a killed process may still write
                time.sleep(0.05)

    def start_superlink(self) -> int:
        """Start the SuperLink, wait until it listens, and return its port.

        Raises:
            RunError: the SuperLink ended, or does not listen in time.
        """
        port = _free_port()
        self._address = f"{_HOST}:{port}"
        connection = {"address": self._address, "insecure": True}
        lines = f'[superlink]\ndefault = "{_SUPERLINK}"\n\n[superlink.{_SUPERLINK}]\n{_toml(connection)}'
        write_text(self.folder / "home" / "config.toml", lines)
        command = [str(_COMMANDS / "flower-superlink"), "--insecure", "--host", _HOST, "--port", str(port)]
        own = ["--isolation", "process", "--disable-runtime-dependency-installation"]  # see resident
        process = self._start("superlink", [*command, *own])
        until = time.monotonic() + _SECONDS_TO_START
        while time.monotonic() < until and process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((_HOST, port), timeout=1):
                return port
            time.sleep(0.1)
        raise RunError(f"the SuperLink does not listen on port {port}")

    def start_node(self, node_config: Mapping[str, Any]) -> subprocess.Popen:
        """Start a SuperNode whose ClientApp stays loaded."""
        name = f"node-{node_config['partition-id']}"
        write_text(self.folder / f"{name}.toml", _toml(node_config))
        command = [sys.executable, "-m", resident.__name__, "--insecure", "--superlink", self._address]
        place = ["--host", _HOST, "--port", str(_free_port())]
        return self._start(name, [*command, *place, "--node-config", str(self.folder / f"{name}.toml")])

    def submit(self, run_config: Mapping[str, Any]) -> None:
        """Call ``flwr run`` with this run-config.

        Raises:
            RunError: ``flwr run`` failed.
        """
        write_text(self.folder / "run-config.toml", _toml(run_config))
        config = ["--run-config", str(self.folder / "run-config.toml")]
        command = [str(_COMMANDS / "flwr"), "run", str(APP), _SUPERLINK, *config]
        if self._start("flwr-run", command).wait() != 0:
            words = (self.folder / "flwr-run.log").read_text(encoding="utf-8", errors="replace")
            raise RunError(f"flwr run failed: {printable(words)[-300:]}")

    def _start(self, name: str, command: Sequence[str]) -> subprocess.Popen:
        # A Ctrl-C within Popen would leave a process that nobody ends.
        with open(self.folder / f"{name}.log", "ab") as log, deferred_interrupt():
            process = subprocess.Popen(
                [sys.executable, "-c", _WITH_PARENT, str(os.getpid()), *command],
                env=self._environment(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C reaches this process alone, which ends the others
            )
            self._processes.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        """The environment of every Flower process."""
        return {
            **os.environ,
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1"),
            "PYTHONUNBUFFERED": "1",
        }


def _pass_proxies() -> None:
    """Exclude this machine from any internet proxy, for gRPC and HTTP of this process and of its children."""
    others = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    os.environ["no_proxy"] = ",".join(filter(None, [others, _HOST, "localhost"]))


def _toml(values: Mapping[str, Any]) -> str:
    """TOML of integers, floats, booleans and strings; names may have dots."""

    def text(value: Any) -> str:
        if isinstance(value, str):  # TOML's strings are JSON's without surrogate pairs, and with DEL escaped
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        return str(value).lower() if isinstance(value, bool) else repr(value)

    return "".join(f"{name} = {text(value)}\n" for name, value in values.items())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]
