"""The folders in which the dashboard looks for runs, experiments and the ledger."""

from __future__ import annotations

import os
from pathlib import Path

from zorba_core.runs import DEFAULT_FOLDER

ROOT = Path(__file__).resolve().parents[2]


def runs_folder() -> Path:
    """``ZORBA_RUNS``, or artifacts/runs of this checkout; absolute."""
    named = os.environ.get("ZORBA_RUNS")
    return Path(os.path.expanduser(named)).resolve() if named else ROOT / DEFAULT_FOLDER


def short(path: Path) -> str:
    """A path as people write it: from the checkout on, where it lies within."""
    try:
        return str(path.relative_to(ROOT))
    except ValueError:
        return str(path)


def experiments_folder() -> Path:
    """Tables of experiments: ``ZORBA_EXPERIMENTS``, or artifacts/experiments of this checkout; absolute."""
    named = os.environ.get("ZORBA_EXPERIMENTS")
    return Path(os.path.expanduser(named)).resolve() if named else ROOT / "artifacts" / "experiments"


def ledger_file() -> Path:
    """``ZORBA_LEDGER``, or artifacts/ledger.json of this checkout; absolute."""
    named = os.environ.get("ZORBA_LEDGER")
    return Path(os.path.expanduser(named)).resolve() if named else ROOT / "artifacts" / "ledger.json"
