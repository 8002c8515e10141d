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
from typing import Any, NamedTuple

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


class Outcome(NamedTuple):
    """``measured`` is one sentence with the numbers, ``note`` what a reader needs in order to trust it."""

    verdict: Verdict
    measured: str
    note: str


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

    def outcome(self, checkout: Path) -> Outcome:
        """The decision. Without the tables that it needs: undecided, and the note is the command that makes them."""
        takes_folder = "checkout" in inspect.signature(self.decide).parameters
        try:
            folder = {"checkout": checkout} if takes_folder else {}
            verdict, measured, *added = self.decide(**folder, **self.arguments)
        except MissingDataError as error:
            return Outcome(Verdict.UNDECIDED, "not run", str(error))
        if not isinstance(verdict, Verdict):
            verdict = self.holds if verdict else self.fails
        note = " ".join((inspect.getdoc(self.decide) or "").split())
        return Outcome(verdict, measured, " ".join(filter(None, [note, *added])))

    @property
    def decided_by(self) -> str:
        return f"{self.decide.__module__}.{self.decide.__name__}"


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
