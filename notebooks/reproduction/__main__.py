"""``python -m notebooks.reproduction``: make the missing runs of the experiments, and decide the paper's claims.

It runs in the checkout."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from notebooks.reproduction.plans import plans
from notebooks.reproduction.sweep import FOLDER, BusyError, Plan, missing, read_table, run_plan
from zorba_core.cli import run
from zorba_core.cli.options import JSON_OPTION, add_command, emit
from zorba_core.errors import InvalidInputError

CLAIMS = "claims"


def reproduce(
    names: list[str] | None = typer.Argument(None, help="Experiments, as --list names them (default: all); or claims."),
    profile: str = typer.Option("cpu", help="cpu: hours of one core; gpu: the paper's 50 clients on one card."),
    base: str | None = typer.Option(None, help="Only the cells of this base model."),
    most: int | None = typer.Option(None, min=1, help="Make at most this many runs of each experiment."),
    minutes: float | None = typer.Option(None, min=0.0, help="Begin no run after so many minutes."),
    listing: bool = typer.Option(False, "--list", help="List the experiments and their missing runs; run nothing."),
    folder: Path = typer.Option(Path("."), help="Folder of the checkout, whose artifacts are read and written."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make the missing runs of the experiments, one after the other, and add each to its table in
    artifacts/experiments. Finished runs are skipped, an interrupted one resumes. Ctrl-C ends with status 1; the same
    command then continues. An experiment that another process is making is left to it.

    The name "claims" decides every claim of the paper from mathematics and these tables, and writes
    artifacts/claims.json and the table of artifacts/report/README.md.
    """
    known = plans(profile)
    asked = list(names or known)
    chosen = [name if name in known else f"{name}-{profile}" for name in asked if name != CLAIMS]
    for name in chosen:
        if name not in known:
            what = name.removesuffix(f"-{profile}")
            raise InvalidInputError(f"experiment {what!r} is unknown; choose one of {', '.join([*known, CLAIMS])}")
    until = math.inf if minutes is None else time.time() + 60 * minutes
    made = [_reproduced(known[name], folder / FOLDER, base, most, until, listing) for name in chosen]
    result: dict[str, Any] = {"profile": profile, "experiments": made}
    lines = [line for row in made for line in _lines(row)]
    if CLAIMS in asked and not listing:
        result["claims"] = _decided(folder)
        lines += [f"{number:>4} {verdict}" for verdict, number in result["claims"]["verdicts"].items()]
        lines += map(str, result["claims"]["written"])
    emit(result, as_json, lines)


def _reproduced(
    plan: Plan, folder: Path, base: str | None, most: int | None, until: float, listing: bool
) -> dict[str, Any]:
    """Make the missing runs of an experiment, unless ``listing``, and describe its table."""
    if base is not None:
        plan = replace(plan, cells=tuple(cell for cell in plan.cells if cell.base == base))
    if not listing:
        with contextlib.suppress(BusyError):
            run_plan(plan, folder=folder, scratch=folder / "work", most=most, until=until)
    table = read_table(plan.name, folder, missing_ok=True)
    by_run = table.drop_duplicates("config_sha256")
    return {
        "experiment": plan.name,
        "question": plan.question,
        "runs": len(by_run),
        "diverged": list(by_run["status"]).count("diverged"),
        "returned": list(by_run["status"]).count("returned"),
        "missing": len(missing(plan, table)),
        "table": str(folder / f"{plan.name}.parquet"),
    }


def _lines(row: dict[str, Any]) -> list[str]:
    diverged = "".join(f", {row[how]} of them {how}" for how in ("diverged", "returned") if row[how])
    return [
        f"{row['experiment']:<20} {row['question']}",
        f"{'':<20} {row['runs']} runs{diverged}; at least {row['missing']} are missing; {row['table']}",
    ]


def _decided(folder: Path) -> dict[str, Any]:
    from notebooks.reproduction.claims import FILE, PAGE, count, write_claims

    rows = write_claims(folder)
    return {"decided": len(rows), "verdicts": count(rows), "written": [folder / FILE, folder / PAGE]}


def build_app() -> typer.Typer:
    """The command, as :func:`zorba_core.cli.run` takes it."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    add_command(app, "reproduce", reproduce)
    return app


if __name__ == "__main__":
    run(build_app())
