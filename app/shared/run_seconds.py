"""How long a run will take on this machine, corrected by those that ended here. No Streamlit here.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from app.shared import engine_costs
from zorba_core.data.tasks import FIELD, TASKS, Task
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import ZorbaError
from zorba_core.planning.memory import Workload
from zorba_core.planning.methods import method_facts
from zorba_core.planning.shapes import ModelShape, model_shape
from zorba_core.runs import SUMMARY, read_request, read_summary
from zorba_core.runs.model_source import resolve_model
from zorba_core.runs.run_estimate import RunEstimate, estimate_run, pace_of

_COUNTED = (None, "cohort", "exact")  # estimators whose rounds are counted
TEST_ROWS = 400  # of a task whose size is not known before it is read
_NEWEST = 12  # run folders that are looked at
_BUSY, _YOUNG_S = 0.5, 5.0  # of a core; seconds below which a process is only starting
_SAMPLED, _LONGEST = 300, 0.98  # rows whose length is counted; of them, the longest that a round meets


def estimate(
    model: str, A_MN: NDArray[np.bool_], options: Mapping[str, Any], task: Task | None, runs_folder: Path
) -> RunEstimate:
    """Of ``zorba train`` with these options.

    Raises:
        ZorbaError: the model is not here.
    """
    return _estimate(model, A_MN, options, task, pace(runs_folder))


def _estimate(
    model: str, A_MN: NDArray[np.bool_], options: Mapping[str, Any], task: Task | None, pace: float
) -> RunEstimate:
    facts = method_facts(str(options.get("method") or "zorba"))
    most = int(options.get("seq_len") or TrainSettings.seq_len)
    rows, longest, usual = _rows(task, model)
    return estimate_run(
        _shape(model),
        Workload(int(options.get("batch_size") or TrainSettings.batch_size), min(longest, most)),
        engine_costs.calibration(),
        A_MN=A_MN,
        num_perturbations=int(
            options.get("perturbations") or options.get("num_perturbations") or facts.default_directions or 1
        ),
        rounds=int(options["rounds"]),
        eval_every=int(options.get("eval_every") or TrainSettings.eval_every),
        eval_rows=int(options.get("eval_rows") or rows),
        eval_len=min(usual, most),
        method=facts.name,
        estimator=str(options.get("estimator") or TrainSettings.estimator),
        pace=pace,
    )


@functools.lru_cache(maxsize=32)
def _shape(model: str) -> ModelShape:
    return model_shape(resolve_model(model))


@functools.lru_cache(maxsize=16)
def _rows(task: Task | None, model: str) -> tuple[int, int, float]:
    """(rows to evaluate on, length of the longest row in a round, mean length), in tokens, from a sample of the rows.
    Lengths beyond any limit where they are not known: the run's own limit then counts."""
    unknown = (TEST_ROWS, 10**6, 1e6)
    if task is None:
        return unknown
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(Path(resolve_model(model)) / "tokenizer.json"))
        frame = task.rows.read(task, "validation")
    except Exception:  # rows or a tokenizer that only the run itself can read: an estimate is not worth an error
        return unknown
    sample = frame.iloc[:: max(1, len(frame) // _SAMPLED)]
    texts = [FIELD.sub(lambda field, row=row: str(row.get(field[1], "")), task.prompt) for _, row in sample.iterrows()]
    lengths = [len(encoded.ids) for encoded in tokenizer.encode_batch(texts)]
    return len(frame), max(1, int(np.quantile(lengths, _LONGEST))), max(1.0, float(np.mean(lengths)))


def pace(runs_folder: Path) -> float:
    """How many times as long as counted a run takes here now, by those that ended and by what else is running."""
    return pace_of(_ratios(runs_folder), _load(), os.cpu_count() or 1)


def _load() -> float:
    """Cores that other processes want: of the last minute, a page that is drawn being one of them, but no more than
    there are processes at work now."""
    try:
        return max(0.0, min(os.getloadavg()[0] - 1.0, _at_work()))
    except OSError:
        return 0.0


def _at_work() -> float:
    """Cores of the other processes that compute now and have used more than half a core since they began."""
    now, cores = time.time(), 0.0
    for process in psutil.process_iter(["status", "cpu_times", "create_time"]):
        status, used, began = (process.info[key] for key in ("status", "cpu_times", "create_time"))
        if process.pid == os.getpid() or status != psutil.STATUS_RUNNING or None in (used, began):
            continue
        age = now - began
        share = (used.user + used.system) / max(age, _YOUNG_S)
        cores += share if share > _BUSY else 0.0
    return cores


def _ratios(runs_folder: Path) -> Iterator[float]:
    try:
        folders = [entry for entry in runs_folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
        newest = sorted(folders, key=lambda folder: -folder.stat().st_mtime)[:_NEWEST]
    except OSError:
        return
    for folder in newest:
        summary = folder / SUMMARY
        if summary.is_file():
            ratio = _ratio(folder, summary.stat().st_mtime_ns)
            if ratio is not None:
                yield ratio


@functools.lru_cache(maxsize=256)
def _ratio(folder: Path, modified: int) -> float | None:
    """Seconds that the rounds of a finished run took, over those counted; None for a run of another kind."""
    del modified  # part of the cache's key only
    try:
        request = read_request(folder)
        config, summary = request.config, read_summary(folder)
        if config.get("federation") or config.get("estimator") not in _COUNTED:
            return None
        done, seconds = int(summary["rounds_done"]), float(summary["seconds"])
        task = TASKS.get(str(config.get("dataset")))
        counted = _estimate(str(config["model"]), request.allocation.A_MN, {**config, "rounds": done}, task, 1.0)
        return seconds / (done * counted.round) if done >= 3 else None
    except (ZorbaError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
