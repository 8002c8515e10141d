"""What should I run? The same fleets at equal VRAM: the paper's allocation, others, and all blocks as a reference."""

from __future__ import annotations

from functools import partial

import pandas as pd

from zorba_core.study.experiments.own_protocol import (
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
PAPER, FULL = "paper", "full"
SOLVERS = {PAPER: "lexicographic", "lambda-exact": "exact", "balanced": "balanced", "gain": "gain"}
ARMS = (*SOLVERS, FULL)
DIFFERENCES = "by differences"  # the same run with finite differences: what an arm's name ends with
_DIFFERENCES_OF, _DIFFERENCES_SEEDS = (PAPER, FULL), (0, 1, 2)
SEEDS = {"ci": 1, "standard": 20, "paper": 20}
# First wave of the trials and of seeds 0-5, 6-11 and 12-19, for the cells of opt-mini and of llama-mini.
STAGES = {"opt-mini": (0, 1, 40, 100), "llama-mini": (10, 11, 40, 100)}
_STAGE_SEEDS = (0, 6, 12)
_DIFFERENCES_WAVE = 18


def waves_of(profile: str, model: str) -> dict[int | str, int]:
    """The wave of the trials ("tune") and of every seed."""
    tune, *first = STAGES.get(model, STAGES["opt-mini"])
    waves: dict[int | str, int] = {"tune": tune}
    for seed in range(SEEDS[profile]):
        stage = max(place for place, start in enumerate(_STAGE_SEEDS) if seed >= start)
        waves[seed] = first[stage] + seed - _STAGE_SEEDS[stage]
    return waves


def recipe_of_arm(arm: str, profile: str, cell: Cell, seed: int) -> Recipe | None:
    if arm == FULL:
        return Recipe("uniform", clients_of(profile), blocks=12)
    return solver_recipe(SOLVERS[arm], profile, seed, cell)


def _build(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    specs = []
    for cell in cells_of(profile):
        for arm in ARMS:
            recipe_of = partial(recipe_of_arm, arm, profile, cell)
            specs += trials_and_runs(runs, arm, profile, cell, recipe_of, "plain", waves_of(profile, cell[0]))
    if profile == "standard":
        specs += _by_differences(profile, runs)
    return specs


def _by_differences(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    """Some runs again with the finite differences that a client computes."""
    cell, specs = ("opt-mini", "sst2"), []
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
