"""``zorba runs``: the runs of a folder, newest first, or of an experiment's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import MissingDataError
from zorba_core.runs import CONFIG, DEFAULT_FOLDER, Run, list_runs
from zorba_core.runs.folder import METRICS

_STATUS = {"target": "at target", "interrupt": "interrupted"}


def runs(
    folder: Path | None = typer.Argument(
        None, help=f"The runs folder, or with --experiment that of experiments.  [default: {DEFAULT_FOLDER}]"
    ),
    experiment: str | None = typer.Option(None, help="Runs of this experiment's tables instead of a folder's."),
    profile: str = typer.Option("standard", help="Of the experiment."),
    only: list[str] = typer.Option([], help="Only the run of this name; may be given several times."),
    as_json: bool = JSON_OPTION,
) -> None:
    """List fine-tuning runs: how far each came, its accuracy and its allocation. Unreadable entries go to stderr."""
    if experiment is None:
        folder = DEFAULT_FOLDER if folder is None else folder
        listing = list_runs(folder)
        rows, problems = [_row(run) for run in listing.runs], list(listing.problems)
        nothing = f"no runs in {folder}; make one with: zorba train"
        unreadable = {} if only else _unreadable(folder, rows, problems)
    else:
        rows, problems = _of_experiment(experiment, profile, folder)
        unreadable, nothing = (
            {},
            f"no runs of {experiment} yet; make them with: zorba experiment {experiment} --profile {profile}",
        )
    for problem in problems:
        typer.echo(f"skipped: {problem}", err=True)
    rows = _named(rows, only)
    width = max([44, *(len(row["run"]) for row in rows), *map(len, unreadable)])
    lines = [
        f"{'run':<{width}} {'method':<8} {'status':<11} {'rounds':>6} {'best':>6} {'to target':>9} {'Lambda':>8} "
        f"{'MB sent':>10}"
    ]
    lines += [
        f"{row['run']:<{width}} {row['method']:<8} {row['status']:<11} {row['rounds_done']:>6} "
        f"{_number(row['best_accuracy'], '.3f'):>6} {_number(row['rounds_to_target'], 'd'):>9} "
        f"{_number(row['lambda'], '.3f'):>8} {_number(_megabytes(row), ',.3f'):>10}"
        for row in rows
    ]
    lines += [f"{name:<{width}} {'-':<8} {status:<11}" for name, status in unreadable.items()]
    emit({"runs": rows, "problems": problems}, as_json, lines if rows or unreadable else [nothing])


def _unreadable(folder: Path, rows: list[dict[str, Any]], problems: list[str]) -> dict[str, str]:
    """The run folders that could not be read, with their status: they have a row too, so that none seems to be gone."""
    if not problems:
        return {}
    readable = {row["run"] for row in rows}
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return {
        name: "damaged" if (folder / name / METRICS).is_file() else "cut short"
        for name in names
        if name not in readable and (folder / name / CONFIG).is_file()
    }


def _named(rows: list[dict[str, Any]], only: list[str]) -> list[dict[str, Any]]:
    """The rows asked for, in the order asked for; all without ``only``."""
    if not only:
        return rows
    by_name = {row["run"]: row for row in rows}
    for name in only:
        if name not in by_name:
            raise MissingDataError(f"there is no run {name!r} here; without --only the command names all of them")
    return [by_name[name] for name in only]


def _of_experiment(name: str, profile: str, root: Path | None) -> tuple[list[dict[str, Any]], list[str]]:
    from zorba_core.study.comparison import experiment_records

    listing = experiment_records(name, profile, root)
    rows = []
    for record in listing.records:
        outcome = record.outcome
        rows.append(
            {
                "run": record.name,
                "status": record.status,
                "method": record.method,
                "dataset": record.config["dataset"],
                "model": record.config["model"],
                "seed": record.config["seed"],
                "rounds_done": int(outcome["rounds"] or 0),
                "best_accuracy": outcome["best"],
                "rounds_to_target": None if outcome["to_target"] is None else int(outcome["to_target"]),
                "lambda": outcome["lambda"],
                "total_blocks": outcome["total_blocks"],
                "work": outcome["work"],
                "sent_bytes": outcome["bytes"],
                "config": record.config,
            }
        )
    return rows, list(listing.problems)


def _row(run: Run) -> dict[str, Any]:
    # Arrays: of thousands of runs, the tables' own operations take longer than reading them.
    metrics = {name: run.metrics[name].to_numpy() for name in ("round", "eval_accuracy")}
    accuracy = metrics["eval_accuracy"][~np.isnan(metrics["eval_accuracy"])]
    return {
        "run": run.name,
        "status": _STATUS.get(run.summary.get("stopped_by"), "finished") if run.finished else "unfinished",
        "method": run.config["method"],
        "dataset": run.config.get("dataset"),
        "model": run.config.get("model"),
        "seed": run.config.get("seed"),
        "rounds_done": int(metrics["round"].max()) if len(run.metrics) else 0,
        "best_accuracy": float(accuracy.max()) if len(accuracy) else None,
        "rounds_to_target": run.summary.get("rounds_to_target"),
        "lambda": run.allocation.bias_lambda,
        "total_blocks": run.allocation.total_blocks,
        "work": int(run.work_P.max()) if len(run.metrics) else 0,
        "communication": run.communication,  # null for a run in progress
        "config": run.config,
    }


def _megabytes(row: dict[str, Any]) -> float | None:
    if "sent_bytes" in row:
        return None if row["sent_bytes"] is None else row["sent_bytes"] / 1e6
    sent = row["communication"]
    return None if sent is None else (sent["up"]["wire_bytes"] + sent["down"]["wire_bytes"]) / 1e6


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
