"""``zorba runs``: the runs of a folder, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.runs import DEFAULT_FOLDER, Run, list_runs

_STATUS = {"target": "at target"}


def runs(
    folder: Path = typer.Argument(DEFAULT_FOLDER, help="The runs folder."),
    as_json: bool = JSON_OPTION,
) -> None:
    """List fine-tuning runs: rounds, accuracy and allocation. What cannot be read is named on stderr."""
    listing = list_runs(folder)
    for problem in listing.problems:
        typer.echo(f"skipped: {problem}", err=True)
    rows = [_row(run) for run in listing.runs]
    width = max([44, *(len(row["run"]) for row in rows)])
    lines = [f"{'run':<{width}} {'method':<8} {'status':<11} {'rounds':>6} {'best':>6} {'Lambda':>8} {'MB sent':>10}"]
    lines += [
        f"{row['run']:<{width}} {row['method']:<8} {row['status']:<11} {row['rounds_done']:>6} "
        f"{_number(row['best_accuracy'], '.3f'):>6} {row['lambda']:>8.3f} {_number(_megabytes(row), ',.3f'):>10}"
        for row in rows
    ]
    nothing = [f"no runs in {folder}; make one with: zorba train"]
    emit({"runs": rows, "problems": list(listing.problems)}, as_json, lines if rows else nothing)


def _row(run: Run) -> dict[str, Any]:
    accuracies = run.evaluations["eval_accuracy"]
    return {
        "run": run.name,
        "status": _STATUS.get(run.summary["stopped_by"], "finished") if run.finished else "unfinished",
        "method": run.config["method"],
        "dataset": run.config["dataset"],
        "model": run.config["model"],
        "seed": run.config["seed"],
        "rounds_done": run.rounds_done,
        "best_accuracy": float(accuracies.max()) if len(accuracies) else None,
        "rounds_to_target": run.summary.get("rounds_to_target"),
        "lambda": run.allocation.bias_lambda,
        "total_blocks": run.allocation.total_blocks,
        "work": int(run.work.max()) if len(run.rounds) else 0,
        "communication": run.summary.get("communication"),  # null for a run in progress
        "config": run.config,
    }


def _megabytes(row: dict[str, Any]) -> float | None:
    sent = row["communication"]
    return None if sent is None else (sent["up"]["wire_bytes"] + sent["down"]["wire_bytes"]) / 1e6


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
