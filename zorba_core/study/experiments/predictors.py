"""What predicts? Matrices of one total whose measures tell nothing of each other, blocks permuted anew in every run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from zorba_core.study.experiments.design import NUM_BLOCKS, NUM_CLIENTS, recipe_of, stored_design
from zorba_core.study.experiments.own_protocol import Cell, rates_of, spec_of, tuned
from zorba_core.study.experiments.protocol import TUNING_SEED
from zorba_core.study.experiments.recipes import Recipe
from zorba_core.study.experiments.specs import Experiment, RunSpec

NAME = "predictors"
BALANCED = "balanced-4"  # its trials choose the one rate of all matrices; not one of them
_CELLS: tuple[Cell, ...] = (
    ("opt-mini", "toy-reviews"),
    ("llama-mini", "sst2"),
    ("opt-mini", "sst2"),
    ("llama-mini", "toy-reviews"),
)
_SEEDS = {"ci": 1, "standard": 12, "paper": 12}
_FIRST = (51, 81, 131, 161)  # wave of seed 0 of each cell; the trials come just before
_PERMUTATIONS = 1000  # more than there are matrices: every run of every seed has a permutation of its own


def name_of(index: int) -> str:
    return f"matrix-{index:02d}"


def _build(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    if profile == "ci":
        rng = np.random.default_rng(0)
        recipes = [Recipe("random", 4, share=0.4, draw=int(draw)) for draw in rng.integers(0, 100, 2)]
        cell = ("opt-mini", "toy-reviews")
        return [
            spec_of(name_of(k), recipe, profile, cell, lr=3e-2, seed=0, role="measure", wave=0, step="normalised")
            for k, recipe in enumerate(recipes)
        ]
    specs, columns_K = [], stored_design().columns_K
    changes = {"step": "normalised"}
    for cell, first in zip(_CELLS if profile == "standard" else (("facebook/opt-125m", "sst2"),), _FIRST, strict=False):
        rates = rates_of(profile, "normalised")
        trial = Recipe("uniform", NUM_CLIENTS, num_blocks=NUM_BLOCKS, blocks=4)
        specs += [
            spec_of(BALANCED, trial, profile, cell, lr=rate, seed=TUNING_SEED, role="tune", wave=first - 1, **changes)
            for rate in rates
        ]
        lr = tuned(runs, BALANCED, cell, rates)
        if lr is None:
            continue
        specs += [
            spec_of(
                name_of(k),
                recipe_of(columns, shuffle=seed * _PERMUTATIONS + k),
                profile,
                cell,
                lr=lr,
                seed=seed,
                role="measure",
                wave=first + seed,
                **changes,
            )
            for seed in range(_SEEDS[profile])
            for k, columns in enumerate(columns_K)
        ]
    return specs


EXPERIMENT = Experiment(NAME, "At one total, which measure of an allocation predicts how fast it learns?", _build)
