"""Lengths of each block's own, and directions of each client's own: do they make the paper's ZorBA twice as fast?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.allocation.gain import block_lengths
from zorba_core.study.experiments.energies import stored_facts
from zorba_core.study.experiments.own_protocol import CELLS, HOLD_BACK, Cell, cells_of, clients_of, trials_and_runs
from zorba_core.study.experiments.recipes import Recipe
from zorba_core.study.experiments.specs import Experiment, RunSpec

NAME = "lengths"
PAPER, BEST, SAME_BYTES = "paper", "best", "gain + lengths"
EVERY_ROUND = {"eval_every": 1}
OWN_DIRECTIONS = "zorba-own"


@dataclass(frozen=True)
class LengthArm:
    """An allocation, and which of the two parts an arm has. ``solver`` none: every block of every client."""

    solver: str | None = "lexicographic"
    lengths: bool = False
    own: bool = False


ARMS: Mapping[str, LengthArm] = {
    PAPER: LengthArm(),
    BEST: LengthArm("gain", lengths=True, own=True),
    SAME_BYTES: LengthArm("gain", lengths=True),
    "lengths": LengthArm(lengths=True),
    "own": LengthArm(own=True),
    "lengths + own": LengthArm(lengths=True, own=True),
    "gain": LengthArm("gain"),
    "full + lengths": LengthArm(None, lengths=True),
}
_SEEDS = {"ci": 1, "standard": 20, "paper": 20}
_FIRST_SEEDS, _CELL_WAVES, _FIRST, _LATER = 4, 10, 300, 400


def facts_of(profile: str, cell: Cell) -> tuple[np.ndarray, np.ndarray] | None:
    """Energies and noises of the blocks by the public proxy, (M,) each; alike without one (ci, paper); None where they
    have not been measured."""
    if profile != "standard":
        return np.ones(12), np.ones(12)
    stored = stored_facts(*cell)
    return None if stored is None else (np.array(stored[0]), np.array(stored[1]))


def recipe_of_arm(arm: str, profile: str, cell: Cell, seed: int) -> Recipe | None:
    chosen, clients, facts = ARMS[arm], clients_of(profile), facts_of(profile, cell)
    if chosen.solver is None:
        return Recipe("uniform", clients, blocks=12)
    changes: dict[str, Any] = {}
    if chosen.solver == "gain":
        if facts is None:
            return None
        energy_M, noise_M = facts
        square_M = block_lengths(energy_M) ** 2 if chosen.lengths else np.ones(len(energy_M))
        energy_M, noise_M = energy_M * square_M, noise_M * square_M
        changes = {"energies": _rounded(energy_M), "noises": _rounded(noise_M)}
    return Recipe("solver", clients, solver=chosen.solver, draw=seed, hold_back=HOLD_BACK, **changes)


def _rounded(values_M: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{value:.4g}") for value in values_M)


def changes_of_arm(arm: str, profile: str, cell: Cell) -> dict[str, Any] | None:
    """What differs from the paper's settings; None where lengths need facts that have not been measured."""
    chosen, facts = ARMS[arm], facts_of(profile, cell)
    changes: dict[str, Any] = {} if profile == "ci" else dict(EVERY_ROUND)
    if chosen.lengths:
        if facts is None:
            return None
        changes["block_scales"] = ",".join(f"{length:g}" for length in _rounded(block_lengths(facts[0])))
    return changes | ({"method": OWN_DIRECTIONS} if chosen.own else {})


def _build(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    specs = []
    for cell in cells_of(profile):
        first = _FIRST + _CELL_WAVES * (CELLS.index(cell) if cell in CELLS else 0)
        waves: dict[int | str, int] = {"tune": first}
        waves |= {s: first + 1 + s if s < _FIRST_SEEDS else _LATER + s for s in range(_SEEDS[profile])}
        for arm, chosen in ARMS.items():
            changes, recipe_of = changes_of_arm(arm, profile, cell), partial(recipe_of_arm, arm, profile, cell)
            if changes is None or recipe_of(0) is None:
                continue
            rates = "lengths" if chosen.lengths else "plain"
            specs += trials_and_runs(runs, arm, profile, cell, recipe_of, rates, waves, **changes)
    return specs


EXPERIMENT = Experiment(NAME, "Do block lengths and own directions make the paper's ZorBA twice as fast?", _build)
