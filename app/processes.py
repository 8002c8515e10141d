"""Fine-tuning as processes of their own: each a ``zorba train`` or ``zorba resume`` that outlives page, browser and app.

Nothing is kept in memory. A job is a folder ``<runs folder>/.jobs/<id>/``, and every look starts from its files::

    job.json        the command, the process and when it began; written whole or not at all
    log.txt         what the process says
    allocation.npz  what it was asked to train (train only)

The process leads a session of its own, so closing the terminal of the app does not reach it. What became of a job is
read off the process (is it the one that was started?), the run folder and the last line of the log.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from app.process_identity import cores, is_alive, start_stamp
from app.run_log import tail
from zorba_core.allocation import AllocationMetrics, write_allocation
from zorba_core.errors import InvalidInputError, MissingDataError, RunError, ZorbaError
from zorba_core.files import write_json, write_text
from zorba_core.runs import CONFIG, SUMMARY

JOBS = ".jobs"  # within the runs folder; a hidden entry is no run
_VERSION = 1
_JOB, _LOG, _ALLOCATION = "job.json", "log.txt", "allocation.npz"
_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
_MOST_JSON_BYTES = 1_000_000
_SAYS = "zorba: "  # how the command begins the one line that explains its exit


@dataclass(frozen=True)
class Job:
    """One process that was started from here, as its file has it."""

    id: str
    kind: str  # "train" or "resume"
    command: tuple[str, ...]  # without the interpreter, to be shown
    pid: int
    stamp: str  # of the process; see process_identity
    started: float  # seconds since the epoch
    rounds: int  # asked for in all
    title: str
    run: str | None = None  # the run's folder, where it is known from the start (resume)
    stop_asked: float | None = None  # when someone pressed Stop
    version: int = _VERSION


class State(NamedTuple):
    """What a job is doing, or what became of it, in words for the screen."""

    name: str  # starting, running, stopping, finished, interrupted, refused, failed, cancelled
    run: Path | None  # the run's folder, once there is one
    reason: str = ""  # what the process said in the end, if it explained itself

    @property
    def alive(self) -> bool:
        return self.name in ("starting", "running", "stopping")

    @property
    def resumable(self) -> bool:
        return self.name in ("interrupted", "failed") and self.run is not None


class JobListing(NamedTuple):
    """Jobs, newest first, and one line for each entry that could not be read."""

    jobs: tuple[Job, ...]
    problems: tuple[str, ...]


def start_training(runs_folder: Path, allocation: AllocationMetrics, options: dict[str, Any], *, title: str) -> Job:
    """Start ``zorba train`` on an allocation.

    Args:
        options: of the command, by their names without dashes (``{"lr": 0.01, "eval_every": 10}``); True is a switch,
            None is left out.

    Raises:
        RunError: no room for one more run, or the process cannot be started.
        InvalidInputError: the runs folder cannot be written.
    """
    with _starting(runs_folder) as folder:
        write_allocation(folder / _ALLOCATION, allocation)
        command = train_command(folder / _ALLOCATION, {**options, "runs_folder": str(runs_folder)})
        return _launch(folder, "train", command, int(options["rounds"]), title)


def start_resume(runs_folder: Path, run: Path, *, rounds: int, title: str) -> Job:
    """Start ``zorba resume`` on a run folder.

    Raises:
        RunError, InvalidInputError: as :func:`start_training`.
    """
    with _starting(runs_folder) as folder:
        return _launch(folder, "resume", ("zorba", "resume", str(run)), rounds, title, run=str(run))


def train_command(allocation_file: Path | str, options: dict[str, Any]) -> tuple[str, ...]:
    """The words of the command that trains an allocation."""
    words = ["zorba", "train", "--allocation", str(allocation_file)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
    return tuple(words)


def list_jobs(runs_folder: Path) -> JobListing:
    """Every job of the runs folder. An entry that cannot be read becomes a line and hides no other."""
    jobs, problems = [], []
    try:
        folders = sorted((runs_folder / JOBS).iterdir(), reverse=True)
    except OSError:
        return JobListing((), ())
    for folder in folders:
        if not folder.is_dir() or not _ID.fullmatch(folder.name):
            continue
        try:
            jobs.append(read_job(folder))
        except ZorbaError as error:
            problems.append(str(error))
    return JobListing(tuple(jobs), tuple(problems))


def read_job(folder: Path) -> Job:
    """A job from its folder.

    Raises:
        MissingDataError, InvalidInputError: it is not there, damaged, or of another version.
    """
    file = folder / _JOB
    if not file.is_file():
        raise MissingDataError(f"{folder}: no {_JOB}; the start of a run was cut short, and the folder can be removed")
    try:
        if file.stat().st_size > _MOST_JSON_BYTES:
            raise ValueError("too large")
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.get("version") != _VERSION:
            raise ValueError(f"version {content.get('version')}, and this program reads version {_VERSION}")
        content["command"] = tuple(str(word) for word in content["command"])
        job = Job(**content)
        if job.id != folder.name or not all(isinstance(value, int) for value in (job.pid, job.rounds)):
            raise ValueError("its fields contradict each other")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidInputError(f"{file}: not a job of this program ({error}); the folder can be removed") from None
    return job


def state_of(runs_folder: Path, job: Job) -> State:
    """What the job is doing, from the process and the files it leaves."""
    alive = is_alive(job.pid, job.stamp)  # asked first: a process that ends meanwhile has written all it will
    run = _named_run(runs_folder, job)
    if alive:
        return State("stopping" if job.stop_asked else "running" if run else "starting", run or _known_run(job))
    run = run or _known_run(job)
    reason = _last_words(job_folder(runs_folder, job) / _LOG)
    if run is None:
        return State("cancelled" if job.stop_asked and not reason else "refused", None, reason)
    summary = _summary(run)
    if summary is not None and summary.get("stopped_by") != "interrupt":
        return State("finished", run)
    if summary is not None or job.stop_asked or not reason or "zorba resume" in reason:
        return State("interrupted", run)
    return State("failed", run, reason)


def stop(runs_folder: Path, job: Job) -> None:
    """As Ctrl-C does: finish the round at hand, keep everything. Before the first round, or when asked again: at once,
    which loses the round at hand and no other."""
    if not is_alive(job.pid, job.stamp):
        return
    at_once = job.stop_asked is not None or _named_run(runs_folder, job) is None
    write_json(job_folder(runs_folder, job) / _JOB, asdict(replace(job, stop_asked=time.time())))
    with contextlib.suppress(ProcessLookupError):
        os.kill(job.pid, signal.SIGTERM if at_once else signal.SIGINT)


def forget(runs_folder: Path, job: Job) -> None:
    """Take an ended job out of the list. The run's folder stays as it is."""
    if is_alive(job.pid, job.stamp):
        return
    folder = job_folder(runs_folder, job)
    for name in (_JOB, _LOG, _ALLOCATION):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def job_folder(runs_folder: Path, job: Job) -> Path:
    return runs_folder / JOBS / job.id


def log_lines(runs_folder: Path, job: Job, lines: int = 12) -> Sequence[str]:
    """The last lines that the process wrote."""
    return tail(job_folder(runs_folder, job) / _LOG, lines)


def being_written(run: Path) -> bool:
    """Whether some process, started here or elsewhere, trains this run now: it holds the lock of the run's log."""
    try:
        with (run / "trajectory.log").open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def room_for_one_more(runs_folder: Path) -> tuple[int, int]:
    """(runs going on, the most at once): one a processor core, since each run computes on one."""
    running = sum(is_alive(job.pid, job.stamp) for job in list_jobs(runs_folder).jobs)
    return running, cores()


@contextlib.contextmanager
def _starting(runs_folder: Path) -> Iterator[Path]:
    """A new job's folder, if there is room for one more run; two that start together are counted one after the other."""
    jobs = runs_folder / JOBS
    try:
        jobs.mkdir(parents=True, exist_ok=True)
        if not (jobs / ".gitignore").exists():
            write_text(jobs / ".gitignore", "*\n")
        lock = (jobs / ".lock").open("w")
    except OSError as error:
        raise InvalidInputError(f"the runs folder {str(runs_folder)!r} cannot be written: {error.strerror}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running, most = room_for_one_more(runs_folder)
        if running >= most:
            raise RunError(
                f"{running} run{'s are' if running > 1 else ' is'} going on and this machine has {most} "
                f"core{'s' if most > 1 else ''} for them; stop one, or wait until one has finished"
            )
        folder = jobs / f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
        folder.mkdir()
        try:
            yield folder
        except BaseException:
            for name in (_LOG, _ALLOCATION):
                (folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
            raise


def _launch(folder: Path, kind: str, command: tuple[str, ...], rounds: int, title: str, run: str | None = None) -> Job:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment.setdefault("OMP_NUM_THREADS", "1")
    with (folder / _LOG).open("wb") as log:
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
    stamp = start_stamp(process.pid) or "ended at once"
    # While the app lives it collects its children's exit, so that none is left as a zombie.
    threading.Thread(target=process.wait, daemon=True).start()
    job = Job(folder.name, kind, command, process.pid, stamp, time.time(), rounds, title, run)
    write_json(folder / _JOB, asdict(job))
    return job


def _named_run(runs_folder: Path, job: Job) -> Path | None:
    """The run's folder, once the process has named it: everything is loaded and checked, and the rounds begin."""
    try:
        with (job_folder(runs_folder, job) / _LOG).open("rb") as log:
            said = log.read(16_000).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    named = next((Path(line.removeprefix("run ")) for line in said if line.startswith("run ")), None)
    if named is None or named.parent.resolve() != runs_folder.resolve() or not (named / CONFIG).is_file():
        return None
    return named


def _known_run(job: Job) -> Path | None:
    return None if job.run is None else Path(job.run)


def _summary(run: Path) -> dict[str, Any] | None:
    try:
        content = json.loads((run / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _last_words(log: Path) -> str:
    """The line in which the command explained its exit, without its name; empty if there is none."""
    said = [line for line in tail(log, 40) if line.startswith(_SAYS)]
    return said[-1].removeprefix(_SAYS) if said else ""
