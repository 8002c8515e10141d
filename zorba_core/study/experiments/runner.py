"""Running experiments: what is missing, in order, with the tables kept up to date.

Every run is a function of its request, so the number of workers changes nothing but the time. When a sweep ends
early, finished runs are kept, and runs in progress are resumed.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pandas as pd

from zorba_core.errors import InvalidInputError, RunError
from zorba_core.study.experiments import store
from zorba_core.study.experiments.specs import Experiment, RunSpec
from zorba_core.study.experiments.worker import Refused, RunRows, run_spec

MAX_WORKERS = 256
_PATIENCE_S = 1.0  # between two looks at whether Ctrl-C was pressed


@dataclass(frozen=True)
class Done:
    """The result of a sweep."""

    ran: int
    failed: int  # diverged, now or before
    refused: tuple[str, ...]  # a line for each that cannot be run here
    stopped: bool  # by Ctrl-C

    def check(self) -> None:
        """
        Raises:
            RunError: the sweep is not complete, and why.
        """
        if self.stopped:
            raise RunError("stopped; what is finished is kept, and the same command continues it")
        if self.refused:
            raise RunError(f"{len(self.refused)} runs were refused, the others are done; {self.refused[0]}")


def run_experiments(
    names: Sequence[str],
    profile: str = "standard",
    *,
    workers: int = 1,
    root: str | os.PathLike[str] = store.DEFAULT_ROOT,
    stream: TextIO | None = None,
) -> Done:
    """Run what is missing of several experiments, ``workers`` runs at a time, lowest wave first whichever experiment
    it belongs to.

    Raises:
        InvalidInputError: unknown names, or a number of workers that is out of range.
        RunError: another process runs experiments in ``root``.
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise InvalidInputError(f"workers is {workers}; it must be between 1 and {MAX_WORKERS}")
    stream = stream or sys.stderr
    work = Path(root).resolve() / store.WORK
    tables = [_Table(store.experiment_named(name), profile, Path(root)) for name in names]
    ran, refused, stopped = 0, {}, False
    with _alone(work):
        while missing := _missing(tables, set(refused)):  # trials that are done can ask for more runs
            print(f"{len(missing)} runs to do, {workers} at a time", file=stream, flush=True)
            asked_for = sum(len(table.specs) for table in tables)
            for count, (spec, outcome) in enumerate(_outcomes(missing, work, workers), start=1):
                where = f"{spec.dataset} {spec.arm} seed {spec.seed}"
                if outcome is None:
                    stopped = True
                    result = "stopped; it will be resumed"
                elif isinstance(outcome, Refused):
                    result = outcome.reason
                    refused[spec.sha256] = f"{where}: {result}"
                else:
                    ran += 1
                    row = outcome[0]
                    result = row["reason"] if row["status"] == "failed" else f"accuracy {row['final_accuracy']:.3f}"
                    for table in tables:
                        table.add(spec, outcome)
                print(f"{where}: {result}; {count}/{len(missing)}", file=stream, flush=True)
                if sum(len(table.specs) for table in tables) > asked_for:
                    break  # the last trial of a rate is in: the runs that use it may come next
            if stopped:
                break
    failed = sum(int((table.belonging["status"] == "failed").sum()) for table in tables)
    return Done(ran=ran, failed=failed, refused=tuple(refused.values()), stopped=stopped)


class _Table:
    """One experiment's tables on disk; added to run by run."""

    def __init__(self, experiment: Experiment, profile: str, root: Path) -> None:
        self.experiment, self.profile = experiment, profile
        self._folder = store.results_folder(experiment.name, profile, root)
        self._runs, self._curves = store.read_tables(self._folder)
        self._settle()

    def _settle(self) -> None:
        chosen, _, self.specs = store.select(self._runs, self.experiment, self.profile)
        # A process that dies between the two tables leaves one without the other: such a run is asked for again.
        self.belonging = chosen[chosen["rounds_done"].isna() | chosen["sha256"].isin(self._curves["sha256"])]

    @property
    def missing(self) -> list[RunSpec]:
        done = set(self.belonging["sha256"])
        return [spec for spec in self.specs if spec.sha256 not in done]

    def add(self, spec: RunSpec, record: RunRows) -> None:
        """Keep the record if this experiment asks for it."""
        own = {each.sha256: each for each in self.specs}.get(spec.sha256)
        if own is None:
            return
        row, curve = record
        new_runs = store.frame_of([{**row, "arm": own.arm, "role": own.role}], store.RUN_SCHEMA)
        new_curves = store.frame_of(curve, store.CURVE_SCHEMA)
        self._runs = _joined(self._runs[self._runs["sha256"] != spec.sha256], new_runs)
        self._curves = _joined(self._curves[self._curves["sha256"] != spec.sha256], new_curves)
        store.write_tables(self._folder, self._runs, self._curves)
        self._settle()


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Within the context no other process runs experiments here.

    Raises:
        RunError: another one does.
    """
    work.mkdir(parents=True, exist_ok=True)
    with open(work / ".lock", "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another process runs experiments in {work.parent}; wait for it, or stop it") from None
        yield


def _joined(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    return after if before.empty else pd.concat([before, after], ignore_index=True)


def _missing(tables: Sequence[_Table], refused: set[str]) -> list[RunSpec]:
    """Every run that some experiment still asks for, once, by wave and then in the experiments' order."""
    unique: dict[str, RunSpec] = {}
    for table in tables:
        for spec in table.missing:
            first = unique.get(spec.sha256)
            if first is None or spec.wave < first.wave:
                unique[spec.sha256] = spec
    return sorted((spec for spec in unique.values() if spec.sha256 not in refused), key=lambda spec: spec.wave)


def _outcomes(specs: Sequence[RunSpec], work: Path, workers: int) -> Iterator[tuple[RunSpec, RunRows | Refused | None]]:
    """Each run's outcome as it comes; after an interruption, only of those that were in progress."""
    if workers == 1:
        for spec in specs:
            outcome = run_spec(spec, work)
            yield spec, outcome
            if outcome is None:
                return
        return
    context = multiprocessing.get_context("spawn")  # a forked torch is not safe to use
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare_worker)
    waiting = list(reversed(specs))
    running: dict[Future, RunSpec] = {}
    with pool, _counting() as interrupts:
        while running or (waiting and not interrupts):
            while waiting and not interrupts and len(running) < workers:
                spec = waiting.pop()
                running[pool.submit(run_spec, spec, work)] = spec
            for future in wait(running, timeout=_PATIENCE_S, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
        if waiting:
            yield waiting[-1], None


def _prepare_worker() -> None:
    """Ctrl-C reaches every process of the terminal; a worker without a run must survive it."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _counting() -> Iterator[list[int]]:
    """Ctrl-C while it is open, counted instead of raised: the workers end their rounds, and no new run begins."""
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
