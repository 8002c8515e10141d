"""Where a sweep's runs are done: in this process, in others of this machine, or on a cluster of Ray's.

A run is a function of its request, so the pool changes nothing but the time. A pool takes a request when one of its
places is free and gives outcomes as they come; asked to stop, it lets the runs in progress end their round.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from zorba_core.errors import MissingDataError, RunError
from zorba_core.study.experiments.specs import RunSpec
from zorba_core.study.experiments.worker import NotDone, Refused, RunRows, run_spec

RunOutcome = RunRows | NotDone | Refused
_PATIENCE_S = 1.0  # between two looks at whether Ctrl-C was pressed
_ANSWER_S = 10.0


class Pool(Protocol):
    """Places for runs. ``start`` begins one; ``finished`` waits for some to end; ``stop`` asks those in progress to
    end."""

    places: int

    def start(self, spec: RunSpec) -> None: ...

    def finished(self) -> list[tuple[RunSpec, RunOutcome]]: ...

    def stop(self) -> None: ...


class Processes:
    """A process for each place. Ctrl-C reaches all of a terminal's processes."""

    def __init__(self, executor: ProcessPoolExecutor, places: int, work: Path) -> None:
        self.places = places
        self._executor, self._work = executor, work
        self._running: dict[Future, RunSpec] = {}

    def start(self, spec: RunSpec) -> None:
        self._running[self._executor.submit(run_spec, spec, self._work)] = spec

    def finished(self) -> list[tuple[RunSpec, RunOutcome]]:
        done = wait(self._running, timeout=_PATIENCE_S, return_when=FIRST_COMPLETED).done
        return [(self._running.pop(future), future.result()) for future in done]

    def stop(self) -> None:
        """Does nothing: the processes have received the signal too."""


@contextmanager
def processes(places: int, work: Path) -> Iterator[Processes]:
    context = multiprocessing.get_context("spawn")  # a forked torch is not safe to use
    with ProcessPoolExecutor(places, mp_context=context, initializer=_prepare_worker) as executor:
        yield Processes(executor, places, work)


def _prepare_worker() -> None:
    """Ctrl-C reaches every process of the terminal; a worker without a run must survive it."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Cluster:
    """A processor of a Ray cluster for each place, and a GPU for a run that asks for one.

    Every machine needs this checkout with its environment, and the data (``ZORBA_DATA``). Run folders stay on the
    machine that did the run, below the same path as here; an interrupted run resumes where its folder is, and begins
    anew anywhere else. The bits are the same on machines of one kind. Ray trusts whoever reaches its ports.
    """

    def __init__(self, ray: Any, places: int | None, work: Path) -> None:
        self.places = places or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._ray = ray
        self._task = ray.remote(num_cpus=1)(run_spec)
        self._work = work
        self._running: dict[Any, RunSpec] = {}

    def start(self, spec: RunSpec) -> None:
        gpus = 1 if str(spec.settings.get("device", "cpu")).startswith("cuda") else 0
        self._running[self._task.options(num_gpus=gpus).remote(spec, self._work)] = spec

    def finished(self) -> list[tuple[RunSpec, RunOutcome]]:
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_PATIENCE_S)
        return [(self._running[task], self._outcome(task, self._running.pop(task))) for task in done]

    def _outcome(self, reference: Any, spec: RunSpec) -> RunOutcome:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.TaskCancelledError:
            return NotDone.INTERRUPTED
        except errors.RayTaskError as error:
            raise RunError(f"{spec.dataset} {spec.arm} seed {spec.seed} failed on the cluster: {error.cause}") from None
        except errors.RayError as error:
            line = str(error).strip().splitlines()[0]
            raise RunError(f"the cluster lost {spec.dataset} {spec.arm} seed {spec.seed}: {line}") from None

    def stop(self) -> None:
        """Ctrl-C does not reach other machines: each run in progress gets a signal, and ends its round."""
        for reference in self._running:
            self._ray.cancel(reference, force=False)


def _check_reachable(address: str) -> None:
    """Check that a machine answers: Ray itself waits many minutes for one that does not.

    Raises:
        OSError, ValueError: nothing listens there, or the address is not valid.
    """
    if address in ("auto", "local"):
        return
    place = urlsplit(address if "://" in address else f"ray://{address}")
    if not place.hostname or not place.port:
        raise ValueError("no host:port")
    socket.create_connection((place.hostname, place.port), timeout=_ANSWER_S).close()


@contextmanager
def cluster(address: str, places: int | None, work: Path) -> Iterator[Cluster]:
    """Ray at ``address``: ``host:port`` or ``auto`` for one that is there, ``local`` to start one on this machine.

    Raises:
        MissingDataError: Ray is not installed.
        RunError: nobody answers there.
    """
    if find_spec("ray") is None:
        raise MissingDataError("Ray is not installed here: pip install -c constraints.txt torch==2.13.0 -e '.[ray]'")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do by itself soon; else it warns
    import ray

    options = {"include_dashboard": False} if address == "local" else {}
    try:
        _check_reachable(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **options)
    except (OSError, RuntimeError, ValueError) as error:
        line = str(error).strip().splitlines()[0]
        raise RunError(f"no Ray cluster answers at {address!r} ({line}); start one with 'ray start --head'") from None
    try:
        yield Cluster(ray, places, work)
    finally:
        ray.shutdown()
