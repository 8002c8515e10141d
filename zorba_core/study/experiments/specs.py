"""One run of an experiment, as a frozen request, and an experiment as a list of them. No torch in here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from zorba_core.errors import InvalidInputError
from zorba_core.files import to_json
from zorba_core.study.experiments.recipes import Recipe

PROFILES = ("ci", "standard", "gpu", "paper")
USUAL_PROFILES = ("ci", "standard", "paper")
ROLES = ("measure", "tune")
EARLIER_NAMES = {"num_perturbations": "directions"}  # what stored tables call a setting, and its name now


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides a run's bits, but for the engine's version, and the labels it is found by.

    ``settings`` are fields of :class:`zorba_core.engine.settings.Settings` by name (the method among them);
    ``arm``, ``role`` and ``wave`` label the run and are not part of its identity: two experiments that ask for the same
    run share it.
    """

    arm: str  # what is compared: the runs of an arm differ in their seed alone
    recipe: Recipe
    settings: Mapping[str, Any]
    dataset: str = "sst2"
    alpha: float = 1.0  # of the Dirichlet division of rows
    model: str = "opt-mini"
    role: str = "measure"  # or "tune": a trial whose result chooses a learning rate
    wave: int = 0  # runs of a lower wave go first, over all experiments

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise InvalidInputError(f"role is {self.role!r}; choose one of {', '.join(ROLES)}")
        if "seed" not in self.settings:
            raise InvalidInputError(f"arm {self.arm}: the settings have no seed; every run names its own")
        object.__setattr__(self, "settings", dict(sorted(self.settings.items())))

    @property
    def seed(self) -> int:
        return self.settings["seed"]

    def run_settings(self) -> dict[str, Any]:
        """Fields of ``Settings``. A target ends a run only where ``stop_at_target`` says so."""
        settings = dict(self.settings)
        if not settings.pop("stop_at_target", False):
            settings["target"] = None
        return settings

    @property
    def method(self) -> str:
        return self.settings.get("method", "zorba")

    def request(self) -> dict[str, Any]:
        """What is hashed: data, model, recipe and settings, these under the names of the stored runs."""
        earlier = {name: before for before, name in EARLIER_NAMES.items()}
        return {
            "dataset": self.dataset,
            "alpha": self.alpha,
            "model": self.model,
            "recipe": self.recipe.describe(),
            "settings": {earlier.get(name, name): value for name, value in self.settings.items()},
        }

    @property
    def sha256(self) -> str:
        canonical = json.dumps(json.loads(to_json(self.request())), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


Build = Callable[[str, pd.DataFrame], list[RunSpec]]


@dataclass(frozen=True)
class Experiment:
    """A question, and the runs that answer it.

    ``build(profile, runs)`` lists the runs that are known to be needed, given the table of those done so far: where a
    learning rate is tuned first, the runs that use it are listed once the trials are all there.
    """

    name: str
    question: str
    build: Build
    profiles: tuple[str, ...] = USUAL_PROFILES  # that it has

    def specs(self, profile: str, runs: pd.DataFrame) -> list[RunSpec]:
        """In the order of running.

        Raises:
            InvalidInputError: a profile that it does not have.
        """
        if profile not in self.profiles:
            raise InvalidInputError(
                f"profile is {profile!r}; of experiment {self.name} choose one of {', '.join(self.profiles)}"
            )
        unique = {spec.sha256: spec for spec in reversed(self.build(profile, runs))}
        return sorted(reversed(unique.values()), key=lambda spec: spec.wave)
