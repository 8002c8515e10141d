"""Settings of a federated run: those that server and clients must agree on, and those of the server alone.

:class:`RunConfig` is what the server sends to a client that joins, as JSON. A client takes from it what decides the
numbers (task, words, division of the rows, settings of the estimator) and nothing that decides what its machine does:
which model folder to read, which device, how many threads and how much memory are the client's own settings.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from zorba_core.allocation import SOLVERS
from zorba_core.data.divide import DIRICHLET
from zorba_core.data.task import Task, get_task
from zorba_core.data.task_file import table_of, task_from
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError, first_line
from zorba_core.federation.messages import MAX_SEATS, MessageError
from zorba_core.federation.robust import AggregationSettings
from zorba_core.fields import check, setting
from zorba_core.files import fingerprint, to_json


@dataclass(frozen=True)
class RunConfig:
    """What server and clients must agree on.

    Raises:
        InvalidInputError: a value out of range.
    """

    dataset: str = setting(..., "The task.")
    model: str = setting(..., "Its name, or the folder that the server reads.")
    label_words: tuple[str, ...]
    num_clients: int = setting(
        ..., "seats, one SuperNode each.", symbol="N", at_least=1, at_most=MAX_SEATS, option="clients"
    )
    alpha: float = setting(..., "Of the Dirichlet division of rows; smaller is more uneven.", above=0)
    settings: TrainSettings
    division: str = DIRICHLET  # of a built-in task's rows among clients that have no rows of their own
    task: str = ""  # JSON of a task of the user's own, without where anybody's rows lie; empty for a built-in one
    # Drawn for each run, so that two runs of one config do not share replicas.
    token: str = setting("", "Names the run.")

    def __post_init__(self) -> None:
        check(self)
        self.described_task()

    def described_task(self) -> Task:
        """The task, whose rows each side has in its own place.

        Raises:
            InvalidInputError: no such task, or a description that cannot be.
        """
        if not self.task:
            return get_task(self.dataset)
        task = task_from(json.loads(self.task))
        if task.name != self.dataset:
            raise InvalidInputError(f"the task is called {task.name!r} and the run is on {self.dataset!r}")
        return task

    @property
    def run(self) -> str:
        """The run's name on the wire: a fingerprint of all that is agreed on."""
        return fingerprint(json.loads(self.to_json()))

    def to_json(self) -> str:
        shared = {**asdict(self), "label_words": list(self.label_words), "settings": asdict(self.settings)}
        return to_json(shared)


def shared_task(task: Task) -> str:
    """The task for :attr:`RunConfig.task`: the form of its rows, and nothing of where they lie or whose they are."""
    table = table_of(task)
    local = ("train", "test", "test_fraction", "encoding", "client")
    return to_json({**table, "rows": {name: value for name, value in table["rows"].items() if name not in local}})


def read_config(text: str) -> RunConfig:
    """A config that arrived from a server.

    Raises:
        MessageError: not JSON of a config, or with an impossible value.
    """
    try:
        value = json.loads(text)
        settings = TrainSettings(**value.pop("settings"))
        words = tuple(value.pop("label_words"))
        if not all(isinstance(word, str) for word in words):
            raise TypeError("label words must be text")
        return RunConfig(**value, label_words=words, settings=settings)
    except (InvalidInputError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MessageError(f"hello: its config cannot be used: {first_line(error)[:200]}") from None


def with_local(config: RunConfig, device: str, threads: int) -> RunConfig:
    """The same run on this machine's device. The fingerprint of the run is that of the config as it was sent.

    Raises:
        InvalidInputError: the run's settings cannot be had on that device.
    """
    local = replace(config.settings, device=device, threads=threads)
    return replace(config, settings=local)


@dataclass(frozen=True)
class ServerSettings:
    """How the server runs its rounds; clients need not know.

    Raises:
        InvalidInputError: a value out of range.
    """

    solver: str = setting("balanced", "{choices}.", choices=SOLVERS.meanings, said="unknown solver {value}")
    min_clients: int = setting(1, "Clients to wait for before the first plan; default: all seats.", at_least=1)
    start_timeout: float = setting(120.0, "Seconds to wait for the clients at the start.", above=0)
    deadline: float = setting(60.0, "Seconds that a round waits for answers.", above=0)
    patience: int = setting(2, "Silent rounds in a row after which a client counts as gone.", at_least=1)
    aggregation: AggregationSettings = field(default_factory=AggregationSettings)
    evaluate_on: str = ""  # the server's own file of rows, for a task of the user's own

    def __post_init__(self) -> None:
        check(self)

    def describe(self) -> dict[str, Any]:
        return asdict(self)
