"""Write a run: its folder with the config, a line of the log for each round, and the summary.

New, resumed and federated runs all use these functions. The config records the versions and the kind of processor
that repeating the run needs; it names no machine and no person.

Shapes: N clients, T rounds, K statuses of a report.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zorba_core.engine import ENGINE_VERSION
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.communication import run_communication
from zorba_core.engine.course import Course, is_over
from zorba_core.engine.loop import Training, TrainState, run_rounds
from zorba_core.engine.parts import method_facts
from zorba_core.engine.reports import NOT_ASKED, REPORTED, SILENT, STATUSES
from zorba_core.engine.round import Round
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.files import fingerprint, write_json
from zorba_core.runs.folder import BACKWARD_WORK, SUMMARY, TOTALS
from zorba_core.runs.log import CONFIG, Log
from zorba_core.runs.replay import saves_weights, write_weights
from zorba_core.runs.request import ResolvedRequest, check_name
from zorba_core.version import __version__
from zorba_core.vram import GIB, Workload, psi_client_bytes, psi_model_bytes, spec_of_model

_CHANGES = ("status", "--porcelain", "--", ".", ":(exclude)artifacts/experiments")
_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pandas", "pyarrow", "scipy")
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Callback:
    """Called during a run. If it raises, the run ends; its folder can be resumed."""

    def on_start(self, folder: Path) -> None:
        """Called once, when everything is loaded and checked and the run folder exists."""

    def on_round(self, done: Round) -> None:
        """Called after each round: it is in the log, and the network has its weights. Round 0 evaluates the base."""


def begin(
    request: ResolvedRequest,
    network: Blocks,
    *,
    name: str | None = None,
    data: Mapping[str, Any],
    checks: Mapping[str, Any],
    token: str | None = None,
) -> Path:
    """Make the folder of a new run, with its config.

    Args:
        network: the base model.
        name: how the folder's name begins; default: the request's.
        data: fingerprints of the rows, and facts about them (:mod:`zorba_core.runs.load`).
        checks: measured by preflight.
        token: of a federated run: the id in its messages.

    Raises:
        InvalidInputError: the name, or the folder that holds the runs, cannot be used.
    """
    environment = {
        **environment_of(request.settings),
        **({} if token is None else {"federation_run": token}),
        "base_weights_sha256": network.weights_sha256(),
        "data": data,
        "preflight": checks,
    }
    return new_folder(request.runs_folder, name or request.run_name, request.to_config(), environment)


def new_folder(
    runs_folder: str | os.PathLike[str], name: str, config: dict[str, Any], environment: dict[str, Any]
) -> Path:
    """Make a run folder that did not exist before, with its config. Two runs that start together get two folders.

    Raises:
        InvalidInputError: the folder cannot be made.
    """
    # The folder of a run on a user's rows has their columns, labels and scalars: only its owner may read it.
    private = "task" in config or "federation" in config
    runs_folder, name = Path(runs_folder), f"{check_name(name)}-{fingerprint(config)[:8]}"
    try:
        runs_folder.mkdir(parents=True, exist_ok=True)
        path, attempt = runs_folder / name, 1
        while not _made(path, mode=0o700 if private else 0o777):
            attempt += 1
            path = runs_folder / f"{name}-{attempt}"
        write_json(path / CONFIG, {**config, "environment": environment})
        return path
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise InvalidInputError(f"runs folder {str(runs_folder)!r} cannot be used: {error.strerror}") from None


def _made(folder: Path, mode: int) -> bool:
    """Make the folder; False if it exists."""
    try:
        folder.mkdir(mode)
    except FileExistsError:
        return False
    return True


def complete(
    path: Path,
    log: Log,
    training: Training,
    callbacks: Sequence[Callback] = (),
    *,
    state: TrainState | None = None,
    finish: Callable[[], dict[str, Any]] = dict,
) -> None:
    """Train from the end of the log to the last round, then write the summary.

    Args:
        training: with the weights after the log's last round.
        state: of a resumed run, after that round.
        finish: called after the last round; its result is added to the summary.
    """
    for callback in callbacks:
        callback.on_start(path)
    memory, course = MemoryMeter(training.settings.device), Course(log.rounds)
    with memory_errors():
        for done in run_rounds(training, state, tuple(log.rounds)):
            log.append(done)
            course.add(done)
            if saves_weights(training.settings) and done.round and done.weights_sha256:
                now = course.weights(is_over(done, training.settings))
                write_weights(path, training.network, now, training.best)
            for callback in callbacks:
                callback.on_round(done)
    write_json(path / SUMMARY, {**summarise(training, log.rounds, memory.describe()), **finish()})


def summarise(training: Training, rounds: Sequence[Round], measured: Mapping[str, Any]) -> dict[str, Any]:
    """The content of ``summary.json``.

    Args:
        training: after the last round.
        rounds: all rounds, round 0 included.
        measured: the peak memory.
    """
    settings, network, allocation = training.settings, training.network, training.allocation
    evaluated = [done for done in rounds if done.eval_accuracy is not None]
    best = max(evaluated, key=lambda done: done.eval_accuracy or 0.0)  # the first of equals
    final, target = rounds[Course(rounds).final], settings.target
    reached = [done.round for done in evaluated if target is not None and (done.eval_accuracy or 0.0) >= target]
    total = {name: sum(getattr(done, name) for done in rounds) for name in TOTALS}
    count_KN = _count_reports(rounds, allocation.num_clients)
    workload = Workload(batch_size=settings.batch_size, seq_len=settings.seq_len)
    spec, trained = spec_of_model(network.model, name="model"), sum(network.sizes_M)
    if network.has_adapters:
        spec = replace(spec, num_parameters=spec.num_parameters + trained)
    vram_N_bytes = psi_client_bytes(spec, workload, allocation.blocks_held_N)
    if method_facts(settings.method).first_order:
        vram_N_bytes = vram_N_bytes + psi_model_bytes(spec, workload)  # the gradients
    sent_reports = int(count_KN.sum() - count_KN[[NOT_ASKED, SILENT]].sum())
    sent = run_communication(
        settings.method,
        allocation.A_MN,
        rounds=rounds[-1].round,
        reports=sent_reports,
        usable_reports=int(count_KN[REPORTED].sum()),
        num_directions=settings.directions,
        num_seeds=settings.num_seeds,
        parameters=trained if network.has_adapters else spec.num_parameters,
        block_parameters=trained,
        bytes_per_number=workload.bytes_per_number,
    )
    return {
        "method": settings.method,
        "stopped_by": "target" if reached else "rounds",
        "rounds_done": rounds[-1].round,
        "initial_accuracy": evaluated[0].eval_accuracy,
        "final_accuracy": final.eval_accuracy,
        "final_loss": final.eval_loss,
        "final_round": final.round,
        "best_accuracy": best.eval_accuracy,
        "best_round": best.round,
        "target": target,
        "rounds_to_target": reached[0] if reached else None,
        "lambda": allocation.bias_lambda,
        "mean_inverse_popularity": allocation.mean_inverse_popularity,
        "effective_clients": allocation.effective_clients,
        "total_blocks": allocation.total_blocks,
        "memory": {"psi_bytes": float(vram_N_bytes.max()), "measured": dict(measured)},
        "vram_gib": {"total": float(vram_N_bytes.sum()) / GIB, "per_client": vram_N_bytes / GIB},
        **total,
        "client_forward_passes": sent_reports * (settings.directions + 1) if settings.directions else 0,
        "work": total["forward_passes"] + BACKWARD_WORK * total["backward_passes"],
        "communication": sent.describe(),
        "reports": _describe_reports(count_KN),
        "weights_sha256": network.weights_sha256(),
    }


def _count_reports(rounds: Sequence[Round], num_clients: int) -> np.ndarray:
    """The number of rounds in which each client had each of the K statuses: (K, N)."""
    count_KN = np.zeros((len(STATUSES), num_clients), dtype=np.int64)
    for done in rounds:
        count_KN[done.status_N, np.arange(len(done.status_N))] += 1
    return count_KN


def _describe_reports(count_KN: np.ndarray) -> dict[str, Any]:
    refused_N = count_KN[NOT_ASKED + 1 :].sum(axis=0) - count_KN[SILENT]
    by_status = zip(STATUSES, count_KN.sum(axis=1), strict=True)
    return {
        **{status.replace(" ", "_"): int(count) for status, count in by_status},
        "refused_by_client": {int(n): int(refused_N[n]) for n in np.flatnonzero(refused_N)},
    }


def environment_of(settings: Settings) -> dict[str, Any]:
    """Versions, commit, device and seed, for a run's config."""
    commit, dirty = _git_state()
    on_cuda = settings.device == "cuda"
    return {
        "zorba_core": __version__,
        "engine_version": ENGINE_VERSION,  # runs of one config have equal bits only if this is equal
        "git_commit": commit,
        "git_dirty": dirty,
        "python": platform.python_version(),
        **_versions(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu_capability": _cpu_kernels(),  # changes the last bits
        "device": torch.cuda.get_device_name() if on_cuda else "cpu",
        "threads": torch.get_num_threads(),
        "seed": settings.seed,
    }


@functools.cache
def _cpu_kernels() -> str:
    """The kernels that compute matrix products on this CPU: ``AVX512``, or ``AVX512 of AuthenticAMD``, since MKL takes
    other kernels on a CPU that is not Intel's."""
    capability, cpus = torch.backends.cpu.get_cpu_capability(), Path("/proc/cpuinfo")
    maker = re.search(r"^vendor_id\s*:\s*(\S+)", cpus.read_text("utf-8") if cpus.is_file() else "", re.MULTILINE)
    return capability if maker is None or maker[1] == "GenuineIntel" else f"{capability} of {maker[1]}"


@functools.cache
def _versions() -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in _PACKAGES}


def _git_state() -> tuple[str | None, bool | None]:
    """(commit, whether there are uncommitted changes) of this package's checkout; (None, None) where there is none.

    Tables of experiments do not count as changes: a sweep writes them while it runs.
    """
    root = Path(__file__).resolve().parents[2]
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root:  # installed within another project's checkout
        return None, None
    commit, changes = _git(root, "rev-parse", "HEAD"), _git(root, *_CHANGES)
    return commit, None if changes is None else bool(changes)


def _git(root: Path, *arguments: str) -> str | None:
    """The output of git in the checkout at ``root``; None where git is missing or fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


class MemoryMeter:
    """The peak memory of the rounds, in bytes. Make it when model and rows are loaded; read it after the last round.

    On CUDA it is the allocator's peak. On the CPU it is the growth of the resident set, which Linux's /proc reports:
    without the parameters, and without pages that loading freed and the rounds used again.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._before: int | None = None
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            return
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # return freed pages: rounds that reuse them would seem to need less
        try:
            _CLEAR.write_text("5")  # reset the high-water mark
        except OSError:
            return
        self._before = _status("VmRSS")

    def describe(self) -> dict[str, Any]:
        """``{"bytes": ..., "what": ...}``; bytes is None if it cannot be measured."""
        if self._device == "cuda":
            return {"bytes": torch.cuda.max_memory_allocated(), "what": "CUDA, most allocated at once"}
        before, high = self._before, _status("VmHWM")
        what = "CPU, growth of the resident set above the loaded model"
        return {"bytes": None if high is None or before is None else max(0, high - before), "what": what}


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Context manager: turn a failed allocation into a RunError of one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise RunError("out of memory; free some, or use a smaller batch_size, seq_len or model") from None
        raise


def _status(field: str) -> int | None:
    """A field of /proc/self/status, in bytes; None where it is missing."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return int(values[0]) * 1024 if values else None
