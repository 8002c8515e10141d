"""What the three experiments of our own claims share: their cells, sizes, rates and the order of their runs.

``artifacts/experiments/what-to-run/PLAN.md`` states the design, the analysis and the rule of stopping; it was committed
before any of the runs. Runs go seed by seed over all arms of a stage, so that any number of finished seeds is balanced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from zorba_core.study.experiments.energies import stored_facts
from zorba_core.study.experiments.protocol import PAPER_MODEL, TUNING_SEED, best_rate, settings_of
from zorba_core.study.experiments.recipes import Recipe
from zorba_core.study.experiments.specs import RunSpec

Cell = tuple[str, str]  # model, dataset
CELLS: tuple[Cell, ...] = (
    ("opt-mini", "toy-reviews"),
    ("opt-mini", "sst2"),
    ("llama-mini", "sst2"),
    ("llama-mini", "toy-reviews"),
)
HOLD_BACK = 0.5  # share of its blocks that every client holds back, so that who trains what matters
NUM_CLIENTS = 20
ROUNDS = 12
SIZES: Mapping[str, Mapping[str, Any]] = {
    "ci": {"rounds": 2, "eval_every": 1, "estimator": "exact"},
    "standard": {"rounds": ROUNDS, "eval_every": 3, "eval_rows": 200, "estimator": "exact"},
    "paper": {"estimator": "exact"},
}
# Five rates an arm; its trials decide. The normalised step's is a length; the cosine's mean is half. The two largest
# of each came with the second amendment of the plan.
RATES = {
    "plain": (1e-2, 2e-2, 4e-2, 6e-2, 8e-2),
    "lengths": (5e-3, 1e-2, 2e-2, 4e-2, 6e-2),
    "meerkat": (2.5e-2, 5e-2, 1e-1, 2e-1, 4e-1),
    "fedkseed": (2.5e-3, 5e-3, 1e-2, 1.5e-2, 2e-2),
    "cosine": (2e-2, 4e-2, 8e-2, 1.2e-1, 1.6e-1),
    "normalised": (1.5e-2, 3e-2, 6e-2, 9e-2, 1.2e-1),
}


def cells_of(profile: str) -> tuple[Cell, ...]:
    """Model and dataset of each cell, in the order of running."""
    return {"ci": (("opt-mini", "toy-reviews"),), "paper": ((PAPER_MODEL, "sst2"),)}.get(profile, CELLS)


def clients_of(profile: str) -> int:
    return {"ci": 4, "standard": NUM_CLIENTS, "paper": 50}[profile]


def solver_recipe(
    solver: str, profile: str, seed: int, cell: Cell, num_clients: int, *, facts: bool = True, **changes: Any
) -> Recipe | None:
    """``solver`` on the fleet of this seed, clients holding back half. Gain's facts are those of the public proxy, and
    None where they have not been measured for the cell; without a proxy (ci, paper), or where they are not to be used,
    all blocks count alike."""
    if solver == "gain" and profile == "standard" and facts:
        stored = stored_facts(*cell)
        if stored is None:
            return None
        changes |= {"energies": stored[0], "noises": stored[1]}
    return Recipe("solver", num_clients, solver=solver, draw=seed, hold_back=HOLD_BACK, **changes)


def rates_of(profile: str, kind: str) -> tuple[float, ...]:
    rates = RATES[kind]
    if profile == "ci":
        return rates[:1]
    return tuple(rate / 2000 for rate in rates) if profile == "paper" else rates


def spec_of(
    arm: str, recipe: Recipe, profile: str, cell: Cell, *, lr: float, seed: int, role: str, wave: int, **changes: Any
) -> RunSpec:
    model, dataset = cell
    settings = settings_of(profile, dataset, lr=lr, seed=seed, **{**SIZES[profile], "target": None, **changes})
    return RunSpec(arm, recipe, settings, dataset=dataset, model=model, role=role, wave=wave)


def tuned(runs: pd.DataFrame, arm: str, cell: Cell, rates: Sequence[float]) -> float | None:
    """The rate with the lowest late loss on the tuning seed; None until all its trials are in."""
    if len(rates) == 1:
        return rates[0]
    of_model = runs[(runs["model"] == cell[0]) & (runs["seed"] == TUNING_SEED)]
    return best_rate(of_model, arm, cell[1], rates)


def trials_and_runs(
    runs: pd.DataFrame,
    arm: str,
    profile: str,
    cell: Cell,
    recipe_of: Any,  # seed -> Recipe or None
    kind: str,
    waves: Mapping[int | str, int],
    **changes: Any,
) -> list[RunSpec]:
    """Trials of each rate on the tuning seed (wave "tune"); once they are in, a run for each seed of ``waves``."""
    rates = rates_of(profile, kind)
    specs = []
    if len(rates) > 1:
        recipe = recipe_of(TUNING_SEED)
        if recipe is None:
            return []
        specs = [
            spec_of(
                arm,
                recipe,
                profile,
                cell,
                lr=rate,
                seed=TUNING_SEED,
                role="tune",
                wave=waves["tune"],
                **changes,
            )
            for rate in rates
        ]
    chosen = tuned(runs, arm, cell, rates)
    if chosen is not None:
        specs += [
            spec_of(arm, recipe_of(seed), profile, cell, lr=chosen, seed=seed, role="measure", wave=wave, **changes)
            for seed, wave in waves.items()
            if seed != "tune"
        ]
    return specs
