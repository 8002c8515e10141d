"""Tables I and II on our base model: ZorBA, FedIT, FedZO and DeComFL, each at a rate tuned with the same budget."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from zorba_core.study.experiments.protocol import TUNING_SEED, best_rate, model_of, settings_of
from zorba_core.study.experiments.recipes import Recipe
from zorba_core.study.experiments.specs import PROFILES, Experiment, RunSpec

NAME = "tables"
DATASETS = ("sst2", "ag-news", "snli")
# Blocks of 12 that each ZorBA client activates: the paper's shares of all blocks, 200, 300 and 450 of 600.
BLOCKS = {"ag-news": 4, "sst2": 6, "snli": 9, "toy-reviews": 6}
_FIRST_WAVE = {"sst2": 1, "ag-news": 6, "snli": 7, "toy-reviews": 0}
_LATER_SEEDS_WAVE = 11


@dataclass(frozen=True)
class MethodArm:
    """A method with its number of directions a round, and the rates its trials try: four each."""

    name: str
    method: str
    directions: int | None  # None: it takes the gradient
    rates: tuple[float, ...]
    rounds: int  # of the profiles standard and gpu; a trial has half as many


# The paper gives ZorBA ten directions a round and FedZO and DeComFL one; -10 is the same work for each.
ARMS = (
    MethodArm("zorba", "zorba", 10, (5e-3, 1e-2, 2e-2, 4e-2), 60),
    MethodArm("fedit", "fedit", None, (5e-2, 1e-1, 2e-1, 4e-1), 60),
    MethodArm("decomfl", "decomfl", 1, (1e-3, 2e-3, 4e-3, 8e-3), 240),
    MethodArm("fedzo", "fedzo", 1, (5e-3, 1e-2, 2e-2, 4e-2), 60),
    MethodArm("decomfl-10", "decomfl", 10, (5e-3, 1e-2, 2e-2, 4e-2), 60),
)
_SEEDS = {"ci": (0,), "gpu": (0, 1, 2)}  # others: five
# What profile standard's trials chose, with 20 clients of two rows: profile gpu takes them for its 50 of eight.
_CHOSEN = {
    "sst2": {"zorba": 2e-2, "fedit": 2e-1, "decomfl": 8e-3, "fedzo": 1e-2, "decomfl-10": 4e-2},
    "ag-news": {"zorba": 2e-2, "fedit": 2e-1, "decomfl": 4e-3, "fedzo": 1e-2},
    "snli": {"zorba": 2e-2, "fedit": 2e-1, "decomfl": 2e-3, "fedzo": 1e-2},
}


def rates_of(arm: MethodArm, profile: str) -> tuple[float, ...]:
    if profile == "ci":
        return arm.rates[:1]
    return tuple(rate / 2000 for rate in arm.rates) if profile == "paper" and arm.method != "fedit" else arm.rates


def _build(profile: str, runs: pd.DataFrame) -> list[RunSpec]:
    datasets = ("toy-reviews",) if profile == "ci" else DATASETS
    specs = []
    for dataset in datasets:
        # Equal work is compared where it is cheapest.
        arms = ARMS if dataset == "sst2" else ARMS[:4]
        wave = _FIRST_WAVE[dataset]
        for arm in arms:
            rates = (_CHOSEN[dataset][arm.name],) if profile == "gpu" else rates_of(arm, profile)
            if len(rates) > 1:
                specs += [_spec(profile, dataset, arm, rate, TUNING_SEED, "tune", wave) for rate in rates]
            chosen = best_rate(runs, arm.name, dataset, rates) if len(rates) > 1 else rates[0]
            if chosen is not None:
                specs += [
                    _spec(profile, dataset, arm, chosen, seed, "measure", wave + 1 if seed < 3 else _LATER_SEEDS_WAVE)
                    for seed in _SEEDS.get(profile, range(5))
                ]
    return specs


def _spec(profile: str, dataset: str, arm: MethodArm, lr: float, seed: int, role: str, wave: int) -> RunSpec:
    num_clients = {"ci": 3, "standard": 20, "gpu": 50, "paper": 50}[profile]
    blocks = BLOCKS[dataset] if arm.method == "zorba" else 12
    changes = {} if arm.method == "zorba" else {"method": arm.method}
    if profile in ("standard", "gpu"):
        rounds = arm.rounds // 2 if role == "tune" else arm.rounds
        changes |= {"rounds": rounds, "eval_every": arm.rounds // 12}
    if arm.directions is None or profile != "ci":
        changes["directions"] = arm.directions
    if profile != "ci":
        changes["stop_at_target"] = role == "measure"
    return RunSpec(
        arm.name,
        Recipe("uniform", num_clients, blocks=blocks),
        settings_of(profile, dataset, lr=lr, seed=seed, **changes),
        dataset=dataset,
        model=model_of(profile),
        role=role,
        wave=wave,
    )


EXPERIMENT = Experiment(
    NAME, "How many rounds, how much VRAM and communication does each method need?", _build, PROFILES
)
