"""A claim, its verdict, and the file that holds them all. A row without its evidence is refused, on writing and on
reading."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from zorba_core.checksums import parse_json, unsealed, write_sealed
from zorba_core.errors import InvalidInputError, MissingDataError

DEFAULT_LEDGER = Path("artifacts/ledger.json")
# What each verdict says, in the order of every list and picture.
MEANINGS = {
    "reproduced": "the number or statement comes out",
    "reproduced in shape": "the same order or shape, on another model",
    "consistent": "it fits, once a number is read off the print itself",
    "not contradicted": "it holds, by so much that the check could hardly fail",
    "contradicted": "with a counter-example",
    "undecided": "tested, and the interval allows both answers",
    "cannot be tested here": "and what it would take",
    "beyond the paper": "found here; the paper claims nothing about it",
}
VERDICTS = tuple(MEANINGS)

_MAX_BYTES = 16_000_000
_REQUIRED = ("id", "claim", "where", "how")


@dataclass(frozen=True)
class Claim:
    """One claim of the paper and what was found, or something found that the paper does not speak of.

    ``printed`` and ``ours`` are numbers, texts or None; ``unit`` says what a number counts. ``evidence`` names what the
    finding rests on: files of the checkout, functions, or commands.

    Raises:
        InvalidInputError: an unknown verdict, an empty field that every row needs, no evidence, a finding without our
            number or text, or a contradiction without its counter-example.
    """

    id: str
    claim: str
    where: str  # in the paper
    printed: float | str | None
    ours: float | str | None
    unit: str
    verdict: str  # one of VERDICTS
    how: str  # the command that repeats it
    evidence: tuple[str, ...]
    note: str = ""
    counter_example: str = ""
    finding: str = ""  # what the row shows, if other rows show the same; else the row is a finding of its own

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence", tuple(self.evidence))
        for name in _REQUIRED:
            if not str(getattr(self, name)).strip():
                raise InvalidInputError(f"ledger row {self.id or '(no id)'}: {name} is empty; every row needs it")
        if self.verdict not in VERDICTS:
            raise InvalidInputError(
                f"ledger row {self.id}: verdict is {self.verdict!r}; choose one of {', '.join(VERDICTS)}"
            )
        if not self.evidence or not all(str(item).strip() for item in self.evidence):
            raise InvalidInputError(f"ledger row {self.id}: no evidence; name what the finding rests on")
        if self.verdict != "cannot be tested here" and self.ours in (None, ""):
            raise InvalidInputError(f"ledger row {self.id}: {self.verdict}, but ours is empty; give what was found")
        if self.verdict == "contradicted" and not self.counter_example.strip():
            raise InvalidInputError(f"ledger row {self.id}: contradicted without a counter-example; give one")


@dataclass(frozen=True)
class Ledger:
    """All claims in the paper's order, and what made the file.

    Raises:
        InvalidInputError: two rows of one id.
    """

    provenance: Mapping[str, Any] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "claims", tuple(self.claims))
        repeated = [name for name, count in Counter(claim.id for claim in self.claims).items() if count > 1]
        if repeated:
            raise InvalidInputError(f"ledger: {repeated[0]} names more than one row; ids are unique")

    def count(self) -> dict[str, int]:
        """Rows by verdict, in the order of VERDICTS."""
        counts = Counter(claim.verdict for claim in self.claims)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    def findings(self, verdict: str) -> dict[str, tuple[Claim, ...]]:
        """The rows of a verdict by what they show, in their order: several rows may rest on one finding."""
        grouped: dict[str, list[Claim]] = {}
        for claim in self.claims:
            if claim.verdict == verdict:
                grouped.setdefault(claim.finding or claim.id, []).append(claim)
        return {finding: tuple(rows) for finding, rows in grouped.items()}

    def count_findings(self) -> dict[str, int]:
        """Distinct findings by verdict, in the order of VERDICTS."""
        return {verdict: len(self.findings(verdict)) for verdict in VERDICTS}


def write_ledger(ledger: Ledger, path: str | os.PathLike[str] = DEFAULT_LEDGER) -> None:
    """Write atomically, as JSON that :func:`read_ledger` reads back."""
    content = {"provenance": ledger.provenance, "claims": [asdict(claim) for claim in ledger.claims]}
    write_sealed(path, content)


def read_ledger(path: str | os.PathLike[str] = DEFAULT_LEDGER) -> Ledger:
    """Read the ledger that ``zorba report`` wrote.

    Raises:
        MissingDataError: no such file; names the command that makes it.
        InvalidInputError: too large, not JSON, or a row that is not a :class:`Claim`.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"ledger {str(path)!r} does not exist; make it with: zorba report")
    if path.stat().st_size > _MAX_BYTES:
        raise InvalidInputError(f"{path}: larger than {_MAX_BYTES} bytes, which no ledger is")
    try:
        text = path.read_text(encoding="utf-8")
        content = unsealed(parse_json(text), text)
    except ValueError as error:  # also a number of too many digits
        raise InvalidInputError(f"{path}: not JSON ({error}); make it again with: zorba report") from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}, or make it again with: zorba report") from None
    if not isinstance(content, dict) or not isinstance(content.get("claims"), list):
        raise InvalidInputError(f"{path}: not a ledger (no list of claims); make it again with: zorba report")
    provenance = content.get("provenance", {})
    if not isinstance(provenance, dict):
        raise InvalidInputError(f"{path}: provenance is not an object; make it again with: zorba report")
    return Ledger(provenance, tuple(_claim(row, f"{path}: row {i}") for i, row in enumerate(content["claims"])))


def _claim(row: Any, where: str) -> Claim:
    names = [item.name for item in fields(Claim)]
    if not isinstance(row, dict):
        raise InvalidInputError(f"{where} is not an object; make the ledger again with: zorba report")
    missing = [name for name in names[:9] if name not in row]
    unknown = [name for name in row if name not in names]
    if missing or unknown:
        what = f"has no {missing[0]}" if missing else f"has an unknown field {unknown[0]}"
        raise InvalidInputError(f"{where} {what}; make the ledger again with: zorba report")
    texts = ("id", "claim", "where", "unit", "verdict", "how", "note", "counter_example", "finding")
    wrong = [name for name in texts if not isinstance(row.get(name, ""), str)]
    wrong += [name for name in ("printed", "ours") if not isinstance(row[name], int | float | str | None)]
    evidence = row["evidence"]
    if not isinstance(evidence, Sequence) or isinstance(evidence, str) or not all(isinstance(e, str) for e in evidence):
        wrong.append("evidence")
    if wrong:
        raise InvalidInputError(f"{where}: {wrong[0]} has the wrong type; make the ledger again with: zorba report")
    return Claim(**row)
