"""Messages through a Flower grid.

``grid.send_and_receive`` looks for answers every three seconds and waits for clients that are gone; this does the same
two calls with a shorter pause, and stops waiting for a client whose node has left. Messages expire at the deadline, so
a slow client does not work off a queue of rounds that are over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from zorba_core.federation.flower.records import from_records, to_records
from zorba_core.federation.membership import Incoming, Outgoing
from zorba_core.federation.messages import CATCH_UP, HELLO, TRAIN, MessageError

MESSAGE_TYPES = {HELLO: f"query.{HELLO}", TRAIN: "train", CATCH_UP: f"query.{CATCH_UP}"}
_LOOK_FOR_ANSWERS, _LOOK_FOR_NODES = 0.2, 2.0  # seconds
_SECONDS_TO_RECOVER = 60.0


class FlowerTransport:
    """A grid as the protocol sees it: addresses are node ids."""

    def __init__(self, grid: Grid, sleep: Callable[[float], None] = time.sleep) -> None:
        self._grid, self._sleep = grid, sleep

    def present(self) -> Sequence[int]:
        return sorted(self._patiently(self._grid.get_node_ids))

    def exchange(self, outgoing: Sequence[Outgoing], deadline: float) -> list[Incoming]:
        if not outgoing:
            return []
        started = time.monotonic()
        messages = [
            Message(to_records(item.payload, up=False), item.address, MESSAGE_TYPES[item.kind], ttl=deadline)
            for item in outgoing
        ]
        ids = self._patiently(self._grid.push_messages, messages)
        waiting = {message_id: item for message_id, item in zip(ids, outgoing, strict=True) if message_id}
        incoming, looked = [], started
        while waiting and time.monotonic() - started < deadline:
            for reply in self._patiently(self._grid.pull_messages, list(waiting)):
                item = waiting.pop(reply.metadata.reply_to_message_id, None)
                if item is not None:
                    incoming.append(_read(item, reply))
            if waiting and time.monotonic() - looked > _LOOK_FOR_NODES:
                connected, looked = set(self.present()), time.monotonic()
                waiting = {message_id: item for message_id, item in waiting.items() if item.address in connected}
            if waiting:
                self._sleep(_LOOK_FOR_ANSWERS)
        return incoming

    def _patiently(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        """A call of the grid, repeated where the SuperLink could not answer just now: its database was locked by other
        requests, or a connection broke. A message that is pushed twice for that is answered twice, and the second
        answer is not taken."""
        until = time.monotonic() + _SECONDS_TO_RECOVER
        while True:
            try:
                return list(call(*arguments))
            except (httpx.HTTPError, ConnectionError, TimeoutError):
                if time.monotonic() > until:
                    raise
            self._sleep(_LOOK_FOR_ANSWERS)


def _read(item: Outgoing, reply: Message) -> Incoming:
    if reply.has_error():
        return Incoming(item.address, None, f"{reply.error.reason or 'failed'} (code {reply.error.code})")
    try:
        return Incoming(item.address, from_records(reply.content))
    except MessageError as error:
        return Incoming(item.address, None, str(error))
