"""Runs for the pages: the folder, the table, and the models in use."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.installed import runs_folder
from zorba_core.runs import Run, list_runs, read_run
from zorba_core.runs.folder import SUMMARY
from zorba_core.runs.log import LOG


def folder() -> Path:
    """Where runs are: ``ZORBA_RUNS``, else as for the command."""
    return runs_folder().absolute()


def listing() -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """The runs, newest first, and a line for each unreadable folder. Read again if a file has changed."""
    stamps = []
    for file in sorted(folder().glob("[!.]*/*")):
        with contextlib.suppress(OSError):
            facts = file.stat()
            stamps.append((str(file), facts.st_size, facts.st_mtime_ns))
    return _listing(str(folder()), hashlib.sha256(repr(stamps).encode()).hexdigest())


@st.cache_resource(max_entries=2, show_spinner="Reading runs …")
def _listing(place: str, digest: str) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    del digest  # part of the cache's key only
    listing = list_runs(place)
    return listing.runs, listing.problems


def is_finished(path: Path) -> bool:
    """Whether the run has finished."""
    return (path / SUMMARY).is_file()


def is_written(path: Path) -> bool:
    """Whether a process trains this run now: it holds the lock of the run's log."""
    try:
        with (path / LOG).open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def table(runs: Sequence[Run]) -> pd.DataFrame:
    """A row for each run: name, method, rows, Λ, VRAM, rounds, accuracy after the last evaluation and at its best,
    state."""
    return pd.DataFrame(
        {
            "run": [run.path.name for run in runs],
            "rows": [run.config.get("dataset", "") for run in runs],
            "method": [run.config.get("method", "zorba") for run in runs],
            "Λ": [run.allocation.bias_lambda for run in runs],
            "VRAM (GiB)": [run.summary.get("vram_gib", {}).get("total") for run in runs],
            "rounds": [run.rounds_done for run in runs],
            "accuracy (%)": [100 * last(run) for run in runs],
            "best (%)": [100 * best(run) for run in runs],
            "state": [state(run) for run in runs],
        }
    )


def state(run: Run) -> str:
    """``finished``, ``in progress`` or ``stopped``."""
    if run.finished:
        return "finished"
    return "in progress" if is_written(run.path) else "stopped"


def last(run: Run) -> float:
    """The accuracy of the last evaluation; NaN before the first."""
    values = run.metrics["eval_accuracy"].dropna()
    return float(values.iloc[-1]) if len(values) else math.nan


def best(run: Run) -> float:
    """The best accuracy of the evaluations; NaN before the first."""
    return math.nan if run.best_accuracy is None else run.best_accuracy


def metric_title(run: Run) -> str:
    """The metric of the run's evaluations: "Accuracy", or "Exact match" for written answers."""
    counted = str(run.environment.get("data", {}).get("metric", "accuracy")).replace("_", " ")
    return counted[0].upper() + counted[1:]


def delete(path: Path) -> None:
    """Remove the folder of a run, and nothing else.

    Raises:
        ZorbaError: it is no run of the runs folder, it is in progress, or it cannot be removed.
    """
    _check_own(path)
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise InvalidInputError(f"{path.name} cannot be removed: {error.strerror}") from None


def rename(path: Path, name: str) -> None:
    """Give the folder of a run another name.

    Raises:
        ZorbaError: the name is no name or taken, it is no run of the runs folder, or the run is in progress.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise InvalidInputError(f"{name!r} is no name of a run; use letters, digits, dots, dashes and underscores")
    _check_own(path)
    target = path.with_name(name)
    if target.exists():
        raise InvalidInputError(f"there is a run {name} already; choose another name")
    try:
        path.rename(target)
    except OSError as error:
        raise InvalidInputError(f"{path.name} cannot be renamed: {error.strerror}") from None


def _check_own(path: Path) -> None:
    """Check that the folder is a run of the runs folder that no process trains.

    Raises:
        ZorbaError: it is another folder, or the run is in progress.
    """
    if path.is_symlink() or path.resolve().parent != folder().resolve():
        raise InvalidInputError(f"{path.name} is not a folder in {folder()}; change it by hand")
    read_run(path)
    if is_written(path):
        raise InvalidInputError(f"{path.name} is in progress; stop it on the page Train first")


@st.cache_resource(max_entries=32, show_spinner="The model answers …")
def predict(path: Path, row: Mapping[str, str]) -> pd.DataFrame:
    """The row with ``prediction``, ``probability`` and, for the model before fine-tuning, the same as ``base_...``.

    Raises:
        ZorbaError: the model or its base cannot be loaded.
    """
    return read_run(path).predict(pd.DataFrame([dict(row)]), base=True)


@st.cache_resource(max_entries=8, show_spinner="Evaluating the model before and after fine-tuning …")
def evaluate(path: Path) -> Any:
    """The report on the run's own evaluation rows.

    Raises:
        ZorbaError: the model or the rows are not here.
    """
    return read_run(path).evaluate()


def differences(runs: Sequence[Run]) -> pd.DataFrame:
    """What is not the same in all runs: a row for each setting, or part of a setting, and for Λ and the VRAM; a column
    for each run."""
    facts = {run.path.name: flat(run.config) for run in runs}
    for run in runs:
        vram = run.summary.get("vram_gib", {}).get("total")
        facts[run.path.name] |= {"Λ": f"{run.allocation.bias_lambda:.4g}", "VRAM (GiB)": vram and f"{vram:.1f}"}
    names = list(dict.fromkeys(name for each in facts.values() for name in each))
    shown = {run: [_short(each.get(name)) for name in names] for run, each in facts.items()}
    frame = pd.DataFrame(shown, index=pd.Index(names, name="setting"))
    return frame.loc[frame.nunique(axis=1) > 1]


def flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings as one level: ``division.alpha``. The environment and the matrix are left out."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if name in ("environment", "blocks_per_client", "sha256"):
            continue
        if isinstance(value, Mapping):
            result |= flat(value, f"{before}{name}.")
        else:
            result[f"{before}{name}"] = value
    return result


def like(run: Run) -> str:
    """What runs have in common that differ only in their seed: equal strings."""
    drawn = ("allocation.budgets", "allocation.capacity_gib")
    settings = {name: value for name, value in flat(run.config).items() if name not in drawn}
    alike = {name: value for name, value in settings.items() if name.rpartition(".")[2] != "seed"}
    return json.dumps(alike, sort_keys=True, default=str)


def _short(value: Any) -> str:
    text = "–" if value is None else json.dumps(value) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def error_of(work: Any, *arguments: Any) -> tuple[Any, str]:
    """``work``'s result and no error, or None and its error as a sentence."""
    try:
        return work(*arguments), ""
    except ZorbaError as error:
        return None, str(error)
