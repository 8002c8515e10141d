"""``zorba doctor``: are versions, data and devices as the suite needs them?"""

from __future__ import annotations

from dataclasses import asdict

import typer

from zorba_core.cli.output import JSON_OPTION, emit

_MARKS = {"ok": "ok", "note": "note", "broken": "BROKEN"}


def doctor(as_json: bool = JSON_OPTION) -> None:
    """Check versions, PyTorch, devices and data; say how to fix each problem.

    Exit status 1 when something is broken that training needs; what is merely absent is listed and no failure.
    """
    from zorba_core.study.doctor import examine, version_line

    findings, version = examine(), version_line()
    broken = [finding for finding in findings if finding.state == "broken"]
    lines = [version]
    for finding in findings:
        lines.append(f"  {_MARKS[finding.state]:<7} {finding.name:<16} {finding.found}")
        if finding.cure:
            lines.append(f"  {'':<7} {'':<16} -> {finding.cure}")
    lines.append(f"{len(broken)} broken" if broken else "nothing is broken")
    emit({"version": version, "healthy": not broken, "findings": [asdict(f) for f in findings]}, as_json, lines)
    if broken:
        raise typer.Exit(1)
