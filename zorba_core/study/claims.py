"""Every claim of the paper that can be checked, with its verdict. Functions compute the verdicts.

:func:`write_claims` writes ``artifacts/claims.json`` and the table of ``artifacts/report/README.md``; the findings
above it are written by hand. The claims are in four modules: mathematics (``claims_theory``), proven optima
(``claims_allocation``), counting (``claims_tables``) and runs (``claims_runs``).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import read_json, write_json, write_text
from zorba_core.study import claims_allocation, claims_runs, claims_tables, claims_theory
from zorba_core.study.outcome import CLAIMS, Row, Verdict

FILE, PAGE = Path("artifacts/claims.json"), Path("artifacts/report/README.md")
COMMAND = "zorba reproduce claims"
PARTS = {  # each part of the page's table, by its title: the module of its claims
    "Memory, rounds and messages": claims_tables.__name__,
    "Theory": claims_theory.__name__,
    "Allocation": claims_allocation.__name__,
    "Training": claims_runs.__name__,
}
_TABLE_BEGINS = "## All claims"
_SYMBOLS = {
    "Lambda": "Λ",
    "Omega": "Ω",
    "gamma": "γ",
    "lambda": "λ",
    "sigma": "σ",
    "alpha": "α",
    "psi": "ψ",
    "eta": "η",
    "mu": "μ",
}


def decide(folder: str | os.PathLike[str] = ".") -> list[Row]:
    """Decide every claim from mathematics and the tables in ``folder/artifacts``. About 20 s of one core."""
    claims = [claim for module in PARTS.values() for claim in CLAIMS.values() if claim.decide.__module__ == module]
    return [claim.outcome(Path(folder)) for claim in claims]


def write_claims(folder: str | os.PathLike[str] = ".") -> list[Row]:
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
    findings = page.read_text(encoding="utf-8").partition(_TABLE_BEGINS)[0]
    write_text(page, findings + page_table(rows))
    return rows


def read_claims(folder: str | os.PathLike[str] = ".") -> list[Row]:
    """The rows of ``artifacts/claims.json``.

    Raises:
        MissingDataError: there is no such file.
        InvalidInputError: the file has another form.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; make it with: {COMMAND}")
    try:
        return [Row(**row) for row in read_json(path)]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{path}: not a file of claims ({error}); make it again with: {COMMAND}") from None


def count(rows: Iterable[Row]) -> dict[str, int]:
    """Rows by verdict, in the order of :class:`Verdict`."""
    counted = Counter(row.verdict for row in rows)
    return {str(verdict): counted[verdict] for verdict in Verdict}


def page_table(rows: list[Row]) -> str:
    """The page's tables in Markdown, one for each of :data:`PARTS`."""
    counted = ", ".join(f"{number} {verdict}" for verdict, number in count(rows).items())
    lines = [
        _TABLE_BEGINS,
        "",
        f"{len(rows)} claims: {counted}. Nats are units of loss; the late loss is the mean over the last third of a "
        f"run. [claims.json](../claims.json) adds a note to each claim and names the function that decides it. "
        f"`{COMMAND}` makes both.",
    ]
    for part, module in PARTS.items():
        lines += ["", f"### {part}", "", "| where | the paper says | measured | verdict |", "| --- | --- | --- | --- |"]
        for row in rows:
            if row.decided_by.startswith(f"{module}."):
                cells = " | ".join(_escaped(with_symbols(cell)) for cell in (row.where, row.says, row.measured))
                lines.append(f"| {cells} | {row.verdict} |")
    return "\n".join(lines) + "\n"


def with_symbols(text: str) -> str:
    """Replace names by the paper's letters: ``sigma_G^2`` becomes ``σ_G^2``."""
    return re.sub(rf"(?<![A-Za-z])({'|'.join(_SYMBOLS)})(?![A-Za-z])", lambda name: _SYMBOLS[name[1]], text)


def _escaped(text: str) -> str:
    """Escape bars and stars for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("*", "\\*")
