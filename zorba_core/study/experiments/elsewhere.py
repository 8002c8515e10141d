"""Does the answer of ``what-to-run`` hold elsewhere? Each cell changes one thing: the task, the number of clients, or
what becomes of inactive blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd

from zorba_core.study.experiments.own_protocol import Cell, clients_of, trials_and_runs
from zorba_core.study.experiments.specs import Experiment, RunSpec
from zorba_core.study.experiments.what_to_run import ARMS as ARMS_TO_RUN
from zorba_core.study.experiments.what_to_run import FULL, PAPER, recipe_of_arm

NAME = "elsewhere"
ARMS = (PAPER, "gain", "balanced", FULL, "adaptive", "lambda-exact")  # the last two: the plan's amendment


@dataclass(frozen=True)
class Place:
    """What is different from the cell of ``what-to-run`` with this base model."""

    what: str
    num_clients: int | None = None  # as there
    changes: Mapping[str, Any] = field(default_factory=dict)


# No two have one model and dataset, by which the analysis tells cells apart.
PLACES: Mapping[Cell, Place] = {
    ("opt-mini", "ag-news"): Place("another task, of four classes"),
    ("opt-mini", "toy-reviews"): Place("inactive blocks left out of the forward pass", changes={"inactive": "dropped"}),
    ("opt-mini", "sst2"): Place("50 clients", num_clients=50),
    ("opt-mini", "snli"): Place("another task, of pairs of sentences"),
}
LEAST_LOST = 0.02  # nats that the paper's best trial has to lose: a cell that does not learn is not pooled
_SEEDS = {"ci": 1, "standard": 20, "paper": 20}
_FIRST = 200  # wave of the trials of the first place: after the first seeds of the other experiments


def _build(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    specs = []
    for place, (cell, different) in enumerate(PLACES.items()):
        if profile != "standard" and place:
            break  # one place shows that it runs
        waves: dict[int | str, int] = {"tune": _FIRST}
        waves |= {seed: _FIRST + 1 + seed for seed in range(_SEEDS[profile])}
        clients = different.num_clients if profile == "standard" else None
        for arm in ARMS:
            recipe_of = partial(recipe_of_arm, arm, profile, cell, num_clients=clients or clients_of(profile))
            changes = {**ARMS_TO_RUN[arm].changes, **different.changes}
            specs += trials_and_runs(runs, arm, profile, cell, recipe_of, ARMS_TO_RUN[arm].rates, waves, **changes)
    return specs


EXPERIMENT = Experiment(NAME, "Does the answer hold for other tasks, more clients and dropped blocks?", _build)
