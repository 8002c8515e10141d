"""A claim of the paper, the six verdicts, and what a check of it returns.

A function that decides a claim is decorated with it::

    @claim("lemma-4", "Lemma 4", "The bias term of the bound rises with Lambda.")
    def lemma_4() -> Outcome: ...

It takes nothing, or ``checkout``, the folder that holds ``artifacts``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Verdict(StrEnum):
    """The six answers, in the order in which a page counts them."""

    REPRODUCED = "reproduced"  # the number or the statement comes out
    IN_SHAPE = "in shape"  # the same order or shape, on another model or with a number read off the print
    MISPRINT = "misprint"  # the paper disagrees with itself, and one side is right
    CONTRADICTED = "contradicted"  # by mathematics or by counting; never by what a small model does not show
    NOT_SEEN = "not seen on our models"
    UNDECIDED = "undecided"  # not run, or the interval allows both answers


class Outcome(NamedTuple):
    """``measured`` is one sentence with the numbers, ``note`` what a reader needs in order to trust it."""

    verdict: Verdict
    measured: str
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """What the paper says, and the function that decides it."""

    id: str
    where: str  # in the paper
    says: str
    decide: Callable[..., Outcome]

    def outcome(self, checkout: Path) -> Outcome:
        takes_folder = "checkout" in inspect.signature(self.decide).parameters
        return self.decide(checkout) if takes_folder else self.decide()

    @property
    def decided_by(self) -> str:
        return f"{self.decide.__module__}.{self.decide.__name__}"


CLAIMS: dict[str, Claim] = {}  # by id, in the order in which their modules are imported


def claim(name: str, where: str, says: str) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    def register(decide: Callable[..., Outcome]) -> Callable[..., Outcome]:
        CLAIMS[name] = Claim(name, where, says, decide)
        return decide

    return register


def decided(holds: bool, measured: str, note: str = "") -> Outcome:
    """Of a claim that mathematics or counting decides."""
    return Outcome(Verdict.REPRODUCED if holds else Verdict.CONTRADICTED, measured, note)


NOT_RUN = "not run"
