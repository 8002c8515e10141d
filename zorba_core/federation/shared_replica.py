"""Many clients in one process that share one replica: what a simulation of fifty clients needs.

Replicas of a run are equal after each round, so a process that plays many clients keeps one replica, and each client's
own rows. Several processes may share the clients, in any way and changing from message to message. What one of them
receives lies in a folder for the others::

    <folder>/state.json       run, config and the base model's SHA-256, from the first greeting
    <folder>/average-7.json   round 7's average, as it came

All belong to one user on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zorba_core.engine.directions import directions_of
from zorba_core.engine.row_kinds import Rows
from zorba_core.errors import InvalidInputError
from zorba_core.federation import messages
from zorba_core.federation.client import Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.config import RunConfig
from zorba_core.federation.messages import Aggregate, CatchUp, MessageError, Payload, RoundAnswer, RoundTask
from zorba_core.federation.replica import Base, Replica, open_base, open_rows
from zorba_core.federation.replica_store import read_average, read_state
from zorba_core.files import read_json, write_json

_STATE = "state.json"


class VirtualClients:
    """The clients of one process. ``settings_N`` are those of all seats, since any of them may be asked here."""

    def __init__(self, settings_N: Sequence[ClientSettings], folder: Path) -> None:
        self._settings_N, self._folder = settings_N, _SharedFolder(folder)
        self._clients: dict[int, Client] = {}
        self._shared: dict[str, _SharedModel] = {}  # by run

    def answer(self, seat: int, payload: Payload) -> Payload:
        """The client's answer."""
        if seat not in self._clients:
            self._clients[seat] = Client(self._settings_N[seat], self._folder, self._open)
        return self._clients[seat].answer(payload)

    def _open(self, config: RunConfig, seat: int, *, model: str | None, rows: str | None, encoded: None) -> Replica:
        if config.run not in self._shared:
            self._shared = {config.run: _SharedModel(config, open_base(config, model))}
        shared = self._shared[config.run]
        return _SharedReplica(shared, self._folder, open_rows(config, seat, shared.base, rows), config)


class _SharedModel:
    """The model of all clients in this process."""

    def __init__(self, config: RunConfig, base: Base) -> None:
        self.run, self.base, self.round = config.run, base, 0
        self.directions = directions_of(base.network, config.settings)


class _SharedFolder:
    """The folder through which the processes share averages; it stands in for each client's own ReplicaStore."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def state(self) -> dict[str, Any]:
        return read_state(self.folder / _STATE, {"run": str, "config": str})

    def rows(self, run: str, seat: int) -> None:
        return None

    def restore(self, replica: Replica, run: str, seat: int) -> bool:
        return self.state().get("run") == run  # the averages lead to where the others are

    def save(self, replica: Replica, run: str, seat: int, config: str) -> None:
        state = self.state()
        if state.get("run") != run:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for old in self.folder.glob("average-*.json"):
                old.unlink(missing_ok=True)
        if (state.get("run"), state.get("config")) != (run, config):
            write_json(self.folder / _STATE, {"run": run, "config": config, "base_sha256": replica.base_sha256})

    def keep(self, run: str, averages: Sequence[Aggregate]) -> None:
        for average in averages:
            path = self._path(average.round)
            if not path.is_file():
                payload = messages.encode(CatchUp(run, (average,)))
                write_json(path, {"what": payload.what, "values": dict(payload.values)})

    def average(self, run: str, round_index: int) -> tuple[Aggregate, ...]:
        """Empty while no process has received it.

        Raises:
            InvalidInputError: the file was damaged, or holds another round.
        """
        path = self._path(round_index)
        try:
            return (read_average(read_json(path), run, round_index),)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, TypeError, KeyError, MessageError):
            raise InvalidInputError(
                f"{path}: not round {round_index} of this run, the file is damaged; remove it, and it is sent again"
            ) from None

    def _path(self, round_index: int) -> Path:
        return self.folder / f"average-{round_index}.json"


class _SharedReplica(Replica):
    """One client's rows and the model that all clients of the process share."""

    def __init__(self, shared: _SharedModel, folder: _SharedFolder, rows: Rows, config: RunConfig) -> None:
        self._shared, self._folder = shared, folder
        base = shared.base
        super().__init__(base.network, rows, config.settings, base.sha256, shared.round, shared.directions)

    @property
    def round(self) -> int:
        return self._shared.round

    @round.setter
    def round(self, value: int) -> None:
        self._shared.round = value

    def apply(self, averages: Sequence[Aggregate]) -> None:
        self._folder.keep(self._shared.run, averages)
        self._catch_up()

    def report(self, task: RoundTask, seat: int) -> RoundAnswer:
        self._catch_up()
        return super().report(task, seat)

    def fingerprint(self) -> str:
        self._catch_up()
        return super().fingerprint()

    def _catch_up(self) -> None:
        while averages := self._folder.average(self._shared.run, self.round + 1):
            super().apply(averages)
