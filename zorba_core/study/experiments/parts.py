"""What does each part buy? The paper's ZorBA with one change at a time, with all of them, and other methods, at equal
forward passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd

from zorba_core.study.experiments.own_protocol import cells_of, trials_and_runs
from zorba_core.study.experiments.specs import Experiment, RunSpec
from zorba_core.study.experiments.what_to_run import ARMS as ARMS_TO_RUN
from zorba_core.study.experiments.what_to_run import BEST_STEP, CANDIDATE, FULL, PAPER, recipe_of_arm

NAME = "parts"


@dataclass(frozen=True)
class Part:
    """One arm: whose allocation, which rates, and what differs from the paper's settings."""

    allocation: str  # an arm of what-to-run
    rates: str = "plain"
    changes: Mapping[str, Any] = field(default_factory=dict)


_COSINE = {"schedule": "cosine", "warmup": 2}
ARMS: Mapping[str, Part] = {
    PAPER: Part(PAPER),  # this one, gain, candidate and full are runs of what-to-run
    "+ cosine": Part(PAPER, "cosine", _COSINE),
    "+ normalised": Part(PAPER, "normalised", {"step": "normalised"}),
    "gain": Part("gain"),
    "gain, idle blocks": Part("gain, idle blocks", "plain", ARMS_TO_RUN["gain, idle blocks"].changes),
    CANDIDATE: Part(CANDIDATE, "normalised", ARMS_TO_RUN[CANDIDATE].changes),
    FULL: Part(FULL),
    "full + normalised + cosine": Part(FULL, "normalised", BEST_STEP),
    "decomfl": Part(FULL, "plain", {"method": "decomfl"}),
    "hiso": Part(FULL, "plain", {"method": "hiso"}),
    "meerkat": Part(FULL, "meerkat", {"method": "meerkat"}),
    # Six local steps of two passes each: one forward pass a round more than the others have.
    "fedkseed": Part(FULL, "fedkseed", {"method": "fedkseed", "num_perturbations": 6}),
}
STANDARD = (("opt-mini", "toy-reviews"), ("opt-mini", "sst2"), ("llama-mini", "sst2"))
_SEEDS = {"ci": 1, "standard": 12, "paper": 12}
_TUNE, _FIRST, _LATER = 30, 31, 60
_FIRST_SEEDS = 6


def _build(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    waves: dict[int | str, int] = {"tune": _TUNE}
    waves |= {seed: _FIRST + seed if seed < _FIRST_SEEDS else _LATER + seed for seed in range(_SEEDS[profile])}
    specs = []
    for cell in STANDARD if profile == "standard" else cells_of(profile):
        for arm, part in ARMS.items():
            recipe_of = partial(recipe_of_arm, part.allocation, profile, cell)
            specs += trials_and_runs(runs, arm, profile, cell, recipe_of, part.rates, waves, **part.changes)
    return specs


EXPERIMENT = Experiment(NAME, "What do step, schedule and importance buy, one at a time and together?", _build)
