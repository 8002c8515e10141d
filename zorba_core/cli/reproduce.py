"""``zorba reproduce``: run what is missing of the experiments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError
from zorba_core.study.plans import plans
from zorba_core.study.sweep import FOLDER, missing, read_table, sweep


def reproduce(
    names: list[str] | None = typer.Argument(None, help="Experiments; default: all, as --list names them."),
    profile: str = typer.Option("cpu", help="cpu: hours of one core; gpu: the paper's 50 clients on one card."),
    base: str | None = typer.Option(None, help="Only the cells of this base model."),
    most: int | None = typer.Option(None, min=1, help="Stop after so many runs of each experiment."),
    listing: bool = typer.Option(False, "--list", help="Say what there is and what is missing; run nothing."),
    folder: Path = typer.Option(FOLDER, help="Where the tables are; run folders go to its subfolder work."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Run the missing runs of experiments, one after the other, and add each to its table. Finished runs are skipped,
    an interrupted one resumes.

    Ctrl-C stops after the round at hand and exits with status 1; the same command continues.
    """
    known = plans(profile)
    chosen = [name if name in known else f"{name}-{profile}" for name in names or known]
    for name, asked in zip(chosen, names or known, strict=True):
        if name not in known:
            raise InvalidInputError(f"experiment {asked!r} is unknown; choose one of {', '.join(known)}")
    rows = []
    for name in chosen:
        plan = known[name]
        if base is not None:
            plan = replace(plan, cells=tuple(cell for cell in plan.cells if cell.base == base))
        if listing:
            table = read_table(name, folder, missing_ok=True)
        else:
            table = sweep(plan, folder=folder, scratch=folder / "work", most=most)
        by_run = table.drop_duplicates("config_sha256")
        rows.append(
            {
                "experiment": name,
                "question": plan.question,
                "runs": len(by_run),
                "diverged": int((by_run["status"] == "diverged").sum()),
                "missing": len(missing(plan, table)),
                "table": str(folder / f"{name}.parquet"),
            }
        )
    emit({"profile": profile, "experiments": rows}, as_json, [line for row in rows for line in _lines(row)])


def _lines(row: dict) -> list[str]:
    diverged = f", {row['diverged']} of them diverged" if row["diverged"] else ""
    return [
        f"{row['experiment']:<12} {row['question']}",
        f"{'':<12} {row['runs']} runs{diverged}; at least {row['missing']} are missing; {row['table']}",
    ]
