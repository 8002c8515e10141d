"""Jobs as their files have them: what was started from here, what it is doing, or how it ended.

A job is a folder ``<runs folder>/.jobs/<id>/``, and every look starts from its files; nothing is kept in memory::

    job.json        the command, the process and when it began; written whole or not at all
    log.txt         what the process says
    allocation.npz  what it was asked to train (train only)

What became of a job is read off the process (is it the one that was started?), the run folder and the last line of the
log. Starting and stopping are in ``app.screens.train.processes``.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from app.screens.train.process_identity import is_alive
from app.screens.train.run_log import tail
from zorba_core.errors import InvalidInputError, MissingDataError, ZorbaError, in_short
from zorba_core.files import read_json
from zorba_core.runs import CONFIG, read_summary

JOBS = ".jobs"  # within the runs folder; a hidden entry is no run
JOB, LOG, ALLOCATION = "job.json", "log.txt", "allocation.npz"
_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
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
        MissingDataError, InvalidInputError: it is not there, or damaged.
    """
    file = folder / JOB
    if not file.is_file():
        raise MissingDataError(f"{folder}: no {JOB}; the start of a run was cut short, and the folder can be removed")
    try:
        content = read_json(file)
        job = Job(**{**content, "command": tuple(content["command"])})
        if job.run is not None:
            job = replace(job, run=str(_in_runs_folder(folder.parent.parent, job.run)))
    except (OSError, ValueError, TypeError, KeyError, InvalidInputError) as error:
        raise InvalidInputError(f"{file}: not a job of this program ({error}); the folder can be removed") from None
    return job


def state_of(runs_folder: Path, job: Job) -> State:
    """What the job is doing, from the process and the files it leaves."""
    alive = is_alive(job.pid, job.stamp)  # asked first: a process that ends meanwhile has written all it will
    run = named_run(runs_folder, job)
    if alive:
        return State("stopping" if job.stop_asked else "running" if run else "starting", run or _known_run(job))
    run = run or _known_run(job)
    reason = _last_words(job_folder(runs_folder, job) / LOG)
    if run is None:
        return State("cancelled" if job.stop_asked and not reason else "refused", None, reason)
    summary = summary_of(run)
    if summary is not None and summary.get("stopped_by") != "interrupt":
        return State("finished", run)
    if summary is not None or not reason or "zorba resume" in reason:
        return State("interrupted", run)
    return State("failed", run, reason)


def titles_of_runs(runs_folder: Path) -> dict[str, str]:
    """The title under which each run was started from here, by the name of its folder."""
    titles: dict[str, str] = {}
    for file in sorted((runs_folder / JOBS).glob(f"*/{JOB}"), reverse=True):  # the first start of a run counts
        with contextlib.suppress(OSError, ZorbaError):  # listed on the page Train
            run, title = _titled(runs_folder, file.parent, file.stat().st_mtime_ns)
            titles[run] = title
    return titles


@lru_cache(maxsize=10_000)
def _titled(runs_folder: Path, folder: Path, changed_ns: int) -> tuple[str, str]:
    """A run's folder and the job's title. That a job has no run yet is an error, which is not remembered."""
    job = read_job(folder)
    run = _known_run(job) or named_run(runs_folder, job)
    if run is None:
        raise MissingDataError(f"{folder}: no run yet")
    return run.name, job.title


def job_folder(runs_folder: Path, job: Job) -> Path:
    return runs_folder / JOBS / job.id


def log_lines(runs_folder: Path, job: Job, lines: int = 12) -> Sequence[str]:
    """The last lines that the process wrote."""
    return tail(job_folder(runs_folder, job) / LOG, lines)


def named_run(runs_folder: Path, job: Job) -> Path | None:
    """The run's folder, once the process has named it: everything is loaded and checked, and the rounds begin."""
    log = job_folder(runs_folder, job) / LOG
    if not log.is_file():
        return None
    try:
        with log.open("rb") as file:
            lines = file.read(16_000).decode("utf-8", "replace").splitlines()
        named = next((Path(line.removeprefix("run ")) for line in lines if line.startswith("run ")), None)
        if named is None or named.name == ".." or named.parent.resolve() != runs_folder.resolve():
            return None
        if not (named / CONFIG).is_file():
            return None
    except (OSError, ValueError, RuntimeError):  # no path: too long, with a zero byte, or a link to itself
        return None
    return named


def _known_run(job: Job) -> Path | None:
    return None if job.run is None else Path(job.run)


def _in_runs_folder(runs_folder: Path, run: str) -> Path:
    """The folder of a job's run. A runs folder may be moved, or reached by another path, since the job was started:
    then the run is the one of that name there.

    Raises:
        ValueError: it lies elsewhere, as a file from somebody else may say, or it is no path.
    """
    parent, name = os.path.split(os.path.abspath(run))
    inside = runs_folder / name
    in_place = os.path.realpath(parent) == os.path.realpath(runs_folder)
    if "\0" in run or not (in_place or os.path.isfile(inside / CONFIG)):
        raise ValueError(f"run is {in_short(run)}; it must be a folder in {runs_folder}")
    return inside


def summary_of(run: Path) -> dict[str, Any] | None:
    """The summary of a run that has ended or was stopped; None before, or where it cannot be read."""
    try:
        return read_summary(run) or None
    except (OSError, ZorbaError):
        return None


def _last_words(log: Path) -> str:
    """The line in which the command explained its exit, without its name; empty if there is none."""
    lines = [line for line in tail(log, 40) if line.startswith(_SAYS)]
    return lines[-1].removeprefix(_SAYS) if lines else ""
