"""The client's side of the protocol: a message in, an answer out, over any transport.

A client acts only within the run that greeted it, and with its own rows, device and base model. A
message that it cannot use is answered with a :class:`Refusal` that says why and where the replica stands.
"""

from __future__ import annotations

from collections.abc import Callable

from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError, RunError, ZorbaError
from zorba_core.federation import messages
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.config import RunConfig, read_config, with_local
from zorba_core.federation.messages import (
    CatchUp,
    Hello,
    MessageError,
    Payload,
    Refusal,
    Registration,
    RoundAnswer,
    RoundTask,
    Standing,
)
from zorba_core.federation.replica import Replica, open_replica, open_rows
from zorba_core.federation.replica_store import ReplicaStore
from zorba_core.runs.models import BUNDLED

NO_RUN = "0" * 64


class Client:
    """One client. ``store`` keeps its replica between processes; without one it lives in this process only."""

    def __init__(
        self,
        settings: ClientSettings,
        store: ReplicaStore | None = None,
        opener: Callable[[RunConfig, str | None], Replica] = open_replica,
    ) -> None:
        self.settings, self._store, self._open = settings, store, opener
        self._run, self._config = NO_RUN, None
        self._replica: Replica | None = None
        self._rows: Rows | None = None

    def answer(self, payload: Payload) -> Payload:
        """The answer to a message of the server; what cannot be done is answered with a refusal."""
        try:
            message = messages.decode(payload, Hello, RoundTask, CatchUp)
            if isinstance(message, Hello):
                return messages.encode(self._register(message))
            return messages.encode(self._work(message, self._replica_of(message.run)))
        except (MessageError, ZorbaError) as error:
            at = self._replica.round if self._replica is not None else 0
            reason = str(error)[: messages.MAX_REASON]
            return messages.encode(Refusal(self._run, self.settings.seat, at, reason))

    def _work(self, message: RoundTask | CatchUp, replica: Replica) -> RoundAnswer | Standing:
        before = replica.round
        replica.apply(message.averages)
        if replica.round != before and self._store is not None:
            self._store.save(replica, self._run, self.settings.seat, self._config.to_json())
        if isinstance(message, RoundTask):
            return replica.report(message, self.settings.seat, self._rows)
        return Standing(self._run, self.settings.seat, replica.round, replica.network.weights_sha256())

    def _register(self, hello: Hello) -> Registration:
        config = read_config(hello.config)
        if config.run != hello.run:
            raise MessageError("hello: the run's fingerprint is not that of its config")
        if self._replica is None or self._run != hello.run:
            self._enter(config)
        replica = self._replica
        blocks, vram_bytes = self.settings.capacity()
        return Registration(
            self._run, self.settings.seat, replica.round, replica.base_sha256, len(self._rows), vram_bytes, blocks
        )

    def _replica_of(self, run: str) -> Replica:
        """The replica of the run that greeted this client, in this process or in an earlier one."""
        state = self._store.state() if self._store is not None and run != self._run else {}
        if state.get("run") == run:
            self._enter(read_config(state["config"]))
            if self._replica.base_sha256 != state["base_sha256"]:  # the server does not compare it again
                self._replica, self._run = None, NO_RUN
                raise RunError("the base model's files have changed since the run greeted this client; put them back")
        if self._replica is None or run != self._run:
            raise MessageError("the run has not greeted this client")
        return self._replica

    def _enter(self, config: RunConfig) -> None:
        """Open replica and rows, from the store where it has them."""
        own, run, store = self.settings, config.run, self._store
        self._replica, self._run, self._config = None, NO_RUN, config
        if own.model is None and config.model not in BUNDLED:
            raise InvalidInputError("this client's operator has not set the folder of the base model (model)")
        local = with_local(config, own.device)
        replica = self._open(local, own.model, own.threads)
        self._rows = store.rows(run, own.seat) if store is not None else None
        if self._rows is None:
            self._rows = open_rows(local, own.seat, replica, own.rows)
            if store is not None:
                store.save_rows(self._rows, run, own.seat)
        if store is not None and not store.restore(replica, run, own.seat):
            store.save(replica, run, own.seat, config.to_json())
        self._replica, self._run = replica, run
