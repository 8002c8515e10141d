"""A claim, its verdict, and the file that holds them all. A row without its evidence is refused, on writing and on
reading."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import read_json, write_json

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
    write_json(path, content)


def read_ledger(path: str | os.PathLike[str] = DEFAULT_LEDGER) -> Ledger:
    """Read the ledger that ``zorba report`` wrote.

    Raises:
        MissingDataError: no such file; names the command that makes it.
        InvalidInputError: not JSON, or a row that is not a :class:`Claim`.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"ledger {str(path)!r} does not exist; make it with: zorba report")
    try:
        content = read_json(path)
        return Ledger(content["provenance"], tuple(Claim(**row) for row in content["claims"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{path}: not a ledger ({error}); make it again with: zorba report") from None
