"""What needs a run's model, computed beside the page: one thing at a time, and the last results stay.

A page asks and gets an answer or None, and asks again a moment later; no session waits for another's computation. At
most one run's model is in memory (:func:`zorba_core.runs.use.open_tuned`), and nothing leaves the machine.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import streamlit as st

PATIENCE_SECONDS = 0.6  # a model in memory answers sooner, and then nothing has to be asked again
_WORKERS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zorba-model")
_FILES = ("summary.json", "trajectory.log", "model/model.safetensors")


def answer(folder: Path, row: dict[str, str]) -> Future[Any]:
    """:class:`zorba_core.runs.use.predicting.Predictions` of one row, by base and fine-tuned model."""
    return _answer(str(folder), _stamp(folder), tuple(row.items()))


def evaluation(folder: Path) -> Future[Any]:
    """:class:`zorba_core.runs.use.evaluating.EvaluationReport` on the run's own evaluation rows."""
    return _evaluation(str(folder), _stamp(folder))


def when_done(future: Future[Any]) -> Any | None:
    """The result; None while it is being computed.

    Raises:
        ZorbaError: why there is none. It is asked for anew the next time.
    """
    with contextlib.suppress(concurrent.futures.TimeoutError):
        return future.result(PATIENCE_SECONDS)
    return None


def forget() -> None:
    """Compute anew what failed."""
    _answer.clear()
    _evaluation.clear()


@st.cache_resource(max_entries=32, show_spinner=False)
def _answer(folder: str, stamp: tuple, items: tuple[tuple[str, str], ...]) -> Future[Any]:
    del stamp  # part of the cache's key only

    def compute() -> Any:
        from zorba_core.runs.use import predict

        return predict(folder, dict(items), base=True)

    return _submit(compute)


@st.cache_resource(max_entries=8, show_spinner=False)
def _evaluation(folder: str, stamp: tuple) -> Future[Any]:
    del stamp

    def compute() -> Any:
        from zorba_core.runs.use import evaluate_run

        return evaluate_run(folder)

    return _submit(compute)


def _submit(compute: Callable[[], Any]) -> Future[Any]:
    return _WORKERS.submit(compute)


def _stamp(folder: Path) -> tuple:
    """Changes with what the model is made of."""
    files = [folder / name for name in _FILES]
    return tuple(file.stat().st_mtime_ns if file.is_file() else 0 for file in files)
