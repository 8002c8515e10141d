"""Every claim of the paper that can be checked, with its verdict. Functions compute the verdicts.

:func:`write_claims` writes ``artifacts/claims.json``, and ``artifacts/experiments/advice.json`` (what should I run),
and both into ``artifacts/report/README.md``, whose findings about the paper are written by hand. The claims are in four
modules: mathematics (``claims_theory``), proven optima (``claims_allocation``), counting (``claims_tables``) and runs
(``claims_runs``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from notebooks.reproduction import advice, claims_allocation, claims_runs, claims_tables, claims_theory
from notebooks.reproduction.outcome import CLAIMS, DecidedClaim, Verdict
from zorba_core.errors import MissingDataError
from zorba_core.files import write_json, write_text

FILE, PAGE = Path("artifacts/claims.json"), Path("artifacts/report/README.md")
PARTS = {  # each part of the page's table, by its title: the module of its claims
    "Memory, rounds and messages": claims_tables.__name__,
    "Theory": claims_theory.__name__,
    "Allocation": claims_allocation.__name__,
    "Training": claims_runs.__name__,
}
_TABLE_BEGINS = "## All claims"
_ANSWERS = {Verdict.IN_SHAPE: "seen here", Verdict.NOT_SEEN: "not seen here", Verdict.UNDECIDED: "undecided"}
_AFTER_ADVICE = "Results of removed parts: [removed.md](removed.md)."


def decide(folder: str | os.PathLike[str] = ".") -> list[DecidedClaim]:
    """Decide every claim from mathematics and the tables in ``folder/artifacts``."""
    claims = [claim for module in PARTS.values() for claim in CLAIMS.values() if claim.decide.__module__ == module]
    return [claim.outcome(Path(folder)) for claim in claims]


def write_claims(folder: str | os.PathLike[str] = ".") -> list[DecidedClaim]:
    """Decide every claim and write the JSON file and the page's table, both below ``folder``.

    Raises:
        MissingDataError: there is no page to add the table to.
    """
    folder = Path(folder)
    page = folder / PAGE
    if not page.is_file():
        raise MissingDataError(f"{page} does not exist; restore it: its findings are written by hand")
    rows = decide(folder)
    write_json(folder / FILE, [asdict(row) for row in rows])
    findings = page.read_text(encoding="utf-8").partition(_TABLE_BEGINS)[0].partition(advice.TITLE)[0]
    sentences = advice.sentences(folder)
    write_json(folder / advice.FILE, sentences)
    write_text(page, findings + advice_text(sentences, rows) + page_table(rows))
    return rows


def advice_text(sentences: list[str], rows: list[DecidedClaim]) -> str:
    """The section of the page that says what to run, and whether Lambda predicts training."""
    ranks = next((row for row in rows if row.id == "lambda/ranks"), None)
    said = (
        ""
        if ranks is None
        else f"Whether Λ predicts training is {_ANSWERS[Verdict(ranks.verdict)]}: {ranks.measured}. "
    )
    return "\n".join([advice.TITLE, "", *(f"- {each}" for each in sentences), "", said + _AFTER_ADVICE, "", ""])


def count(rows: Iterable[DecidedClaim]) -> dict[str, int]:
    """Rows by verdict, in the order of :class:`Verdict`."""
    counted = Counter(row.verdict for row in rows)
    return {str(verdict): counted[verdict] for verdict in Verdict}


def page_table(rows: list[DecidedClaim]) -> str:
    """The page's tables in Markdown, one for each of :data:`PARTS`."""
    counted = ", ".join(f"{number} {verdict}" for verdict, number in count(rows).items())
    lines = [
        _TABLE_BEGINS,
        "",
        f"{len(rows)} claims: {counted}. Nats are units of loss; the late loss is the mean over the last third of a "
        f"run. [claims.json](../claims.json) adds a note to each claim and names the function that decides it. "
        f"`make claims` makes both.",
    ]
    for part, module in PARTS.items():
        lines += ["", f"### {part}", "", "| where | the paper says | measured | verdict |", "| --- | --- | --- | --- |"]
        for row in rows:
            if row.decided_by.startswith(f"{module}."):
                cells = " | ".join(_escaped(cell) for cell in (row.where, row.says, row.measured))
                lines.append(f"| {cells} | {row.verdict} |")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Escape bars and stars for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("*", "\\*")
