"""``zorba report``: the ledger of claims from artifacts and solvers, and one HTML page of it."""

from __future__ import annotations

from pathlib import Path

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.files import check_target
from zorba_core.study.ledger import DEFAULT_LEDGER, VERDICTS, Ledger, write_ledger

DEFAULT_PAGE = Path("artifacts/report/index.html")


def report(
    checkout: Path = typer.Option(Path("."), help="The checkout whose artifacts are read."),
    out: Path = typer.Option(DEFAULT_LEDGER, help="The ledger to write."),
    html: bool = typer.Option(False, "--html", help="Also write one self-contained page, with figures."),
    page: Path = typer.Option(DEFAULT_PAGE, help="Where --html writes it."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Decide every claim of the paper anew and write the ledger. A missing artifact ends it, naming the command that
    makes it; runs of another engine version or config are named and left out."""
    from zorba_core.study.ledger.build import build_ledger

    for target in (out, page) if html else (out,):
        check_target(target)
    ledger = build_ledger(checkout)
    for line in ledger.provenance["left_out"]:
        typer.echo(f"left out: {line}", err=True)
    written = [out]
    if html:
        from zorba_core.report.page import write_page

        write_page(ledger, page, checkout)  # before the ledger: a page that fails leaves the old pair standing
        written.append(page)
    write_ledger(ledger, out)
    result = {"claims": len(ledger.claims), "verdicts": ledger.count(), "findings": ledger.count_findings()}
    emit(
        {**result, "written": written, "left_out": ledger.provenance["left_out"]},
        as_json,
        [*_lines(ledger), *map(str, written)],
    )


def _lines(ledger: Ledger) -> list[str]:
    rows, findings = ledger.count(), ledger.count_findings()
    contradicted = [
        f"  {claims[0].id:<44} {finding if claims[0].finding else claims[0].claim}"
        + (f" ({len(claims)} rows)" if len(claims) > 1 else "")
        for finding, claims in ledger.findings("contradicted").items()
    ]
    return [
        f"{len(ledger.claims)} rows",
        "  rows  findings",
        *[f"  {rows[verdict]:>4} {findings[verdict]:>9}  {verdict}" for verdict in VERDICTS],
        "contradicted:",
        *contradicted,
    ]
