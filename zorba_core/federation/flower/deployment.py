"""A SuperLink and k SuperNodes on loopback, as child processes of this one.

Every process gets a folder of its own below the deployment's and one ``FLWR_HOME``; telemetry and the look for updates
are off, packages are never installed, and nothing listens beyond 127.0.0.1. All processes end with their parent: the
kernel kills its children when it dies (Linux), and what they started watches them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from zorba_core.errors import MissingDataError, RunError, printable
from zorba_core.files import open_own, read_json, write_text

NO_FLOWER = "Flower 1.41 is not installed here: pip install -c constraints.txt torch==2.13.0 -e '.[flower]'"
_HOST = "127.0.0.1"
_COMMANDS = Path(sys.executable).parent  # where Flower's commands lie
_POLL_SECONDS = "0.2"  # Flower's default of 1.0 is waited for twice a round
_PR_SET_PDEATHSIG = 1
_MOST_SAID = 300  # characters
_SECONDS_TO_START, _SECONDS_TO_STOP = 60.0, 5.0


def environment(home: Path) -> dict[str, str]:
    """What every Flower process here runs under."""
    return {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1"),
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": os.environ.get("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", _POLL_SECONDS),
        "PYTHONUNBUFFERED": "1",
        "PATH": os.pathsep.join([str(_COMMANDS), os.environ.get("PATH", "")]),
    }


@dataclass
class Deployment:
    """Processes by name: ``superlink``, ``node-0``, ... Use as a context: leaving it ends them all."""

    folder: Path

    def __post_init__(self) -> None:
        if not (_COMMANDS / "flower-superlink").is_file():
            raise MissingDataError(NO_FLOWER)
        self.folder = Path(self.folder).resolve()
        self._home = self.folder / "flwr-home"
        self._home.mkdir(parents=True, exist_ok=True)
        self._processes: dict[str, subprocess.Popen] = {}
        self._ports: dict[str, int] = {}  # by process name

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start_superlink(self) -> None:
        """Start the SuperLink and wait until it listens.

        Raises:
            RunError: it ended, or did not listen in time.
        """
        port = self.port("superlink")
        write_text(
            self._home / "config.toml",
            f'[superlink]\ndefault = "loop"\n\n[superlink.loop]\naddress = "{_HOST}:{port}"\ninsecure = true\n',
        )
        self.start(
            "superlink",
            [
                _COMMANDS / "flower-superlink",
                "--insecure",
                "--host",
                _HOST,
                "--port",
                str(port),
                "--disable-runtime-dependency-installation",
                # On disk, so that SuperNodes are still known to a SuperLink that was killed and started again.
                "--database",
                str(self.folder / "superlink" / "state.db"),
            ],
        )
        self._wait_for_port("superlink", port)

    def start_node(self, seat: int, node_config: Mapping[str, Any]) -> None:
        """Start the SuperNode of a seat; its replica lies below the deployment unless ``node_config`` says else."""
        name = f"node-{seat}"
        config = {"seat": seat, "replica": str(self.folder / name / "replica"), **node_config}
        self.start(
            name,
            [
                _COMMANDS / "flower-supernode",
                "--insecure",
                "--superlink",
                f"{_HOST}:{self.port('superlink')}",
                "--host",
                _HOST,
                "--port",
                str(self.port(name)),
                "--node-config",
                " ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in config.items()),
            ],
        )

    def start(self, name: str, command: Sequence[str | os.PathLike[str]]) -> None:
        """Start a process under Flower's environment, with a folder of its own for its log."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # messages with scalars, and clients' rows
        with open(folder / "log.txt", "ab", opener=open_own) as log:
            self._processes[name] = subprocess.Popen(
                [os.fspath(part) for part in command],
                env=environment(self._home),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def submit(self, app: Path) -> None:
        """Hand the app to the SuperLink, which starts the ServerApp.

        Raises:
            RunError: it was refused.
        """
        try:
            done = subprocess.run(
                [_COMMANDS / "flwr", "run", str(app), "loop"],
                env=environment(self._home),
                capture_output=True,
                text=True,
                timeout=_SECONDS_TO_START,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RunError(f"flwr run did not end within {_SECONDS_TO_START:g} seconds") from None
        if done.returncode != 0:
            said = _in_a_line(done.stderr or done.stdout) or f"exit status {done.returncode}"
            raise RunError(f"flwr run failed: {said}; see {self.folder / 'superlink' / 'log.txt'}")

    def running(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def kill(self, name: str) -> None:
        """End a process and all that it started, at once: as a power cut would."""
        process = self._processes.pop(name)
        _kill(process, _descendants(process.pid))

    def stop(self) -> None:
        """End everything, nodes first: by SIGINT, then by SIGKILL."""
        names = sorted(self._processes, key=lambda name: name == "superlink")
        for group in ([name for name in names if name != "superlink"], ["superlink"]):
            group = [name for name in group if name in self._processes]
            started = {name: _descendants(self._processes[name].pid) for name in group}
            for name in group:
                with contextlib.suppress(ProcessLookupError):
                    self._processes[name].send_signal(signal.SIGINT)
            until = time.monotonic() + _SECONDS_TO_STOP
            for name in group:
                process = self._processes[name]
                while process.poll() is None and time.monotonic() < until:
                    started[name] |= _descendants(process.pid)  # one may start between the signal and the end
                    time.sleep(0.05)
                _kill(self._processes.pop(name), started[name])

    def port(self, name: str) -> int:
        if name not in self._ports:
            self._ports[name] = _free_port()
        return self._ports[name]

    def _wait_for_port(self, name: str, port: int) -> None:
        until = time.monotonic() + _SECONDS_TO_START
        while time.monotonic() < until:
            if not self.running(name):
                break
            with contextlib.suppress(OSError), socket.create_connection((_HOST, port), timeout=1):
                return
            time.sleep(0.1)
        raise RunError(f"{name} does not listen on port {port}; see {self.folder / name / 'log.txt'}")


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the context SIGTERM and SIGHUP end this process as Ctrl-C does: through every ``finally``."""

    def leave(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _die_with_parent() -> None:
    with contextlib.suppress(OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _kill(process: subprocess.Popen, descendants: set[psutil.Process]) -> None:
    """End a process and its descendants (listed before: some run in their own sessions, and orphans cannot be traced
    back)."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for descendant in descendants:
        with contextlib.suppress(psutil.NoSuchProcess):  # psutil refuses a number that is another's by now
            descendant.kill()
    # A killed process holds its files and ports until the kernel has put it away.
    psutil.wait_procs(descendants, timeout=_SECONDS_TO_STOP)


def _descendants(pid: int) -> set[psutil.Process]:
    """All that a process started and what those started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return set(psutil.Process(pid).children(recursive=True))
    return set()


def _in_a_line(said: str) -> str:
    """What a command of Flower's said last: the words in its box, where it drew one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    boxed = [line.strip("│ ") for line in lines if line.startswith("│")]
    return printable(" ".join(boxed) if boxed else "".join(lines[-1:]))[:_MOST_SAID]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]


def read_if_whole(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file that another process writes; None while it is not there or is no such file."""
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
