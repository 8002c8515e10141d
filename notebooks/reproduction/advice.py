"""What should I run? Five sentences whose numbers come from the tables of runs.

Each has a reading (:mod:`notebooks.reproduction.readings`) and says no more than its interval: one wording for arms
that differ, one for arms that are alike, one for an interval that allows both.
"""

from __future__ import annotations

from pathlib import Path

from notebooks.reproduction.matrices import family
from notebooks.reproduction.readings import Reading, by_cost, by_loss, runs

FILE = Path("artifacts/experiments/advice.json")
TITLE = "## What should I run?"


def sentences(checkout: Path) -> list[str]:
    """Allocation, fewer blocks, which blocks, DeComFL, FedIT."""
    return [make(checkout) for make in (_allocation, _fewer, _which, _decomfl, _fedit)]


def _allocation(checkout: Path) -> str:
    """The even allocation against that of the lowest Lambda among those of one total."""
    table = runs(checkout, "allocations")
    lowest = min(family().members, key=lambda each: each.allocation().bias_lambda).name
    readings = by_loss(table, lowest, "even") or by_loss(table, "exact", "even")
    said = "an allocation of the lowest Λ ends"
    return _said(
        readings,
        {
            1: f"For any fleet, spread the blocks evenly (`balanced`): {said} {{number}} nats above it",
            -1: "Take the allocation of the lowest Λ: it ends {number} nats from the even one",
            0: f"Spread the blocks evenly (`balanced`) or take the lowest Λ: {said} {{number}} nats from the even one",
            None: f"Spread the blocks evenly (`balanced`) until more is known: {said} {{number}} nats from it",
        },
        "Which allocation trains best at one total of blocks is not measured.",
    )


def _fewer(checkout: Path) -> str:
    readings = by_loss(runs(checkout, "shares"), "a third", "all blocks")
    said = "a third of them ends {number} nats from all blocks"
    return _said(
        readings,
        {
            1: f"Train all blocks where computation allows: {said}",
            -1: f"Train a third of the blocks: {said}",
            0: f"Train fewer blocks where computation is short: {said}",
            None: f"Train all blocks where computation allows; whether fewer are worse is open: {said}",
        },
        "Whether fewer blocks train worse is not measured.",
    )


def _which(checkout: Path) -> str:
    readings = by_loss(runs(checkout, "shares"), "first", "a third")
    said = "the same four blocks on all clients end {number} nats from four that cover all"
    return _said(
        readings,
        {
            1: f"If clients hold few blocks, let them cover all: {said}",
            -1: f"If clients hold few blocks, give all of them the same ones: {said}",
            0: f"If clients hold few blocks, which ones matters little: {said}",
            None: f"If clients hold few blocks, whether they share them is open: {said}",
        },
        "Whether clients should share their blocks is not measured.",
    )


def _decomfl(checkout: Path) -> str:
    readings = by_cost(runs(checkout, "methods"), "zorba", "decomfl-10")
    said = "ZorBA with half of the blocks needs {number} times its rounds"
    return _said(
        readings,
        {
            1: f"If every client can train all blocks, use DeComFL with ten directions: {said}",
            -1: f"Use ZorBA rather than DeComFL with ten directions: {said}",
            0: f"ZorBA and DeComFL with ten directions are alike: {said}",
            None: f"Between ZorBA and DeComFL with ten directions the choice is open: {said}",
        },
        "ZorBA against DeComFL with ten directions is not measured.",
    )


def _fedit(checkout: Path) -> str:
    readings = by_cost(runs(checkout, "methods"), "zorba", "fedit")
    said = "ZorBA needs {number} times its rounds"
    return _said(
        readings,
        {
            1: f"Use FedIT if clients can compute gradients and send models: {said}",
            -1: f"Use ZorBA even if clients can compute gradients: {said}",
            0: f"FedIT gains no rounds: {said}",
            None: f"Use FedIT if clients can compute gradients and send models; its lead is open: {said}",
        },
        "ZorBA against FedIT is not measured.",
    )


def _said(readings: list[Reading], wordings: dict[int | None, str], unmeasured: str) -> str:
    """The sentence of the first reading that decides, else of the first, with its number, cell and seeds."""
    if not readings:
        return unmeasured
    reading = next((each for each in readings if each.sign is not None), readings[0])
    return f"{wordings[reading.sign].format(number=reading)}."
