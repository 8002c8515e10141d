"""Running experiments: what is missing, in order, over a pool of workers, with the tables kept up to date.

Every run is a function of its request, so the number of workers changes nothing but the time. When a sweep ends
early, finished runs are kept, and runs in progress are resumed.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pandas as pd

from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.files import open_own
from zorba_core.study.experiments import store
from zorba_core.study.experiments.pools import RunOutcome, cluster, processes
from zorba_core.study.experiments.specs import Experiment, RunSpec
from zorba_core.study.experiments.worker import NotDone, Refused, RunRows, run_spec

MAX_WORKERS = 256
_ROUNDING = 1e-3  # of the loss: a dozen rounds make no more of the last bits of exact scalars
# Relative costs of a round on a dataset, by the length of its prompts.
_DATASET_COST = {"sst2": 1.0, "ag-news": 2.0, "snli": 1.4, "toy-reviews": 0.7}


@dataclass(frozen=True)
class Done:
    """The result of a sweep."""

    ran: int
    earlier: int  # finished before this sweep
    failed: int  # diverged, now or before
    busy: int  # another process is running them
    refused: tuple[str, ...]  # a line for each that cannot be run here
    stopped: bool  # by Ctrl-C


def run_experiment(
    name: str,
    profile: str = "standard",
    *,
    workers: int | None = None,
    ray_address: str | None = None,
    root: str | os.PathLike[str] = store.DEFAULT_ROOT,
    stream: TextIO | None = None,
) -> store.Results:
    """Run what is missing of one experiment, and read its tables. Where and how many at a time:
    :func:`run_experiments`.

    Raises:
        InvalidInputError: unknown names.
        RunError: stopped by Ctrl-C before it was complete, or a run was refused.
    """
    check(run_experiments([name], profile, workers=workers, ray_address=ray_address, root=root, stream=stream))
    return store.read_results(name, profile, root)


def check(done: Done) -> None:
    """
    Raises:
        RunError: the sweep is not complete, and why.
    """
    if done.stopped:
        raise RunError("stopped; what is finished is kept, and the same command continues it")
    if done.refused:
        raise RunError(f"{len(done.refused)} runs were refused, the others are done; {done.refused[0]}")


def run_experiments(
    names: Sequence[str],
    profile: str = "standard",
    *,
    workers: int | None = None,
    ray_address: str | None = None,
    root: str | os.PathLike[str] = store.DEFAULT_ROOT,
    stream: TextIO | None = None,
) -> Done:
    """Run what is missing of several experiments, lowest wave first whichever experiment it belongs to.

    ``workers`` runs at a time, one by default; with ``ray_address`` on a cluster of Ray's
    (:func:`~zorba_core.study.experiments.pools.cluster`), one for each of its processors by default.

    Raises:
        InvalidInputError: as :func:`run_experiment`.
        MissingDataError: Ray is asked for and not installed.
        RunError: no cluster answers, or it lost a run.
    """
    if workers is not None and not 1 <= workers <= MAX_WORKERS:
        raise InvalidInputError(f"workers is {workers}; it must be between 1 and {MAX_WORKERS}")
    stream = stream or sys.stderr
    experiments = [store.experiment_named(name) for name in names]
    tables = [_Table(experiment, profile, Path(root)) for experiment in experiments]
    finished = sum(len(table.belonging) for table in tables)
    ran, busy, refused, stopped = 0, set(), {}, False
    while not stopped:  # trials that are done can ask for more runs
        missing = _missing(tables, busy | set(refused))
        if not missing:
            break
        pace = _Pace(missing, f"{workers or 1} at a time" if ray_address is None else f"by Ray ({ray_address})", stream)
        for spec, outcome in _outcomes(missing, Path(root).resolve() / store.WORK, workers, ray_address):
            if outcome is NotDone.BUSY:
                busy.add(spec.sha256)
            if isinstance(outcome, Refused):
                refused[spec.sha256] = f"{spec.dataset} {spec.arm} seed {spec.seed}: {outcome.value}"
            if isinstance(outcome, NotDone | Refused):
                pace.tell(spec, outcome.value)
                stopped |= outcome is NotDone.INTERRUPTED
                continue
            ran += 1
            total = sum(len(table.specs) for table in tables)
            for table in tables:
                table.add(spec, outcome)
            pace.done(spec, outcome)
            if sum(len(table.specs) for table in tables) > total:
                break  # the last trial of a rate is in: the runs that use it may come next
    failed = sum(int((table.belonging["status"] == "failed").sum()) for table in tables)
    return Done(
        ran=ran, earlier=finished, failed=failed, busy=len(busy), refused=tuple(refused.values()), stopped=stopped
    )


@dataclass(frozen=True)
class RepeatedRun:
    """A run made again from its stored request."""

    arm: str
    seed: int
    stored: str  # weights_sha256
    again: str
    stored_loss: float  # at the end
    again_loss: float
    exact: bool  # its scalars are derivatives, whose last bits follow the order in which the code adds
    commit: str  # of the code that made the stored run; empty where unknown
    processor: str  # whose kernels multiplied then; empty where unknown
    same_processor: bool  # as here

    @property
    def matches(self) -> bool:
        return self.stored == self.again

    @property
    def agrees(self) -> bool:
        """The same weights; with exact scalars or another processor also the same loss but for rounding."""
        close = abs(self.again_loss - self.stored_loss) <= _ROUNDING * self.stored_loss
        return self.matches or ((self.exact or not self.same_processor) and close)


def run_again(
    name: str, profile: str, count: int, root: str | os.PathLike[str] = store.DEFAULT_ROOT
) -> list[RepeatedRun]:
    """Make ``count`` finished runs again, each from the request in its row and in a folder of its own, and compare the
    final weights. Which runs they are follows from the hashes of their requests. Matrices are multiplied by the library
    of the machine that the row names, where this one has it.

    Raises:
        InvalidInputError, MissingDataError: no such results, or fewer finished runs than asked for.
    """
    from zorba_core.engine.products import ONEDNN_KERNELS, by_pytorch, cpu_kernels  # loads torch

    finished = store.read_results(name, profile, root).finished.sort_values("sha256")
    if not 1 <= count <= len(finished):
        raise InvalidInputError(f"{name} has {len(finished)} finished runs, not {count}; give a number up to that")
    checks = []
    for row in finished.head(count).itertuples():
        spec = RunSpec.from_request(json.loads(row.config)["request"], row.arm)
        processor = _processor_of(row.machine)
        as_then = nullcontext() if processor == ONEDNN_KERNELS else by_pytorch()
        with tempfile.TemporaryDirectory() as work, as_then:
            outcome = run_spec(spec, Path(work))
        if isinstance(outcome, NotDone | Refused):
            raise RunError(f"{row.arm}, seed {row.seed}: {outcome.value}")
        again = outcome[0]
        checks.append(
            RepeatedRun(
                arm=row.arm,
                seed=row.seed,
                stored=row.weights_sha256,
                again=again.get("weights_sha256", ""),
                stored_loss=float(row.final_loss),
                again_loss=float(again.get("final_loss", math.nan)),
                exact=ESTIMATORS[spec.settings.get("estimator", "cohort")].exact,
                commit=row.git_commit if isinstance(row.git_commit, str) else "",
                processor=processor,
                same_processor=processor == cpu_kernels(),
            )
        )
    return checks


def _processor_of(machine: str) -> str:
    """What a row's ``machine`` says of the processor after the version of torch: nothing in the oldest rows."""
    return machine.partition("torch ")[2].partition(", ")[2]


class _Table:
    """One experiment's tables on disk; added to run by run."""

    def __init__(self, experiment: Experiment, profile: str, root: Path) -> None:
        self.experiment, self.profile = experiment, profile
        self._folder = store.results_folder(experiment.name, profile, root)
        self._lock = root / store.WORK / f"{experiment.name}-{profile}.lock"
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
        """Keep the record if this experiment asks for it. What another process wrote meanwhile is kept too."""
        own = {each.sha256: each for each in self.specs}.get(spec.sha256)
        if own is None:
            return
        row, curve = record
        new_runs = store.frame_of([{**row, "arm": own.arm, "role": own.role}], store.RUN_SCHEMA)
        new_curves = store.frame_of(curve, store.CURVE_SCHEMA)
        with _alone(self._lock):
            self._runs, self._curves = store.read_tables(self._folder)
            self._runs = _joined(self._runs[self._runs["sha256"] != spec.sha256], new_runs)
            self._curves = _joined(self._curves[self._curves["sha256"] != spec.sha256], new_curves)
            store.write_tables(self._folder, self._runs, self._curves)
        self._settle()


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Within the context no other process changes the tables: it would lose the rows written meanwhile."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "ab", opener=open_own) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _joined(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    return after if before.empty else pd.concat([before, after], ignore_index=True)


def _missing(tables: Sequence[_Table], busy: set[str]) -> list[RunSpec]:
    """Every run that some experiment still asks for, once, by wave and then in the experiments' order."""
    unique: dict[str, RunSpec] = {}
    for table in tables:
        for spec in table.missing:
            first = unique.get(spec.sha256)
            if first is None or spec.wave < first.wave:
                unique[spec.sha256] = spec
    return sorted((spec for spec in unique.values() if spec.sha256 not in busy), key=lambda spec: spec.wave)


def _outcomes(
    specs: Sequence[RunSpec], work: Path, workers: int | None, ray_address: str | None
) -> Iterator[tuple[RunSpec, RunOutcome]]:
    """Each run's outcome as it comes; after an interruption, only of those that were in progress."""
    if workers in (None, 1) and ray_address is None:
        for spec in specs:
            outcome = run_spec(spec, work)
            yield spec, outcome
            if outcome is NotDone.INTERRUPTED:
                return
        return
    opened = processes(workers, work) if ray_address is None else cluster(ray_address, workers, work)
    with opened as pool, _counting() as interrupts:
        waiting, running, announced = list(reversed(specs)), 0, False
        while running or (waiting and not interrupts):
            while waiting and not interrupts and running < pool.places:
                pool.start(waiting.pop())
                running += 1
            if interrupts and not announced:
                pool.stop()
                announced = True
            for spec, outcome in pool.finished():
                running -= 1
                yield spec, outcome
        if waiting and interrupts:
            yield waiting[-1], NotDone.INTERRUPTED


@contextmanager
def _counting() -> Iterator[list[int]]:
    """Ctrl-C while it is open, counted instead of raised: the workers end their rounds, and no new run begins."""
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


class _Pace:
    """One line a run on stderr, with the time that is left at the pace so far."""

    def __init__(self, specs: Sequence[RunSpec], where: str, stream: TextIO) -> None:
        self._left = {spec.sha256: _cost(spec) for spec in specs}
        self._total, self._count = len(specs), 0
        self._spent, self._started, self._stream = 0.0, time.monotonic(), stream
        print(f"{len(specs)} runs to do, {where}", file=stream, flush=True)

    def done(self, spec: RunSpec, record: RunRows) -> None:
        row = record[0]
        self._count += 1
        self._spent += self._left.pop(spec.sha256)
        elapsed = time.monotonic() - self._started
        left = elapsed / self._spent * sum(self._left.values())
        result = row["reason"] if row["status"] == "failed" else f"accuracy {row['final_accuracy']:.3f}"
        self.tell(spec, f"{result}; {self._count}/{self._total}, about {_duration(left)} left")

    def tell(self, spec: RunSpec, what: str) -> None:
        print(f"{spec.dataset} {spec.arm} seed {spec.seed}: {what}", file=self._stream, flush=True)


def _cost(spec: RunSpec) -> float:
    """What a run takes beside others, to some tens of per cent: rounds, clients and rows, with a fixed part."""
    settings = spec.settings
    passes = (settings.get("num_perturbations") or 1) + 1
    rows = spec.recipe.num_clients * settings.get("batch_size", 8) * passes
    return 300.0 + settings.get("rounds", 150) * (5.0 + rows / 40.0 * _DATASET_COST.get(spec.dataset, 1.0))


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes // 60} h {minutes % 60:02d} min"
