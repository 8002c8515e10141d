"""SC1, SC2 and SC3 of Fig. 4: matrices with the printed (VRAM ratio, Lambda), and the rounds they take."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from zorba_core.allocation.scenarios import PAPER_SCENARIOS
from zorba_core.fleet import Fleet
from zorba_core.study.experiments.protocol import model_of, settings_of
from zorba_core.study.experiments.recipes import Recipe
from zorba_core.study.experiments.specs import PROFILES, Experiment, RunSpec

NAME = "cases"
_NUM_CLIENTS = 50
_RATES = {"ci": 2e-2, "standard": 2e-2, "gpu": 2e-2, "paper": 5e-6}
_SEEDS = {"ci": (0,)}  # others: five
_WAVES = (5, 5, 5, 10, 10)
ROUNDS = 30  # of the standard profile, and of the experiment lambda: the same run serves both


def scenario_recipes() -> dict[str, Recipe]:
    """The three scenarios for 50 clients and OPT-125M, on the fleet of draw 0."""
    fleet = Fleet.uniform("opt-125m", _NUM_CLIENTS, seed=0)
    return {
        name: Recipe(
            "scenario",
            _NUM_CLIENTS,
            total=fleet.total_at_ratio(scenario.vram_ratio),
            target_lambda=scenario.bias_lambda,
        )
        for name, scenario in PAPER_SCENARIOS.items()
    }


def _build(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    dataset = "toy-reviews" if profile == "ci" else "sst2"
    changes = {"ci": {"rounds": 1, "directions": 1}, "standard": {"rounds": ROUNDS}}.get(profile, {})
    return [
        RunSpec(
            name,
            replace(recipe, shuffle=seed),
            settings_of(profile, dataset, lr=_RATES[profile], seed=seed, **changes),
            dataset=dataset,
            model=model_of(profile),
            wave=_WAVES[seed],
        )
        for seed in _SEEDS.get(profile, range(5))
        for name, recipe in scenario_recipes().items()
    ]


EXPERIMENT = Experiment(NAME, "Is SC1 like SC2, and SC3 slower, beyond the noise of seeds?", _build, PROFILES)
