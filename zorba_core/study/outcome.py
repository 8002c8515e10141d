"""A claim of the paper, the six verdicts, and the decorator of the functions that decide claims.

A function returns whether its claim holds and one sentence with the numbers; its docstring is the note that says how
they were made. Where it has a parameter ``checkout``, that is the folder that holds ``artifacts``::

    @claim("lemma-4", "Lemma 4", "The bias term of the bound rises with Lambda.")
    def lemma_4() -> Answer:
        '''A statement about the bound, not about training.'''
        return rises, "rises over all of [1/N, N]"
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from zorba_core.errors import MissingDataError


class Verdict(StrEnum):
    """The six answers, in the order in which a page counts them."""

    REPRODUCED = "reproduced"  # the number or the statement comes out
    IN_SHAPE = "in shape"  # the same order or shape, on another model or with a number read off the print
    MISPRINT = "misprint"  # the paper disagrees with itself, and one side is right
    CONTRADICTED = "contradicted"  # by mathematics or by counting; never by what a small model does not show
    NOT_SEEN = "not seen on our models"
    UNDECIDED = "undecided"  # not run, or the interval allows both answers


# (holds, measured) or (holds, measured, what to add to the note)
Answer = tuple[bool | Verdict, str] | tuple[bool | Verdict, str, str]


@dataclass(frozen=True)
class Row:
    """A claim with its decision, as in ``artifacts/claims.json``."""

    id: str
    where: str  # in the paper
    says: str
    measured: str  # one sentence with the numbers
    verdict: str  # of Verdict
    note: str  # how the numbers were made
    decided_by: str  # the function, by module and name


@dataclass(frozen=True)
class Claim:
    """What the paper says, and the function that decides it."""

    id: str
    where: str  # in the paper
    says: str
    holds: Verdict
    fails: Verdict
    decide: Callable[..., Answer]
    arguments: Mapping[str, Any]

    def outcome(self, checkout: Path) -> Row:
        """The decision. Without the tables that it needs: undecided, and the note is the command that makes them."""
        by = f"{self.decide.__module__}.{self.decide.__name__}"
        takes_folder = "checkout" in inspect.signature(self.decide).parameters
        try:
            folder = {"checkout": checkout} if takes_folder else {}
            verdict, measured, *added = self.decide(**folder, **self.arguments)
        except MissingDataError as error:
            return Row(self.id, self.where, self.says, "not run", str(Verdict.UNDECIDED), str(error), by)
        if not isinstance(verdict, Verdict):
            verdict = self.holds if verdict else self.fails
        note = " ".join((inspect.getdoc(self.decide) or "").split())
        note = " ".join(filter(None, [note, *added]))
        return Row(self.id, self.where, self.says, measured, str(verdict), note, by)


CLAIMS: dict[str, Claim] = {}  # by id, in the order in which their modules are imported


def claim(
    name: str,
    where: str,
    says: str,
    *,
    holds: Verdict = Verdict.REPRODUCED,
    fails: Verdict = Verdict.CONTRADICTED,
    **arguments: Any,
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Register the decorated function, which can decide several claims.

    Args:
        holds, fails: the verdicts where the function returns True and False.
        arguments: of the function for this claim.
    """

    def register(decide: Callable[..., Answer]) -> Callable[..., Answer]:
        CLAIMS[name] = Claim(name, where, says, holds, fails, decide, arguments)
        return decide

    return register
