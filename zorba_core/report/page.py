"""One self-contained HTML page of the ledger: the summary, the figures, then every claim with its
evidence. No script, no outside request; pictures are inside, for a light and for a dark screen."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zorba_core.files import write_text
from zorba_core.report.figures import ReportFigure, pictures
from zorba_core.report.style import STYLE
from zorba_core.study.ledger.claims import MEANINGS, VERDICTS, Claim, Ledger
from zorba_core.study.ledger.printed import DATASETS, METHOD_TITLES

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# A mark and a colour class of the style for each verdict.
_MARKS = dict(zip(VERDICTS, ("✓", "≈", "∼", "◇", "✗", "?", "–", "+"), strict=True))
_COLOURS = dict(zip(VERDICTS, ("good", "shape", "weak", "weak", "bad", "none", "none", "own"), strict=True))
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
    """The page's text, from the ledger and pictures already drawn."""
    ours, whole, ledger = ledger.ours, ledger, ledger.papers
    counts, findings = ledger.count(), ledger.count_findings()
    tiles = "".join(
        f'<div class="tile {_COLOURS[verdict]}"><b>{counts[verdict]}</b><span>{_e(verdict)}</span><br>'
        f'<small class="muted">{_e(_findings_text(findings[verdict]))}; {_e(MEANINGS[verdict])}</small></div>'
        for verdict in VERDICTS
        if counts[verdict]
    )
    by_id = {claim.id: claim for claim in ledger.claims}
    # What is decided first; the sort keeps the order otherwise.
    open_ones = ("undecided", "cannot be tested here")
    key = sorted((by_id[name] for name in KEY_CLAIMS if name in by_id), key=lambda claim: claim.verdict in open_ones)
    cards = "".join(map(_card, key))
    drawn = "".join(_figure(picture) for picture in figures)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>ZorBA: the paper's claims, tested</title>
<style>{STYLE}</style></head><body><main>
<h1>ZorBA: the paper’s claims, tested</h1>
<p>{len(ledger.claims)} rows, one for each claim, cell or number of <i>ZorBA: Zeroth-order Federated Fine-tuning of
LLMs with Heterogeneous Block Activation</i>, decided by computation, enumeration or training runs. Nothing on this page
is typed in: <code>zorba report --html</code> builds it from solvers and stored runs. The training runs use opt-mini, a
model of two million parameters, so they can show the paper’s orders or their opposite, not its round counts. A number
counts rows; below it, how many distinct findings they are: {_contradictions_text(ledger)}.</p>
<nav><a href="#figures">Figures</a><a href="#table-1">Table I</a><a href="#table-2">Table II</a>
<a href="#claims">Every claim</a>{'<a href="#ours">Our own claims</a>' if ours else ""}
<a href="#made">How it was made</a></nav>
<div class="tiles">{tiles}</div>
<h2>What to know first</h2><div class="cards">{cards}</div>
<h2 id="figures">Figures</h2><div class="figures">{drawn}</div>
<h2 id="table-1">Table I: rounds to the target</h2>
<p>Printed rounds; below them ours, on opt-mini with a target of its own: the two evaluations between which the median
of the seeds reaches it, with the same horizon for every method. † Its best learning rate is the highest that was tried:
the true best may lie beyond. Another model: no cell can be confirmed.</p>
{_grid(ledger, "table-1/", _rounds_cell)}
<h2 id="table-2">Table II: VRAM and communication</h2>
<h3>VRAM of all clients, GiB: printed, and by the paper’s model</h3>
{_grid(ledger, "table-2/vram/", _number_cell)}
<h3>Numbers sent until the target: printed, and by the paper’s protocol over Table I’s rounds</h3>
{_grid(ledger, "table-2/communication/", _number_cell)}
<h2 id="claims">Every other claim, with its evidence</h2>
<p class="muted">Open a line for the numbers, the command that repeats it, and what the finding rests on. The cells of
the tables above are rows of <code>artifacts/ledger.json</code> in the same form.</p>
{_sections(ledger)}
{_ours(ours)}<h2 id="made">How it was made</h2>{_provenance(whole.provenance)}
</main></body></html>
"""


def _findings_text(count: int) -> str:
    return f"{count} finding" + ("" if count == 1 else "s")


def _contradictions_text(ledger: Ledger) -> str:
    """``33 contradicted rows are 14 findings, of which one alone has 13 rows``."""
    findings = ledger.findings("contradicted")
    rows = sum(map(len, findings.values()))
    largest = max(map(len, findings.values()), default=0)
    text = f"{rows} contradicted rows are {_findings_text(len(findings))}"
    return text + (f", of which one alone has {largest} rows" if largest > 1 else "")


def _badge(verdict: str) -> str:
    return f'<span class="badge {_COLOURS[verdict]}" data-mark="{_MARKS[verdict]}">{_e(verdict)}</span>'


def _card(claim: Claim) -> str:
    measured = f"<p>{_e(_value(claim.ours))} <span class='muted'>{_e(claim.unit)}</span></p>" if claim.ours else ""
    comment = claim.counter_example or claim.note
    return (
        f'<div class="card"><p>{_badge(claim.verdict)} <span class="muted">{_e(claim.where)}</span></p>'
        f'<p class="claim">{_e(_sentence(claim.claim))}</p>{measured}<p class="muted">{_e(comment)}</p></div>'
    )


def _figure(picture: ReportFigure) -> str:
    return (
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{picture.dark}">'
        f'<img src="{picture.light}" alt="{_e(picture.alt)}" width="{picture.width}" height="{picture.height}">'
        "</picture>"
        f"<figcaption><b>{_e(picture.title)}.</b> {_e(picture.caption)}</figcaption></figure>"
    )


def _grid(ledger: Ledger, prefix: str, cell: Callable[[Claim], str]) -> str:
    """A table of the paper's shape: a row for each model and dataset, a column for each method."""
    cells: dict[tuple[str, str], dict[str, Claim]] = {}
    for claim in ledger.claims:
        if claim.id.startswith(prefix):
            model, dataset, method = claim.id.removeprefix(prefix).split("/")
            cells.setdefault((model, dataset), {})[method] = claim
    head = "".join(f"<th>{title}</th>" for title in METHOD_TITLES.values())
    body = "".join(
        f"<tr><th>{_e(model.upper())}<br>{_e(_TITLES[dataset])}</th>"
        + "".join(f'<td class="n">{cell(row[method])}</td>' for method in METHOD_TITLES)
        + "</tr>"
        for (model, dataset), row in cells.items()
    )
    return f'<div class="scroll"><table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _number_cell(claim: Claim) -> str:
    return (
        f"{_e(_value(claim.printed))}<br>"
        f'<span class="{_COLOURS[claim.verdict]}" title="{_e(claim.verdict)}">{_MARKS[claim.verdict]} '
        f"{_e(_value(claim.ours))}</span>"
    )


def _rounds_cell(claim: Claim) -> str:
    ours = "no run yet" if claim.ours is None else str(claim.ours).split(" (")[0]
    ours += " †" if "grid's edge" in claim.note else ""
    return f'{_e(_value(claim.printed))}<br><span class="muted">{_e(ours)}</span>'


def _sections(ledger: Ledger) -> str:
    shown = [claim for claim in ledger.claims if not claim.id.startswith(("table-1/", "table-2/"))]
    text = ""
    for title, prefixes in _SECTIONS:
        rows = [claim for claim in shown if claim.id.startswith(prefixes)]
        shown = [claim for claim in shown if claim not in rows]
        text += f"<h3>{_e(title)}</h3>" + "".join(map(_details, rows)) if rows else ""
    return text + ("<h3>Others</h3>" + "".join(map(_details, shown)) if shown else "")


def _ours(claims: Sequence[Claim]) -> str:
    """What we claim ourselves, as cards that open: not counted above."""
    if not claims:
        return ""
    return (
        '<h2 id="ours">Our own claims</h2><p>What to run at equal VRAM, what each part buys, which measure predicts: '
        "held to the same rules. Arms, rates, targets, analysis and the words of the verdict were committed as a plan "
        "before the runs; a claim whose runs are not there says so. Not counted in the numbers above.</p>"
        + "".join(map(_details, claims))
    )


def _details(claim: Claim) -> str:
    facts = [
        ("printed", _value(claim.printed)),
        ("ours", _value(claim.ours)),
        ("unit", claim.unit),
        ("counter-example", claim.counter_example),
        ("note", claim.note),
        ("one finding with others", claim.finding),
        ("repeat with", claim.how),
        ("rests on", "; ".join(claim.evidence)),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{_e(text)}</dd>" for name, text in facts if text)
    return (
        f'<details id="{_e(claim.id)}"><summary>{_badge(claim.verdict)} {_e(_sentence(claim.claim))} '
        f'<span class="where">{_e(claim.where)}</span></summary><dl>{listed}</dl></details>'
    )


def _provenance(provenance: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{_e(name)}</td><td class='n'>{experiment['runs']}</td><td class='n'>{experiment['missing']}</td>"
        f"<td class='n'>{experiment['diverged']}</td><td class='n'>{experiment['core_hours']}</td>"
        f"<td>{_e('; '.join([*experiment['machines'], *experiment['data_notes']]))}</td></tr>"
        for name, experiment in provenance.get("experiments", {}).items()
    )
    left_out = "".join(f"<li>{_e(line)}</li>" for line in provenance.get("left_out", ()))
    left_out = f"<p>Left out:</p><ul>{left_out}</ul>" if left_out else "<p>No run was left out.</p>"
    commit = (provenance.get("git_commit") or "unknown")[:12]
    return (
        '<div class="scroll"><table><thead><tr><th>experiment</th><th>runs</th><th>still missing</th><th>diverged</th>'
        f"<th>core hours</th><th>on</th></tr></thead><tbody>{rows}</tbody></table></div>{left_out}"
        f"<p class='muted'>zorba-core {_e(provenance.get('zorba_core', ''))}, engine version "
        f"{_e(provenance.get('engine_version', ''))}, commit {_e(commit)}, Python "
        f"{_e(provenance.get('python', ''))}.</p>"
    )


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


def _e(text: object) -> str:
    return html.escape(str(text), quote=True)
