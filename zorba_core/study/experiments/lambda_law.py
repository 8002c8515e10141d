"""Does Lambda predict convergence? Many allocations, the same rounds, and their losses."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from zorba_core.study.experiments.cases import ROUNDS, scenario_recipes
from zorba_core.study.experiments.protocol import model_of, settings_of
from zorba_core.study.experiments.recipes import Recipe
from zorba_core.study.experiments.specs import Experiment, RunSpec

NAME = "lambda"
RATES = (2e-2, 1e-2, 3e-2)  # one fixed rate first, then what a rate tuned for each allocation needs
CORE = (
    "full",
    "balanced-8",
    "balanced-4",
    "balanced-2",
    "balanced-1",
    "starved-1",
    "starved-3",
    "starved-6",
    "twos",
    "twos-pile",
    "hub-spread",
    "hub-pile",
    "hub2-spread",
    "hub2-pile",
    "hub3-pile",
    "linear",
    "linear-pile",
    "hub-2-generalists",
    "nearly-full",
    "exact-100",
    "one-scarce",
    "eleven-scarce",
)
TUNED_SEEDS = (0, 1)  # of CORE at every rate: each seed's rate is chosen on the other
# Also run with IID rows and with Dir(0.1).
SUBSET = (
    "full",
    "balanced-8",
    "balanced-4",
    "balanced-2",
    "starved-3",
    "twos-pile",
    "hub-spread",
    "hub-pile",
    "hub3-pile",
    "nearly-full",
)
IID = 1e6  # every client has the same mixture of labels, to a row
# Of equal V and popularities, and of equal Lambda: what tells most in the fewest runs.
_PAIRS = ("hub-spread", "hub-pile", "hub2-spread", "hub2-pile", "twos", "twos-pile", "linear", "linear-pile")
_SCARCE = ("one-scarce", "eleven-scarce")
# Waves by seed at the first rate, the first name set that has the allocation.
_FIRST_WAVES = ((_SCARCE, (0, 2, 2)), (_PAIRS, (0, 3, 4)), (CORE, (0, 3, 4)))
_REST_WAVES, _MIXTURE_WAVES, _FIFTY_WAVE, _LAST_WAVE = (8, 8, 9), (9, 9, 9), 10, 12
_SEEDS = {"ci": (0,), "standard": (0, 1, 2), "paper": (0, 1, 2)}


def recipes_20() -> dict[str, Recipe]:
    """Allocations for 20 clients and 12 blocks. Twelve of them have 80 blocks, so that T explains nothing there."""
    N = 20
    popular = {
        "starved-1": ((1, *[7] * 9, 8, 8), "spread"),
        "starved-3": ((1, 1, 1, 8, 8, 8, 8, *[9] * 5), "spread"),
        "starved-6": ((*[1] * 6, 12, 12, 12, 12, 13, 13), "spread"),
        "twos": ((2, 2, 2, 2, *[9] * 8), "spread"),
        "twos-pile": ((2, 2, 2, 2, *[9] * 8), "pile"),
        "hub-spread": ((20, *[5] * 6, *[6] * 5), "spread"),
        "hub-pile": ((20, *[5] * 6, *[6] * 5), "pile"),
        "hub2-spread": ((20, 20, *[4] * 10), "spread"),
        "hub2-pile": ((20, 20, *[4] * 10), "pile"),
        "hub3-pile": ((20, 20, 20, *[2] * 7, 3, 3), "pile"),
        "linear": ((2, 3, 4, 5, 6, 6, 7, 7, 8, 9, 11, 12), "spread"),
        "linear-pile": ((2, 3, 4, 5, 6, 6, 7, 7, 8, 9, 11, 12), "pile"),
        "hub-2-generalists": ((20, *[2] * 11), "pile"),
        "hub-8-generalists": ((20, *[8] * 11), "pile"),
        "nearly-full": ((1, 1, 1, *[20] * 9), "spread"),
        # Proposition 1: one multiset of least popularities, hence one Lambda; one block scarce, or eleven.
        "one-scarce": ((1, *[20] * 11), "pile"),
        "eleven-scarce": ((20, *[1] * 11), "pile"),
    }
    return {
        "full": Recipe("uniform", N, blocks=12),
        **{f"balanced-{k}": Recipe("uniform", N, blocks=k) for k in (4, 2, 8, 1, 6, 3, 10)},
        **{name: Recipe("popularity", N, popularity_M=c, placement=how) for name, (c, how) in popular.items()},
        "random-25": Recipe("random", N, share=0.25),
        "random-50": Recipe("random", N, share=0.5),
        "lexicographic": Recipe("solver", N, solver="lexicographic"),
        "two-level-60": Recipe("solver", N, solver="two-level", total=60),
        "exact-100": Recipe("solver", N, solver="exact", total=100),
        "exact-100-cap-6": Recipe("solver", N, solver="exact", total=100, cap=6),
        "scenario-120": Recipe("scenario", N, total=120, target_lambda=0.8, draw=-1),
        "scenario-160": Recipe("scenario", N, total=160, target_lambda=1.5, draw=-1),
    }


def recipes_50() -> dict[str, Recipe]:
    """Allocations for 50 clients and 12 blocks, the paper's three scenarios among them."""
    N = 50
    return {
        "full": Recipe("uniform", N, blocks=12),
        **{f"balanced-{k}": Recipe("uniform", N, blocks=k) for k in (4, 1)},
        **scenario_recipes(),
        "lexicographic": Recipe("solver", N, solver="lexicographic"),
        "two-level-200": Recipe("solver", N, solver="two-level", total=200),
        "hub-5-generalists": Recipe("popularity", N, popularity_M=(50, *[5] * 11), placement="pile"),
        "starved-3": Recipe("popularity", N, popularity_M=(1, 1, 1, *[22] * 8, 21), placement="spread"),
    }


def _build(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    if profile == "ci":
        few = {"balanced-3": Recipe("uniform", 4, blocks=3), "full": Recipe("uniform", 4, blocks=12)}
        few["hub-pile"] = Recipe("popularity", 4, popularity_M=(4, *[1] * 11), placement="pile")
        return [_spec(profile, name, recipe, 2e-2, 0, dataset="toy-reviews") for name, recipe in few.items()]
    specs = []
    for seed in _SEEDS[profile]:
        if profile == "paper":
            specs += [
                _spec(profile, name, recipe, rate, seed) for name, recipe in recipes_50().items() for rate in (5e-6,)
            ]
            continue
        for name, recipe in recipes_20().items():
            specs.append(_spec(profile, name, recipe, RATES[0], seed, wave=_wave(name, seed)))
            if name in CORE and seed in TUNED_SEEDS:
                specs += [_spec(profile, name, recipe, rate, seed, wave=_LAST_WAVE) for rate in RATES[1:]]
        specs += [
            _spec(profile, name, recipe, RATES[0], seed, wave=_FIFTY_WAVE) for name, recipe in recipes_50().items()
        ]
        specs += [
            _spec(profile, name, recipes_20()[name], RATES[0], seed, wave=_MIXTURE_WAVES[seed], alpha=alpha)
            for alpha in (0.1, IID)
            for name in SUBSET
        ]
    return specs


def _wave(name: str, seed: int) -> int:
    return next((waves[seed] for names, waves in _FIRST_WAVES if name in names), _REST_WAVES[seed])


def _spec(
    profile: str,
    name: str,
    recipe: Recipe,
    lr: float,
    seed: int,
    *,
    wave: int = 0,
    alpha: float = 1.0,
    dataset: str = "sst2",
) -> RunSpec:
    if recipe.kind not in ("uniform", "random"):
        recipe = replace(recipe, shuffle=seed)  # which blocks are scarce differs from seed to seed
    changes = {"rounds": ROUNDS} if profile == "standard" else {}
    settings = settings_of(profile, dataset, lr=lr, seed=seed, **changes)
    return RunSpec(name, recipe, settings, dataset=dataset, alpha=alpha, model=model_of(profile), wave=wave)


EXPERIMENT = Experiment(
    NAME, "Which measure of an allocation predicts how fast it learns: Lambda, V, E, D, N_eff, T or min c?", _build
)
