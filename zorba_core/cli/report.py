"""``zorba report``: every claim of the paper, decided anew."""

from __future__ import annotations

from pathlib import Path

import typer

from zorba_core.cli.output import JSON_OPTION, emit


def report(
    folder: Path = typer.Option(Path("."), help="The checkout whose artifacts are read and written."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Decide every claim of the paper, from mathematics and from the tables of runs that are there, and write
    artifacts/claims.json and the table of artifacts/report/README.md."""
    from zorba_core.study.claims import FILE, PAGE, count, write_claims

    rows = write_claims(folder)
    verdicts = count(rows)
    lines = [f"{number:>4} {verdict}" for verdict, number in verdicts.items()]
    result = {"claims": len(rows), "verdicts": verdicts, "written": [folder / FILE, folder / PAGE]}
    emit(result, as_json, [f"{len(rows)} claims", *lines, *map(str, result["written"])])
