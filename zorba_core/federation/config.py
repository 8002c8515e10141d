"""Settings of a federated run: those that server and clients must agree on, and those of the server alone.

:class:`RunConfig` is what the server sends to a client that joins, as JSON. A client takes from it what decides the
numbers (task, words, division of the rows, settings of the estimator) and nothing that decides what its machine does:
which model folder to read, which device, how many threads and how much memory are the client's own settings.
"""

from __future__ import annotations

import json
from typing import Annotated, Self

from pydantic import Field, model_validator

from zorba_core.allocation import SOLVERS
from zorba_core.checked import Checked, OneOf
from zorba_core.data.divide import DIRICHLET
from zorba_core.data.task import Task, get_task, table_of, task_from
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, first_line
from zorba_core.federation.messages import MAX_SEATS, MessageError
from zorba_core.federation.robust import AggregationSettings
from zorba_core.files import fingerprint, to_json


class RunConfig(Checked):
    """What server and clients must agree on.

    Raises:
        InvalidInputError: a value out of range.
    """

    dataset: str
    """The task."""
    model: str
    """Its name, or the folder that the server reads."""
    label_words: tuple[str, ...]
    num_clients: int = Field(ge=1, le=MAX_SEATS)
    """Seats, one SuperNode each, N."""
    alpha: float = Field(gt=0)
    """Of the Dirichlet division of rows; smaller is more uneven."""
    settings: Settings
    division: str = DIRICHLET
    """Of a built-in task's rows among clients that have no rows of their own."""
    task: str = ""
    """JSON of a task of the user's own, without where anybody's rows lie; empty for a built-in one."""
    token: str = ""
    """Drawn for each run, so that two runs of one config do not share replicas."""

    @model_validator(mode="after")
    def _check_task(self) -> Self:
        self.described_task()
        return self

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
        return to_json(self.model_dump())


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
        return RunConfig(**json.loads(text))
    except (InvalidInputError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MessageError(f"hello: its config cannot be used: {first_line(error)[:200]}") from None


def with_local(config: RunConfig, device: str) -> RunConfig:
    """The same run on this machine's device. The fingerprint of the run is that of the config as it was sent.

    Raises:
        InvalidInputError: the run's settings cannot be had on that device.
    """
    local = config.settings.replace(device=device)
    return config.replace(settings=local)


class ServerSettings(Checked):
    """How the server runs its rounds; clients need not know.

    Raises:
        InvalidInputError: a value out of range.
    """

    solver: Annotated[str, OneOf(SOLVERS.meanings)] = "balanced"
    """{choices}."""
    min_clients: int = Field(1, ge=1)
    """Clients to wait for before the first plan; default: all seats."""
    start_timeout: float = Field(120.0, gt=0)
    """Seconds to wait for the clients at the start."""
    deadline: float = Field(60.0, gt=0)
    """Seconds that a round waits for answers."""
    patience: int = Field(2, ge=1)
    """Silent rounds in a row after which a client counts as gone."""
    aggregation: AggregationSettings = AggregationSettings()
    """How the clients' scalars are averaged."""
    evaluate_on: str = ""
    """The server's own file of rows, for a task of the user's own."""
