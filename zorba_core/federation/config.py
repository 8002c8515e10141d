"""What a federated run is told: what all must agree on, and what is the server's own business.

:class:`RunConfig` is what the server sends to a client that joins, as JSON. A client takes from it what decides the
numbers (task, words, division of the rows, settings of the estimator) and nothing that decides what its machine does:
which model folder to read, which device and how many threads are the client's own settings.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from zorba_core.data.tasks import get_task
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError
from zorba_core.federation.messages import MAX_SEATS, MessageError
from zorba_core.federation.privacy import PrivacySettings
from zorba_core.federation.robust import AggregationSettings
from zorba_core.files import fingerprint, to_json


@dataclass(frozen=True)
class RunConfig:
    """What server and clients must agree on.

    Raises:
        InvalidInputError: a value out of range.
    """

    dataset: str
    model: str
    label_words: tuple[str, ...]
    num_clients: int  # N seats
    alpha: float  # of the Dirichlet division, where clients hold shares of one dataset
    settings: TrainSettings
    token: str = ""  # drawn for each run: two runs of one config are two runs, and their replicas not each other's

    def __post_init__(self) -> None:
        get_task(self.dataset)
        if not 1 <= self.num_clients <= MAX_SEATS:
            raise InvalidInputError(f"num_clients is {self.num_clients}; it must be in 1..{MAX_SEATS}")
        if not self.alpha > 0:
            raise InvalidInputError(f"alpha is {self.alpha}; it must be greater than 0")

    @property
    def run(self) -> str:
        """The run's name on the wire: a fingerprint of all that is agreed on."""
        return fingerprint(json.loads(self.to_json()))

    def to_json(self) -> str:
        shared = {**asdict(self), "label_words": list(self.label_words), "settings": asdict(self.settings)}
        return to_json(shared)


def read_config(text: str) -> RunConfig:
    """A config that arrived from a server.

    Raises:
        MessageError: not JSON of a config, or with a value that cannot be.
    """
    try:
        value = json.loads(text)
        settings = value.pop("settings")
        _check_types(settings)
        words = tuple(value.pop("label_words"))
        if not all(isinstance(word, str) for word in words):
            raise TypeError("label words must be text")
        for name, kind in (("dataset", str), ("model", str), ("num_clients", int), ("token", str)):
            if type(value[name]) is not kind:
                raise TypeError(f"{name} must be of type {kind.__name__}")
        return RunConfig(**value, label_words=words, settings=TrainSettings(**settings))
    except (InvalidInputError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MessageError(f"hello: its config cannot be used: {_line(error)}") from None


def with_local(config: RunConfig, device: str, threads: int) -> RunConfig:
    """The same run on this machine's device. The fingerprint of the run is that of the config as it was sent."""
    return replace(config, settings=replace(config.settings, device=device, threads=threads))


@dataclass(frozen=True)
class ServerSettings:
    """How the server runs its rounds; clients need not know.

    Raises:
        InvalidInputError: a value out of range.
    """

    solver: str = "balanced"
    min_clients: int = 1  # registered before the first plan is made
    start_timeout: float = 120.0  # seconds to wait for them
    deadline: float = 60.0  # seconds that a round waits for answers
    patience: int = 2  # rounds in a row without a usable answer, after which a client counts as gone
    aggregation: AggregationSettings = field(default_factory=AggregationSettings)
    privacy: PrivacySettings = field(default_factory=PrivacySettings)

    def __post_init__(self) -> None:
        for name in ("min_clients", "patience"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("start_timeout", "deadline"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InvalidInputError(f"{name} is {getattr(self, name)}; it must be a finite number above 0")
        if self.privacy.on and self.aggregation.rule != "mean":
            raise InvalidInputError(
                f"privacy clips and averages by itself; it cannot be joined with the rule {self.aggregation.rule!r}"
            )

    def describe(self) -> dict[str, Any]:
        return asdict(self)


def _check_types(settings: Any) -> None:
    if not isinstance(settings, dict):
        raise TypeError("settings must be an object")
    kinds = {"int": int, "float": float, "bool": bool, "str": str, "DirectionKind": str, "Inactive": str}
    known = {field.name: str(field.type) for field in fields(TrainSettings)}
    for name, value in settings.items():
        if name not in known:
            raise TypeError(f"unknown setting {name[:40]!a}")
        wanted = known[name].removesuffix(" | None")
        if value is None and known[name].endswith("| None"):
            continue
        kind = kinds.get(wanted, str)
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise TypeError(f"setting {name} must be {wanted}")


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
