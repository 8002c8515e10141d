"""``zorba runs``: the runs of a folder, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.runs import DEFAULT_FOLDER, Run, list_runs

_STATUS = {"target": "at target", "interrupt": "interrupted"}


def register(app: typer.Typer) -> None:
    app.command("runs")(runs)


def runs(
    folder: Path = typer.Argument(DEFAULT_FOLDER, help="The runs folder."),
    as_json: bool = JSON_OPTION,
) -> None:
    """List fine-tuning runs: how far each came, its accuracy and its allocation. Unreadable entries go to stderr."""
    listing = list_runs(folder)
    for problem in listing.problems:
        typer.echo(f"skipped: {problem}", err=True)
    rows = [_row(run) for run in listing.runs]
    lines = [
        f"{'run':<44} {'method':<8} {'status':<11} {'rounds':>6} {'best':>6} {'to target':>9} {'Lambda':>8} "
        f"{'MB sent':>10}"
    ]
    lines += [
        f"{row['run']:<44} {row['method']:<8} {row['status']:<11} {row['rounds_done']:>6} "
        f"{_number(row['best_accuracy'], '.3f'):>6} {_number(row['rounds_to_target'], 'd'):>9} {row['lambda']:>8.3f} "
        f"{_number(_megabytes(row), ',.3f'):>10}"
        for row in rows
    ]
    if not rows:
        lines = [f"no runs in {folder}; make one with: zorba train"]
    emit({"runs": rows, "problems": list(listing.problems)}, as_json, lines)


def _row(run: Run) -> dict[str, Any]:
    accuracy = run.evaluations["eval_accuracy"]
    return {
        "run": run.name,
        "status": _STATUS.get(run.summary.get("stopped_by"), "finished") if run.finished else "unfinished",
        "method": run.config["method"],
        "dataset": run.config.get("dataset"),
        "model": run.config.get("model"),
        "seed": run.config.get("seed"),
        "rounds_done": int(run.metrics["round"].max()) if len(run.metrics) else 0,
        "best_accuracy": float(accuracy.max()) if len(accuracy) else None,
        "rounds_to_target": run.summary.get("rounds_to_target"),
        "lambda": run.allocation.bias_lambda,
        "total_blocks": run.allocation.total_blocks,
        "work": int(run.work.max()) if len(run.metrics) else 0,
        "communication": run.communication,  # null for a run that goes on
    }


def _megabytes(row: dict[str, Any]) -> float | None:
    sent = row["communication"]
    return None if sent is None else (sent["up"]["wire_bytes"] + sent["down"]["wire_bytes"]) / 1e6


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
