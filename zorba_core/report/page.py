"""One self-contained HTML page of the ledger: the summary, the figures, then every claim with its
evidence. No script, no outside request; pictures are inside, for a light and for a dark screen."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2

from zorba_core.files import write_text
from zorba_core.report.figures import ReportFigure, pictures
from zorba_core.study.ledger.claims import MEANINGS, VERDICTS, Claim, Ledger
from zorba_core.study.ledger.printed import DATASETS, METHOD_TITLES

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# A mark and a colour class of the style for each verdict.
_MARKS = dict(zip(VERDICTS, ("✓", "≈", "∼", "◇", "✗", "?", "–", "+"), strict=True))
_COLOURS = dict(zip(VERDICTS, ("good", "shape", "weak", "weak", "bad", "none", "none", "own"), strict=True))
_OPEN_VERDICTS = ("undecided", "cannot be tested here")
_TITLES = {title.lower(): title for title in DATASETS}
# What a reader in a hurry should know, in this order; each is shown if the ledger has it.
KEY_CLAIMS = (
    "theorem-3",
    "lambda/matched",
    "lambda/predicts",
    "proposition-1/convergence",
    "fig-4b/sc3",
    "fig-4b/sc1-sc2",
    "fig-4a/sc3",
    "fig-4a/optimum",
    "faster/decomfl",
    "faster/decomfl-equal-passes",
    "communication/comparable",
    "fig-1/linear",
    "saving/fedit",
    "setting/literal",
    "theorem-1/bound",
    "theorem-1/rate",
    "theorem-4/fractions",
    "vram/parameters",
)
# Sections of the full list: title and which ids belong, the first that fits.
_SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("VRAM: percentages, Fig. 1, capacities", ("saving/", "fig-1/", "capacity/", "vram/")),
    ("Theorems, lemmas, proposition", ("theorem-", "lemma-", "proposition-")),
    ("Observations on the toy", ("observation-",)),
    ("Fig. 4 and the complexities", ("fig-4a/", "complexity/")),
    ("Training: who is faster, the case study, Λ as a predictor", ("faster/", "fig-4b/", "lambda/", "setting/")),
    ("Communication", ("communication/",)),
)


def write_page(ledger: Ledger, path: str | os.PathLike[str], checkout: str | os.PathLike[str] = ".") -> None:
    """Write the page, atomically.

    Raises:
        MissingDataError: plotly or kaleido, which draw the figures, are not installed; or no results to draw from.
    """
    write_text(path, render(ledger, pictures(Path(checkout))))


def render(ledger: Ledger, figures: Iterable[ReportFigure]) -> str:
    """The page's text, from the ledger and pictures already drawn; every value is escaped by the template."""
    counts, findings = ledger.count(), ledger.count_findings()
    by_id = {claim.id: claim for claim in ledger.claims}
    return _template().render(
        num_claims=len(ledger.claims),
        contradictions=_contradictions_text(ledger),
        tiles=[
            {
                "verdict": verdict,
                "rows": counts[verdict],
                "findings": _findings_text(findings[verdict]),
                "meaning": MEANINGS[verdict],
            }
            for verdict in VERDICTS
            if counts[verdict]
        ],
        # What is decided first; the sort keeps the order otherwise.
        key_claims=sorted(
            (by_id[name] for name in KEY_CLAIMS if name in by_id), key=lambda claim: claim.verdict in _OPEN_VERDICTS
        ),
        figures=figures,
        rounds=_grid(ledger, "table-1/"),
        vram=_grid(ledger, "table-2/vram/"),
        communication=_grid(ledger, "table-2/communication/"),
        sections=_sections(ledger),
        provenance=ledger.provenance,
    )


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "value": _value,
        "sentence": _sentence,
        "mark": _MARKS.__getitem__,
        "colour": _COLOURS.__getitem__,
        "rounds": _rounds_text,
    }
    return environment.get_template("page.html")


def _findings_text(count: int) -> str:
    return f"{count} finding" + ("" if count == 1 else "s")


def _contradictions_text(ledger: Ledger) -> str:
    """``33 contradicted rows are 14 findings, of which one alone has 13 rows``."""
    findings = ledger.findings("contradicted")
    rows = sum(map(len, findings.values()))
    largest = max(map(len, findings.values()), default=0)
    text = f"{rows} contradicted rows are {_findings_text(len(findings))}"
    return text + (f", of which one alone has {largest} rows" if largest > 1 else "")


def _grid(ledger: Ledger, prefix: str) -> dict[str, Any]:
    """A table of the paper's shape: a row for each model and dataset, a column for each method."""
    cells: dict[tuple[str, str], dict[str, Claim]] = {}
    for claim in ledger.claims:
        if claim.id.startswith(prefix):
            model, dataset, method = claim.id.removeprefix(prefix).split("/")
            cells.setdefault((model, dataset), {})[method] = claim
    rows = [
        {"model": model.upper(), "dataset": _TITLES[dataset], "claims": [row[method] for method in METHOD_TITLES]}
        for (model, dataset), row in cells.items()
    ]
    return {"titles": list(METHOD_TITLES.values()), "rows": rows}


def _rounds_text(claim: Claim) -> str:
    ours = "no run yet" if claim.ours is None else str(claim.ours).split(" (")[0]
    return ours + (" †" if "grid's edge" in claim.note else "")


def _sections(ledger: Ledger) -> list[dict[str, Any]]:
    """Every claim outside the tables in the first section whose prefix fits, the rest at the end."""
    shown = [claim for claim in ledger.claims if not claim.id.startswith(("table-1/", "table-2/"))]
    sections = []
    for title, prefixes in (*_SECTIONS, ("Others", ("",))):
        claims = [claim for claim in shown if claim.id.startswith(prefixes)]
        shown = [claim for claim in shown if claim not in claims]
        if claims:
            sections.append({"title": title, "claims": claims})
    return sections


def _value(value: float | str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if value == 0:
        return "0"
    if abs(value) >= 1e5:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    return f"{value:,.2f}".rstrip("0").rstrip(".") if abs(value) >= 0.01 else f"{value:.2g}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
