"""``zorba doctor``: is everything here that training, the dashboard and the notebooks need?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.runs import DEFAULT_FOLDER

_MARKS = {"ok": "ok", "note": "note", "broken": "BROKEN"}


def doctor(
    runs_folder: Path = typer.Option(DEFAULT_FOLDER, help="Where runs are written."),
    verify: bool = typer.Option(False, "--verify", help="Check the files of --artifacts against their checksums."),
    artifacts: Path = typer.Option(Path("artifacts"), help="With --verify: the folder whose files are checked."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Check versions, PyTorch, data, the base model, Chromium and the runs folder; say how to fix each problem.

    With --verify read every run, table, ledger, model and benchmark below a folder instead, and say what to make again.
    Exit status 1 when something is broken that training needs; what is merely absent is listed and no failure.
    """
    from zorba_core.study.doctor import examine, version_line
    from zorba_core.study.verify import verify_folder

    findings, version = verify_folder(artifacts) if verify else examine(runs_folder), version_line()
    broken = [finding for finding in findings if finding.state == "broken"]
    lines, width = [version], max([16, *(len(finding.name) for finding in findings)])
    for finding in findings:
        lines.append(f"  {_MARKS[finding.state]:<7} {finding.name:<{width}} {finding.found}")
        if finding.cure:
            lines.append(f"  {'':<7} {'':<{width}} -> {finding.cure}")
    lines.append(f"{len(broken)} broken" if broken else "nothing is broken")
    emit({"version": version, "healthy": not broken, "findings": [asdict(f) for f in findings]}, as_json, lines)
    if broken:
        raise typer.Exit(1)
