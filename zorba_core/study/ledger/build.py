"""Build the ledger from solvers, the VRAM model and the experiments' tables. No value in it is typed by hand."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import zorba_core
from zorba_core.engine import ENGINE_VERSION
from zorba_core.runs.environment import git_says
from zorba_core.study.experiments import EXPERIMENTS, read_results
from zorba_core.study.experiments.store import Results
from zorba_core.study.ledger import (
    communication_rows,
    convergence_rows,
    front_rows,
    memory_rows,
    method_rows,
    theory_rows,
    toy_rows,
)
from zorba_core.study.ledger.claims import Ledger
from zorba_core.study.ledger.verdicts import PROFILE


def build_ledger(checkout: str | os.PathLike[str] = ".") -> Ledger:
    """Every claim in the paper's order, decided from what the checkout's artifacts hold. Some 20 s of one core.

    Raises:
        MissingDataError: an artifact is not there; names the command that makes it.
        InvalidInputError: an artifact is damaged, or a row has no evidence.
    """
    checkout = Path(checkout)
    root = checkout / "artifacts" / "experiments"
    results = {name: read_results(name, PROFILE, root) for name in EXPERIMENTS}
    claims = (
        *memory_rows.rows(checkout),
        *theory_rows.rows(),
        *toy_rows.rows(),
        *front_rows.rows(checkout),
        *method_rows.rows(results["tables"]),
        *convergence_rows.rows(results),
        *communication_rows.rows(),
    )
    return Ledger(_provenance(checkout, results), claims)


def _provenance(checkout: Path, results: dict[str, Results]) -> dict[str, Any]:
    return {
        "made_by": "zorba report",
        "zorba_core": zorba_core.__version__,
        "engine_version": ENGINE_VERSION,
        "git_commit": git_says(checkout, "rev-parse", "HEAD"),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "experiments": {
            name: {
                "profile": PROFILE,
                "runs": len(experiment.runs),
                "missing": experiment.missing,
                "diverged": int((experiment.runs["status"] == "failed").sum()),
                "core_hours": round(float(experiment.runs["seconds"].sum()) / 3600, 2),
                "machines": sorted(experiment.runs["machine"].dropna().unique().tolist()),
                "commits": sorted(experiment.runs["git_commit"].dropna().unique().tolist()),
                "data_notes": sorted(note for note in experiment.runs["data_note"].dropna().unique().tolist() if note),
            }
            for name, experiment in results.items()
        },
        "left_out": [line for experiment in results.values() for line in experiment.left_out],
    }
