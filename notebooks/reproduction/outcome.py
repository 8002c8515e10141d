"""A claim of the paper, the six verdicts, and the decorator that registers a function for its claim.

The function returns whether its claim holds, and one sentence with the numbers. Its docstring becomes the claim's note:
how the numbers were computed. A parameter ``checkout`` gets the folder that holds ``artifacts``::

    @claim("lemma-4", "Lemma 4", "The bias term of the bound rises with Lambda.")
    def lemma_4() -> Decision:
        '''A statement about the bound, not about training.'''
        return rises, "rises over all of [1/N, N]"
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from zorba_core.errors import MissingDataError


class Verdict(StrEnum):
    """The six verdicts, in the order of the page."""

    REPRODUCED = "reproduced"  # the same number, or the statement is true
    IN_SHAPE = "in shape"  # the same order or shape, on another model or with a number that the paper does not print
    MISPRINT = "misprint"  # the paper disagrees with itself, and one side is right
    CONTRADICTED = "contradicted"  # by mathematics or by counting, never by runs of small models
    NOT_SEEN = "not seen on our models"
    UNDECIDED = "undecided"  # not run, or the interval allows both answers


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

# (holds, measured) or (holds, measured, more for the note)
Decision = tuple[bool | Verdict, str] | tuple[bool | Verdict, str, str]


@dataclass(frozen=True)
class DecidedClaim:
    """A claim with its decision, as in ``artifacts/claims.json``, with the paper's letters."""

    id: str
    where: str  # in the paper
    says: str
    measured: str  # one sentence with the numbers
    verdict: str  # of Verdict
    note: str  # how the numbers were made
    decided_by: str  # the function, by module and name


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, and the function that decides it."""

    id: str
    where: str  # in the paper
    says: str
    holds: Verdict
    fails: Verdict
    decide: Callable[..., Decision]
    arguments: Mapping[str, Any]

    def outcome(self, checkout: Path) -> DecidedClaim:
        """Decide the claim. If its table is missing: undecided, and the note is the command that makes the table."""
        by = f"{self.decide.__module__}.{self.decide.__name__}"
        takes_folder = "checkout" in inspect.signature(self.decide).parameters
        try:
            folder = {"checkout": checkout} if takes_folder else {}
            verdict, measured, *added = self.decide(**folder, **self.arguments)
        except MissingDataError as error:
            verdict, measured, note = Verdict.UNDECIDED, "not run", str(error)
            return DecidedClaim(self.id, self.where, with_symbols(self.says), measured, str(verdict), note, by)
        if not isinstance(verdict, Verdict):
            verdict = self.holds if verdict else self.fails
        note = " ".join((inspect.getdoc(self.decide) or "").split())
        note = " ".join(filter(None, [note, *added]))
        says, measured, note = map(with_symbols, (self.says, measured, note))
        return DecidedClaim(self.id, self.where, says, measured, str(verdict), note, by)


def with_symbols(text: str) -> str:
    """Replace names by the paper's letters: ``sigma_G^2`` becomes ``σ_G^2``."""
    return re.sub(rf"(?<![A-Za-z])({'|'.join(_SYMBOLS)})(?![A-Za-z])", lambda name: _SYMBOLS[name[1]], text)


CLAIMS: dict[str, Claim] = {}  # by id, in the order in which their modules are imported


def claim(
    name: str,
    where: str,
    says: str,
    *,
    holds: Verdict = Verdict.REPRODUCED,
    fails: Verdict = Verdict.CONTRADICTED,
    **arguments: Any,
) -> Callable[[Callable[..., Decision]], Callable[..., Decision]]:
    """Register the decorated function for a claim. A function can decide several claims.

    Args:
        holds, fails: the verdicts for True and False.
        arguments: the function's arguments for this claim.
    """

    def register(decide: Callable[..., Decision]) -> Callable[..., Decision]:
        CLAIMS[name] = Claim(name, where, says, holds, fails, decide, arguments)
        return decide

    return register
