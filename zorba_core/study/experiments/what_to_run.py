"""What should I run? The same fleets at equal VRAM: the paper's allocation, others, and all blocks as a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd

from zorba_core.study.experiments.own_protocol import (
    CELLS,
    Cell,
    cells_of,
    clients_of,
    rates_of,
    solver_recipe,
    spec_of,
    trials_and_runs,
    tuned,
)
from zorba_core.study.experiments.recipes import Recipe
from zorba_core.study.experiments.specs import Experiment, RunSpec

NAME = "what-to-run"
PAPER, FULL, CANDIDATE = "paper", "full", "candidate"
# What the candidate changes beside the allocation.
BEST_STEP: Mapping[str, Any] = {"step": "normalised", "schedule": "cosine", "warmup": 2}
_IDLE = {"idle_blocks": "allow"}


@dataclass(frozen=True)
class AllocationArm:
    """An allocation, and what differs from the paper's settings. ``solver`` none: every block of every client."""

    solver: str | None
    core: bool
    changes: Mapping[str, Any] = field(default_factory=dict)
    facts: bool = True  # what gain is given of the blocks; without, it takes them as alike

    @property
    def rates(self) -> str:
        return "normalised" if self.changes.get("step") == "normalised" else "plain"


ARMS: Mapping[str, AllocationArm] = {
    PAPER: AllocationArm("lexicographic", core=True),
    "gain": AllocationArm("gain", core=True),
    CANDIDATE: AllocationArm("gain", core=True, changes={**BEST_STEP, **_IDLE}),
    "balanced": AllocationArm("balanced", core=True),
    "adaptive": AllocationArm("balanced", core=False, changes={"replan": 6, "explore": 4}),  # balanced at first
    "gain, blocks alike": AllocationArm("gain", core=False, facts=False),
    "gain, idle blocks": AllocationArm("gain", core=False, changes=_IDLE),
    "lambda-exact": AllocationArm("exact", core=False),
    FULL: AllocationArm(None, core=False),
}
CORE = tuple(name for name, arm in ARMS.items() if arm.core)
DIFFERENCES = "by differences"  # the same run with finite differences: what an arm's name ends with
_DIFFERENCES_OF, _DIFFERENCES_SEEDS, _DIFFERENCES_WAVE = (PAPER, "gain"), (0, 1, 2), 28
SEEDS = {"ci": 1, "standard": 20, "paper": 20}
# Waves of the core arms' trials by cell, of the others' by base; then come the first seeds, and later ones after all.
_CORE_TUNE = {cell: 5 * place for place, cell in enumerate(CELLS)}
_REST_TUNE = {"opt-mini": 20, "llama-mini": 40}
_FIRST_SEEDS, _LATER = 4, 100


def waves_of(profile: str, arm: str, cell: Cell) -> dict[int | str, int]:
    """The wave of the trials ("tune") and of every seed."""
    tune = _CORE_TUNE.get(cell, 0) if ARMS[arm].core else _REST_TUNE.get(cell[0], 0)
    seeds = range(SEEDS[profile])
    return {"tune": tune} | {seed: tune + 1 + seed if seed < _FIRST_SEEDS else _LATER + seed for seed in seeds}


def recipe_of_arm(arm: str, profile: str, cell: Cell, seed: int, num_clients: int | None = None) -> Recipe | None:
    chosen = ARMS[arm]
    clients = num_clients or clients_of(profile)
    if chosen.solver is None:
        return Recipe("uniform", clients, blocks=12)
    idle = {"idle": True} if chosen.solver == "gain" and "idle_blocks" in chosen.changes else {}
    return solver_recipe(chosen.solver, profile, seed, cell, clients, facts=chosen.facts, **idle)


def _build(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    specs = []
    for cell in cells_of(profile):
        for name, arm in ARMS.items():
            recipe_of, waves = partial(recipe_of_arm, name, profile, cell), waves_of(profile, name, cell)
            specs += trials_and_runs(runs, name, profile, cell, recipe_of, arm.rates, waves, **arm.changes)
    if profile == "standard":
        specs += _by_differences(profile, runs)
    return specs


def _by_differences(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    """Some runs again with the finite differences that a client computes."""
    cell, specs = ("opt-mini", "toy-reviews"), []
    for seed in _DIFFERENCES_SEEDS:
        for arm in _DIFFERENCES_OF:
            lr = tuned(runs, arm, cell, rates_of(profile, "plain"))
            if lr is not None:
                recipe = recipe_of_arm(arm, profile, cell, seed)
                specs.append(
                    spec_of(
                        f"{arm}, {DIFFERENCES}",
                        recipe,
                        profile,
                        cell,
                        lr=lr,
                        seed=seed,
                        role="measure",
                        wave=_DIFFERENCES_WAVE,
                        estimator="cohort",
                    )
                )
    return specs


EXPERIMENT = Experiment(NAME, "At equal VRAM, which allocation learns fastest?", _build)
