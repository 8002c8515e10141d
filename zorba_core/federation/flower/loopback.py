"""A whole federation on this machine: a SuperLink and k SuperNodes on loopback, started, watched and ended.

Every process gets a folder of its own below the federation's, and nothing listens beyond 127.0.0.1. All processes carry
the federation's folder in their environment, by which they are found and ended, whoever started them. Where this
process is killed, the kernel ends its children (Linux), and what they started watches them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from zorba_core.errors import MissingDataError, RunError, printable
from zorba_core.federation.flower.app_folder import write_app, write_request
from zorba_core.files import read_json, write_text
from zorba_core.runs import Run

Notice = Callable[[str], None]
FAILED = "failed: "  # how the server's last line begins where it failed
_HOST = "127.0.0.1"
_COMMANDS = Path(sys.executable).parent  # where Flower's commands lie
_NAME = "ZORBA_FEDERATION"  # of the variable that holds the federation's folder
_WITH_PARENT = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
os.execv(sys.argv[1], sys.argv[1:])
"""  # a command that the kernel ends with its parent
_LOOK = 0.3  # seconds
_SECONDS_TO_START, _SECONDS_TO_BEGIN, _GRACE = 60.0, 180.0, 10.0


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
) -> Run:
    """Run to the end with one SuperNode for each of ``nodes`` (their ``--node-config``, by seat).

    ``folder`` keeps logs and replicas; ``tell`` gets the server's lines as they come. All processes are gone when this
    returns or raises.

    Raises:
        RunError: the server failed or died.
        MissingDataError: Flower is not installed.
    """
    request = write_request(folder, config, runs_folder=runs_folder, name=name, resume=resume, force=force)
    with Loopback(folder) as processes:
        tell(f"SuperLink on {_HOST}:{processes.start_superlink()}, logs in {folder}")
        for seat, node in enumerate(nodes):
            processes.start_node(seat, node)
        processes.submit(write_app(request))
        tell(f"{len(nodes)} SuperNodes started; the first messages take longest, each client loads its model")
        return processes.await_run("flwr-serverapp", tell)


class Loopback:
    """The processes of one federation: ``superlink``, ``node-0``, ... Use as a context: leaving it ends them all, also
    by SIGTERM."""

    def __init__(self, folder: Path) -> None:
        if not (_COMMANDS / "flower-superlink").is_file():
            raise MissingDataError(
                "Flower 1.41 is not installed here: pip install -c constraints.txt torch==2.13.0 -e '.[flower]'"
            )
        self.folder = folder.resolve()
        self._home = self.folder / "flwr-home"
        self._home.mkdir(parents=True, exist_ok=True)
        self._address = ""  # of the SuperLink
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Loopback:
        self._stack.enter_context(_ended_by_signals())
        return self

    def __exit__(self, *exception: object) -> None:
        with self._stack:
            while processes := self._processes():
                for process in processes:
                    with contextlib.suppress(psutil.Error):
                        process.kill()
                psutil.wait_procs(processes)

    def start_superlink(self) -> int:
        """Start the SuperLink and wait until it listens on the port that is returned.

        Raises:
            RunError: it does not listen in time.
        """
        port = _free_port()
        self._address = f"{_HOST}:{port}"
        write_text(
            self._home / "config.toml",
            f'[superlink]\ndefault = "loop"\n\n[superlink.loop]\naddress = "{self._address}"\ninsecure = true\n',
        )
        command = [_COMMANDS / "flower-superlink", "--insecure", "--host", _HOST, "--port", str(port)]
        self.start("superlink", [*command, "--disable-runtime-dependency-installation"])
        until = time.monotonic() + _SECONDS_TO_START
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection((_HOST, port), timeout=1):
                return port
            time.sleep(0.1)
        raise RunError(f"the SuperLink does not listen on port {port}; see {self.folder / 'superlink' / 'log.txt'}")

    def start_node(self, seat: int, node_config: Mapping[str, Any]) -> None:
        """Start the SuperNode of a seat, whose replica lies below the federation's folder."""
        name = f"node-{seat}"
        config = {"seat": seat, "replica": str(self.folder / name / "replica"), **node_config}
        words = " ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in config.items())
        command = [_COMMANDS / "flower-supernode", "--insecure", "--superlink", self._address]
        self.start(name, [*command, "--host", _HOST, "--port", str(_free_port()), "--node-config", words])

    def start(self, name: str, command: Sequence[str | Path]) -> None:
        """Start a process under Flower's environment, with a folder of its own for its log."""
        folder = self.folder / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(folder / "log.txt", "ab") as log:
            subprocess.Popen(
                [sys.executable, "-c", _WITH_PARENT, *map(str, command)],
                env=self._environment(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for this process, which ends the others
            )

    def submit(self, app: Path) -> None:
        """Hand the app to the SuperLink, which starts the ServerApp.

        Raises:
            RunError: it was refused.
        """
        command = [str(_COMMANDS / "flwr"), "run", str(app), "loop"]
        done = subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunError(f"flwr run failed: {printable(done.stderr or done.stdout)[-300:]}")

    def await_run(self, server: str, tell: Notice) -> Run:
        """The run, once the server has written how it ended. The server is the process with that word in its command.

        Raises:
            RunError: it failed, never began, or ended without a result, as where the system killed it.
        """
        result, lines = self.folder / "result.json", _Lines(self.folder / "server.log")
        until = time.monotonic() + _SECONDS_TO_BEGIN
        while not result.is_file():
            lines.tell(tell)
            if self._lives(server):
                until = time.monotonic() + _GRACE
            elif time.monotonic() > until:
                raise RunError(f"the server stopped unexpectedly; see the logs in {self.folder}")
            time.sleep(_LOOK)
        lines.tell(tell)
        found = read_json(result)
        if "run" not in found:
            raise RunError(f"the server failed: {found['error']}")
        return Run.read(found["run"])

    def _lives(self, word: str) -> bool:
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                if word in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                    return True
        return False

    def _processes(self) -> list[psutil.Process]:
        """All that was started here, and all that these started in turn."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_NAME) == str(self.folder):
                    found.append(process)
        return found

    def _environment(self) -> dict[str, str]:
        """What every Flower process here runs under."""
        return {
            **os.environ,
            _NAME: str(self.folder),
            "FLWR_HOME": str(self._home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",  # Flower's default of 1.0 is waited for twice a round
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1"),
            "PYTHONUNBUFFERED": "1",
            "PATH": os.pathsep.join([str(_COMMANDS), os.environ.get("PATH", "")]),
        }


class _Lines:
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
                text = line.decode("utf-8").strip()
                if text and not text.startswith(FAILED):  # the error that ends the command says it
                    tell(text)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Within the context SIGTERM and SIGHUP end this process as Ctrl-C does: through every ``finally``."""

    def leave(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]
