"""Claims as the page filters them: the kind of thing a claim is about, and numbers in words. No Streamlit here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from app.shared.folders import ROOT
from zorba_core.study.ledger import Claim

# By the words with which the paper's place begins, or holds; the first that fits.
_KINDS = (
    ("Tables", r"\btab"),
    ("Figures", r"\bfig"),
    ("Theorems", r"\b(theorem|lemma|corollary|proposition|assumption|proof)"),
    ("Algorithms", r"\balgorithm"),
    ("Equations", r"\b(eq|equation)"),
)
OTHER = "Text"
_LETTERS = str.maketrans(
    {
        "λ": "lambda",
        "γ": "gamma",
        "η": "eta",
        "μ": "mu",
        "µ": "mu",
        "ε": "epsilon",
        "τ": "tau",
        "σ": "sigma",
        "φ": "phi",
        "ψ": "psi",
        "ρ": "rho",
        "*": "",
    }
)
_SHORT_UNIT = 8  # letters


def kind_of(claim: Claim) -> str:
    """What the claim is about, from its place in the paper."""
    place = claim.where.casefold()
    matches = [(match.start(), kind) for kind, pattern in _KINDS if (match := re.search(pattern, place))]
    return min(matches)[1] if matches else OTHER


def kinds(claims: Sequence[Claim]) -> list[str]:
    """The kinds that occur, in the order of the paper's formality."""
    there = {kind_of(claim) for claim in claims}
    return [kind for kind in (*(name for name, _ in _KINDS), OTHER) if kind in there]


def has(claim: Claim, text: str) -> bool:
    """Every word of ``text`` somewhere in the claim."""
    text_of_claim = _spelled(
        " ".join((claim.id, claim.claim, claim.where, claim.note, claim.counter_example, claim.how, claim.finding))
    )
    return all(word in text_of_claim for word in _spelled(text).split())


def _spelled(text: str) -> str:
    """Greek letters by name, and no stars: the claims have some as ``lambda``, the pages as ``Λ``."""
    return text.casefold().translate(_LETTERS)


def in_words(value: float | str | None, unit: str = "") -> str:
    """A number with its unit where that is short, a text as it is, a dash for nothing."""
    if value is None or value == "":
        return "–"
    if isinstance(value, str):
        return value
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return f"{number} {short_unit(unit)}".strip()


def short_unit(unit: str) -> str:
    """``GiB`` of ``GiB, all clients``; nothing where it takes more than a word."""
    first = re.split(r"[,;:]| of ", unit)[0].strip()
    return first if len(first) <= _SHORT_UNIT else ""


def evidence_file(item: str) -> Path | None:
    """The file or folder of this checkout that a piece of evidence names; None for anything else."""
    name = item.split("::")[0].split("#")[0].strip()
    if not name or len(name) > 300:
        return None
    path = (ROOT / name).resolve()
    return path if path.is_relative_to(ROOT) and path.exists() else None


def as_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """One row a claim, for a spreadsheet."""
    return pd.DataFrame(
        [
            {
                "id": claim.id,
                "kind": kind_of(claim),
                "where": claim.where,
                "claim": claim.claim,
                "printed": claim.printed,
                "ours": claim.ours,
                "unit": claim.unit,
                "verdict": claim.verdict,
                "finding": claim.finding or claim.id,
                "how": claim.how,
                "evidence": "; ".join(claim.evidence),
                "note": claim.note,
                "counter_example": claim.counter_example,
            }
            for claim in claims
        ]
    )
