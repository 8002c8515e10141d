"""One change at a time: frozen or dropped blocks, the directions' distribution, mu, Q, and which blocks are trained."""

from __future__ import annotations

from typing import Any

import pandas as pd

from zorba_core.study.experiments.protocol import model_of, settings_of
from zorba_core.study.experiments.recipes import Recipe
from zorba_core.study.experiments.specs import Experiment, RunSpec

NAME = "ablations"
_RATE = 2e-2
_SEEDS = {"ci": (0,), "standard": (0, 1, 2), "paper": (0, 1, 2)}
_WAVES = (8, 9, 10)
_PRINTED = "as printed"


def _arms(N: int) -> dict[str, tuple[Recipe, dict[str, Any]]]:
    """The first is what every other differs from in one thing. ``balanced, shuffled`` trains as much as it does, with
    the blocks in another order; ``last`` and ``first`` give every client the same four blocks and train no other."""
    usual = Recipe("uniform", N, blocks=4)
    return {
        "usual": (usual, {}),
        "dropped": (usual, {"inactive": "dropped"}),
        "gaussian": (usual, {"direction": "gaussian"}),
        "sphere": (usual, {"direction": "sphere"}),
        "last 4 blocks": (Recipe("only", N, only_blocks=(8, 9, 10, 11)), {}),
        "first 4 blocks": (Recipe("only", N, only_blocks=(0, 1, 2, 3)), {}),
        "shuffled blocks": (Recipe("uniform", N, blocks=4, shuffle=1), {}),
        "mu 1e-4": (usual, {"mu": 1e-4}),
        "mu 1e-2": (usual, {"mu": 1e-2}),
        _PRINTED: (usual, {"direction": "unit-sphere", "mu": 1e-4, "lr": 5e-5}),
        "Q 1": (usual, {"directions": 1}),
        "Q 4": (usual, {"directions": 4}),
        "Q 20": (usual, {"directions": 20}),
        "Q 1, rate / 4": (usual, {"directions": 1, "lr": _RATE / 4}),
    }


def _build(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    arms = _arms({"ci": 4, "standard": 20, "paper": 50}[profile])
    if profile == "ci":
        arms = {name: arms[name] for name in ("usual", "dropped", "gaussian")}
    dataset = "toy-reviews" if profile == "ci" else "sst2"
    specs = []
    for seed in _SEEDS[profile]:
        for name, (recipe, changes) in arms.items():
            rate = changes.get("lr", _RATE) / (1 if profile != "paper" else 4000)
            size = {"rounds": 30} if profile == "standard" else {}
            settings = settings_of(profile, dataset, seed=seed, **{**size, **changes, "lr": rate})
            specs.append(
                RunSpec(
                    name,
                    recipe,
                    settings,
                    dataset=dataset,
                    model=model_of(profile),
                    wave=2 if name == _PRINTED else _WAVES[seed],
                )
            )
    return specs


EXPERIMENT = Experiment(NAME, "What do frozen blocks, directions, mu, Q and the order of blocks change?", _build)
