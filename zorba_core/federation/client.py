"""The client's side of the protocol: a message in, an answer out, over any transport.

A client acts only within the run that greeted it, and with its own rows, device and base model. A
message that it cannot use is answered with a :class:`Refusal` that says why and where the replica stands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

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
    RoundTask,
    Standing,
)
from zorba_core.federation.replica import Replica, open_replica
from zorba_core.federation.replica_store import ReplicaStore
from zorba_core.runs.model_source import BUNDLED

NO_RUN = "0" * 64


class Client:
    """One client. ``store`` keeps its replica between processes; without one it lives in this process only."""

    def __init__(
        self,
        settings: ClientSettings,
        store: ReplicaStore | None = None,
        opener: Callable[..., Replica] = open_replica,
    ) -> None:
        self.settings, self._store, self._open = settings, store, opener
        self._run, self._replica, self._config = NO_RUN, None, None

    def answer(self, payload: Payload) -> Payload:
        """The answer to a message of the server; never an exception for what the server may have sent."""
        try:
            message = messages.decode(payload, Hello, RoundTask, CatchUp)
            if isinstance(message, Hello):
                return messages.encode(self._register(message))
            replica = self._replica_of(message.run)
            return self._work(message, replica)
        except (MessageError, ZorbaError) as error:
            at = self._replica.round if self._replica is not None else 0
            reason = str(error)[: messages.MAX_REASON]
            return messages.encode(Refusal(self._run, self.settings.seat, at, reason))

    def _work(self, message: RoundTask | CatchUp, replica: Replica) -> Payload:
        before = replica.round
        replica.apply(message.averages)
        if replica.round != before:
            self._keep()
        if isinstance(message, RoundTask):
            return messages.encode(replace(replica.report(message, self.settings.seat), run=self._run))
        return messages.encode(Standing(self._run, self.settings.seat, replica.round, replica.fingerprint()))

    def _register(self, hello: Hello) -> Registration:
        config = read_config(hello.config)
        if config.run != hello.run:
            raise MessageError("hello: the run's fingerprint is not that of its config")
        if self._replica is None or self._run != hello.run:
            self._enter(config, hello.run)
        replica = self._replica
        blocks, vram_bytes = self.settings.capacity()
        return Registration(
            self._run, self.settings.seat, replica.round, replica.base_sha256, len(replica.rows), vram_bytes, blocks
        )

    def _replica_of(self, run: str) -> Replica:
        """The replica of the run that greeted this client, in this process or in an earlier one."""
        if run != self._run and (before := self._before(run)) is not None:
            self._enter(before[0], run, before[1])
        if self._replica is None or run != self._run:
            raise MessageError("the run has not greeted this client")
        return self._replica

    def _before(self, run: str) -> tuple[RunConfig, str | None] | None:
        """The run's config and base model as an earlier process of this client stored them. None where they cannot be
        used: the server is then told that the run is not known here, and greets this client again."""
        state = self._store.state() if self._store is not None else {}
        if state.get("run") != run:
            return None
        with contextlib.suppress(MessageError):
            config = read_config(state["config"])
            return (config, state.get("base_sha256")) if config.run == run else None
        return None

    def _enter(self, config: RunConfig, run: str, base_sha256: str | None = None) -> None:
        """Open the replica. Without a greeting the server does not compare the base model again: then it has to be the
        one of ``base_sha256``.

        Raises:
            RunError: it is another.
        """
        self._replica, self._run, self._config = None, NO_RUN, config
        own, store = self.settings, self._store
        # A name from the server decides neither what folder is read here nor what is fetched from a hub.
        if own.model is None and config.model not in BUNDLED:
            raise InvalidInputError("this client's operator has not set the folder of the base model (model)")
        local = with_local(config, own.device, own.threads)
        kept_rows = store.rows(run, own.seat) if store else None
        replica = self._open(local, own.seat, model=own.model, rows=own.rows, encoded=kept_rows)
        if base_sha256 not in (None, replica.base_sha256):
            raise RunError("the base model's files have changed since the run greeted this client; put them back")
        self._replica, self._run = replica, run
        restored = store is None or store.restore(self._replica, run, own.seat)
        if not restored or kept_rows is None:
            self._keep()

    def _keep(self) -> None:
        if self._store is not None:
            self._store.save(self._replica, self._run, self.settings.seat, self._config.to_json())
