"""Fine-tuning in separate processes: each a ``zorba train`` or ``zorba resume`` that outlives browser and app.

The process leads a session of its own, so closing the terminal of the app does not reach it. All that is known of it
lies in files (``app.screens.train.jobs``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from app.screens.train.jobs import ALLOCATION, JOB, JOBS, LOG, Job, job_folder, list_jobs, named_run, read_job
from app.screens.train.process_identity import is_alive, start_stamp
from zorba_core.allocation import Allocation, write_allocation
from zorba_core.cli.options import option_words
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.files import write_json, write_text
from zorba_core.runs.threads import usable_cores


def start_training(runs_folder: Path, allocation: Allocation | None, options: dict[str, Any], *, title: str) -> Job:
    """Start ``zorba train``.

    Args:
        allocation: who trains what; None for a method by which every client trains all blocks.
        options: of the command, by their names without dashes (``{"lr": 0.01, "eval_every": 10}``); True is a switch,
            None is left out.

    Raises:
        RunError: no room for one more run, or the process cannot be started.
        InvalidInputError: the runs folder cannot be written.
    """
    with _starting(runs_folder) as folder:
        file = None if allocation is None else folder / ALLOCATION
        if allocation is not None:
            write_allocation(file, allocation)
        command = train_command(file, {**options, "runs_folder": str(runs_folder)})
        return _launch(folder, "train", command, int(options["rounds"]), title)


def start_resume(runs_folder: Path, run: Path, *, rounds: int, title: str) -> Job:
    """Start ``zorba resume`` on a run folder.

    Raises:
        RunError, InvalidInputError: as :func:`start_training`.
    """
    with _starting(runs_folder) as folder:
        return _launch(folder, "resume", ("zorba", "resume", str(run)), rounds, title, run=str(run))


def train_command(
    allocation_file: Path | str | None, options: dict[str, Any], *, verb: str = "train"
) -> tuple[str, ...]:
    """The words of the command ``verb`` with these options."""
    return ("zorba", verb, *option_words(verb, {"allocation": allocation_file, **options}))


def stop(runs_folder: Path, job: Job) -> None:
    """As Ctrl-C does: finish the round at hand, keep everything. Before the first round, or when asked again: at once,
    which loses the round at hand and no other."""
    job = read_job(job_folder(runs_folder, job))  # another page may have asked before
    if not is_alive(job.pid, job.stamp):
        return
    at_once = job.stop_asked is not None or named_run(runs_folder, job) is None
    write_json(job_folder(runs_folder, job) / JOB, asdict(replace(job, stop_asked=time.time())))
    with contextlib.suppress(ProcessLookupError):
        os.kill(job.pid, signal.SIGTERM if at_once else signal.SIGINT)


def forget(runs_folder: Path, job: Job) -> None:
    """Take an ended job out of the list. The run's folder stays as it is."""
    if is_alive(job.pid, job.stamp):
        return
    folder = job_folder(runs_folder, job)
    for name in (JOB, LOG, ALLOCATION):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def being_written(run: Path) -> bool:
    """Whether some process, started here or elsewhere, trains this run now: it holds the lock of the run's log."""
    if not (run / "trajectory.log").is_file():
        return False
    try:
        with (run / "trajectory.log").open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def room_for_one_more(runs_folder: Path) -> tuple[int, int]:
    """(runs in progress, the most at once): one per processor core, since each run computes on one."""
    running = sum(is_alive(job.pid, job.stamp) for job in list_jobs(runs_folder).jobs)
    return running, usable_cores()


@contextlib.contextmanager
def _starting(runs_folder: Path) -> Iterator[Path]:
    """A new job's folder, if there is room for one more run; two that start together are counted one by one."""
    jobs = runs_folder / JOBS
    try:
        jobs.mkdir(parents=True, exist_ok=True)
        if not (jobs / ".gitignore").exists():
            write_text(jobs / ".gitignore", "*\n")
        handle = os.open(jobs / ".lock", os.O_WRONLY | os.O_CREAT)
    except OSError as error:
        raise InvalidInputError(f"the runs folder {str(runs_folder)!r} cannot be written: {error.strerror}") from None
    with open(handle, "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running, most = room_for_one_more(runs_folder)
        if running >= most:
            raise RunError(
                f"{running} run{'s are' if running > 1 else ' is'} in progress and this machine has {most} "
                f"core{'s' if most > 1 else ''} for them; stop one, or wait until one has finished"
            )
        folder = jobs / f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
        folder.mkdir(mode=0o700)  # a command on rows of the user's own may quote them
        try:
            yield folder
        except BaseException:
            for name in (LOG, ALLOCATION):
                (folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
            raise


def _launch(folder: Path, kind: str, command: tuple[str, ...], rounds: int, title: str, run: str | None = None) -> Job:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment.setdefault("OMP_NUM_THREADS", "1")
    with (folder / LOG).open("wb") as log:
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
    write_json(folder / JOB, asdict(job))
    return job
