"""What should I run? Five sentences whose numbers come from the tables of runs.

Each has a reading (:mod:`notebooks.reproduction.readings`) and says no more than its interval: one wording for arms
that differ, one for arms that are alike, one for an interval that allows both.
"""

from __future__ import annotations

from pathlib import Path

from notebooks.reproduction.readings import Reading, by_cost, by_loss, lowest_lambda, runs

FILE = Path("artifacts/experiments/advice.json")
TITLE = "## What should I run?"


def sentences(checkout: Path) -> list[str]:
    """Allocation, fewer blocks, which blocks, DeComFL, FedIT."""
    return [make(checkout) for make in (_allocation, _fewer, _which, _decomfl, _fedit)]


def _allocation(checkout: Path) -> str:
    """The allocation of the lowest Lambda of one total against the even one."""
    said = "with equally many blocks the lowest Λ ends {size} it {interval}"
    return _said(
        lowest_lambda(checkout),
        {
            1: f"For any fleet, spread the blocks evenly (`balanced`): {said}",
            -1: f"Take the allocation of the lowest Λ, not the even one: {said}",
            0: f"Spread the blocks evenly (`balanced`); the lowest Λ gains nothing that matters: {said}",
            None: f"The lowest Λ or an even spread (`balanced`, the default) is open: {said}",
        },
        "Which allocation trains best at one total of blocks is not measured.",
    )


def _fewer(checkout: Path) -> str:
    said = "a third of them ends {size} all {interval}"
    return _said(
        by_loss(runs(checkout, "shares"), "a third", "all blocks"),
        {
            1: f"Train all blocks where computation allows: {said}",
            -1: f"Train a third of the blocks: {said}",
            0: f"Train fewer blocks where computation is short: {said}",
            None: f"All blocks or a third of them is open: {said}",
        },
        "Whether fewer blocks train worse is not measured.",
    )


def _which(checkout: Path) -> str:
    said = "the same four end {size} four that cover all {interval}"
    return _said(
        by_loss(runs(checkout, "shares"), "first", "a third"),
        {
            1: f"If clients hold few blocks, let them cover all: {said}",
            -1: f"If clients hold few blocks, let them hold the same: {said}",
            0: f"If clients hold few blocks, which ones matters little: {said}",
            None: f"Whether clients with few blocks should share them is open: {said}",
        },
        "Whether clients should share their blocks is not measured.",
    )


def _decomfl(checkout: Path) -> str:
    said = "to one loss ZorBA needs {size} its rounds {interval}"
    return _said(
        by_cost(runs(checkout, "methods"), "zorba", "decomfl-10"),
        {
            1: f"If every client can train all blocks, use DeComFL with ten directions: {said}",
            -1: f"Use ZorBA rather than DeComFL with ten directions: {said}",
            0: f"ZorBA and DeComFL with ten directions are alike: {said}",
            None: f"ZorBA or DeComFL with ten directions is open: {said}",
        },
        "ZorBA against DeComFL with ten directions is not measured.",
    )


def _fedit(checkout: Path) -> str:
    said = "to one loss ZorBA needs {size} its rounds {interval}"
    return _said(
        by_cost(runs(checkout, "methods"), "zorba", "fedit"),
        {
            1: f"Use FedIT if clients can compute gradients: {said}",
            -1: f"Use ZorBA even if clients can compute gradients: {said}",
            0: f"FedIT gains no rounds: {said}",
            None: f"FedIT or ZorBA is open: {said}",
        },
        "ZorBA against FedIT is not measured.",
    )


def _said(readings: list[Reading], wordings: dict[int | None, str], unmeasured: str) -> str:
    """The sentence of the first reading that decides, else of the first."""
    if not readings:
        return unmeasured
    reading = next((each for each in readings if each.sign is not None), readings[0])
    return f"{wordings[reading.sign].format(size=reading.size, interval=reading.interval)}."
