"""Trainings in the background: each a ``zorba train`` or ``zorba resume`` that outlives browser and dashboard.

A job is a folder ``<runs folder>/.jobs/<id>/``. Its state is always read from these files::

    job.json        the command, the process and its start
    log.txt         the output of the process
    allocation.json the allocation (train only)
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from app.parts import runs
from zorba_core.allocation import Allocation, write_allocation
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.files import write_json, write_text

JOBS, JOB, LOG, ALLOCATION = ".jobs", "job.json", "log.txt", "allocation.json"
_PREFIX = "zorba: "  # of the command's last line, if it fails
_ENDED = -1.0


@dataclass(frozen=True)
class Job:
    """One process that the dashboard started."""

    folder: str
    command: tuple[str, ...]
    pid: int
    created: float  # the system's start time of the process, to recognise a later process with the same pid
    started: float  # seconds since the epoch
    rounds: int
    title: str
    run: str | None = None  # the run's folder, where it is known from the start
    stop_asked: bool = False

    @property
    def id(self) -> str:
        return Path(self.folder).name

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.created != _ENDED and _created(self.pid) == self.created


@dataclass(frozen=True)
class State:
    """The state of a job."""

    name: str  # starting, running, stopping, finished, stopped, refused or failed
    run: Path | None
    reason: str = ""  # the error message of the process

    @property
    def alive(self) -> bool:
        return self.name in ("starting", "running", "stopping")


def list_jobs(folder: Path) -> list[Job]:
    """Every job of the runs folder, newest first. Unreadable entries are skipped."""
    jobs = []
    for file in sorted((folder / JOBS).glob(f"*/{JOB}"), reverse=True):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            content = json.loads(file.read_text(encoding="utf-8"))
            content |= {"command": tuple(content["command"]), "folder": str(file.parent)}
            jobs.append(Job(**content))
    return jobs


def state_of(job: Job) -> State:
    """The state, from the process and its files."""
    alive = job.alive  # read first: if it is False, the files are complete
    run = Path(job.run) if job.run else _named_run(job)
    if run is not None and not run.is_dir():
        run = None  # deleted elsewhere
    if alive:
        return State("stopping" if job.stop_asked else "running" if _named_run(job) else "starting", run)
    reason = next((line[len(_PREFIX) :] for line in reversed(log_lines(job, 40)) if line.startswith(_PREFIX)), "")
    if run is None:
        was_started = bool(job.run or _named_run(job, existing=False))
        silent = "stopped before the first round" if job.stop_asked else "the process ended without a message"
        message = "its folder was deleted or renamed" if was_started else reason or silent
        return State("stopped" if was_started or (job.stop_asked and not reason) else "refused", None, message)
    if runs.is_finished(run):
        return State("finished", run)
    return State("failed" if reason and "zorba resume" not in reason else "stopped", run, reason)


def log_lines(job: Job, lines: int = 12) -> list[str]:
    """The last lines of the process's output."""
    try:
        text = (Path(job.folder) / LOG).read_bytes()[-16_000:].decode("utf-8", "replace")
    except OSError:
        return []
    return [line[:400] for line in text.splitlines() if line.strip()][-lines:]


def start_training(folder: Path, allocation: Allocation | None, options: Mapping[str, Any], title: str) -> Job:
    """Start ``zorba train``.

    Args:
        allocation: None for a method by which every client trains all blocks.
        options: of the command, by name (``{"lr": 0.01, "eval_every": 10}``); None is left out.

    Raises:
        RunError: another start is under way, no core is free, or the process cannot be started.
        InvalidInputError: the runs folder cannot be written.
    """
    with _place(folder) as place:
        file = None
        if allocation is not None:
            write_allocation(file := place / ALLOCATION, allocation)
        words = command_of({"allocation": file, **options, "runs_folder": folder})
        return _launch(place, words, int(options["rounds"]), title)


def command_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """``zorba train`` with these options. True is a switch; None and False are left out."""
    words = ["zorba", "train"]
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(f"{value:g}" if isinstance(value, float) else str(value))
    return tuple(words)


def start_resume(folder: Path, run: Path, rounds: int, title: str) -> Job:
    """Start ``zorba resume`` on a run folder.

    Raises:
        RunError, InvalidInputError: as :func:`start_training`.
    """
    with _place(folder) as place:
        return _launch(place, ("zorba", "resume", str(run)), rounds, title, run=str(run))


def stop(job: Job) -> None:
    """End the job after its current round, as Ctrl-C does; at once before the first round or at the second call."""
    if not job.alive:
        return
    at_once = job.stop_asked or _named_run(job) is None
    _write(replace(job, stop_asked=True))
    with contextlib.suppress(ProcessLookupError):
        os.kill(job.pid, signal.SIGTERM if at_once else signal.SIGINT)


def memory_of(job: Job) -> int | None:
    """Bytes of memory that the process and its children hold now; None if it has ended."""
    if not job.alive:
        return None
    try:
        process = psutil.Process(job.pid)
        return sum(each.memory_info().rss for each in [process, *process.children(recursive=True)])
    except psutil.Error:
        return None


def forget(job: Job) -> None:
    """Remove an ended job from the list. The run's folder stays as it is."""
    if job.alive:
        return
    for name in (JOB, LOG, ALLOCATION):
        (Path(job.folder) / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        Path(job.folder).rmdir()


def why_not_now(folder: Path) -> str:
    """Why no run can start now, as a sentence; empty where one can."""
    alive = [job for job in list_jobs(folder) if job.alive]
    if any(state_of(job).name == "starting" for job in alive):
        return "A run is starting: wait for its first round."
    most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    most = max(most, 2)
    if len(alive) >= most:
        return f"{len(alive)} runs are in progress on {most} cores: stop one, or wait until one has finished."
    return ""


@contextlib.contextmanager
def _place(folder: Path) -> Iterator[Path]:
    """Context manager: a new job's folder. A lock lets only one job start at a time."""
    jobs = folder / JOBS
    try:
        jobs.mkdir(parents=True, exist_ok=True)
        write_text(jobs / ".gitignore", "*\n")
        lock = (jobs / ".lock").open("wb")
    except OSError as error:
        raise InvalidInputError(f"the runs folder {str(folder)!r} cannot be written: {error.strerror}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if message := why_not_now(folder):
            raise RunError(message)
        place = jobs / f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
        place.mkdir(mode=0o700)  # the command may contain text of the user's rows
        yield place


def _launch(place: Path, command: tuple[str, ...], rounds: int, title: str, run: str | None = None) -> Job:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}
    with (place / LOG).open("wb") as log:
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "zorba_core", *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise RunError(f"the training process cannot be started: {error.strerror}") from None
    created = _created(process.pid) or _ENDED
    threading.Thread(target=process.wait, daemon=True).start()  # else it would stay a zombie
    return _write(Job(str(place), command, process.pid, created, time.time(), rounds, title, run))


def _write(job: Job) -> Job:
    write_json(Path(job.folder) / JOB, asdict(job))
    return job


def _created(pid: int) -> float | None:
    """Start time of the process; None if it has ended."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def _named_run(job: Job, existing: bool = True) -> Path | None:
    """The run's folder, which the log has as soon as everything is loaded and checked and the rounds begin."""
    try:
        with (Path(job.folder) / LOG).open("rb") as file:
            lines = file.read(16_000).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    named = next((Path(line.removeprefix("run ")) for line in lines if line.startswith("run ")), None)
    if named is None or named.parent.resolve() != Path(job.folder).parent.parent.resolve():
        return None
    return named if named.is_dir() or not existing else None
