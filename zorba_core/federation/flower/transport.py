"""Messages through a Flower grid.

``grid.send_and_receive`` looks for answers every three seconds and waits for clients that are gone; this does the same
two calls with a shorter pause, and stops waiting for a client whose node has left. Messages expire at the deadline, so
a slow client does not work off a queue of rounds that are over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from zorba_core.federation.flower.records import from_records, meter_of, to_records
from zorba_core.federation.membership import Incoming, Outgoing
from zorba_core.federation.messages import CATCH_UP, HELLO, TRAIN, MessageError

MESSAGE_TYPES = {HELLO: f"query.{HELLO}", TRAIN: "train", CATCH_UP: f"query.{CATCH_UP}"}
_LOOK_FOR_ANSWERS, _LOOK_FOR_NODES = 0.2, 2.0  # seconds
_SECONDS_TO_RECOVER, _SERVER_ERROR = 60.0, 500


@dataclass
class Meter:
    """Bytes and seconds by message kind. ``payload`` is the records' protobuf, ``framed`` all of Flower's objects for
    the message: its metadata, records and their headers (HTTP and TLS come on top)."""

    count: dict[str, dict[str, float]] = field(default_factory=dict)
    exchanges: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: str, direction: str, message: Message) -> None:
        row = self.count.setdefault(f"{kind} {direction}", {"messages": 0, "payload": 0, "framed": 0})
        payload, framed = sizes(message)
        row["messages"] += 1
        row["payload"] += payload
        row["framed"] += framed

    def describe(self) -> dict[str, Any]:
        return {"by_message": self.count, "exchanges": self.exchanges}


class FlowerTransport:
    """A grid as the protocol sees it: addresses are node ids."""

    def __init__(self, grid: Grid, meter: Meter | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        self._grid, self.meter, self._sleep = grid, meter or Meter(), sleep

    def present(self) -> Sequence[int]:
        return sorted(self._patiently(self._grid.get_node_ids))

    def exchange(self, outgoing: Sequence[Outgoing], deadline: float) -> list[Incoming]:
        if not outgoing:
            return []
        started = time.monotonic()
        sent: list[tuple[Outgoing, Message]] = [
            (item, Message(to_records(item.payload, up=False), item.address, MESSAGE_TYPES[item.kind], ttl=deadline))
            for item in outgoing
        ]
        for item, message in sent:
            self.meter.add(item.kind, "down", message)
        ids = list(self._patiently(self._grid.push_messages, [message for _, message in sent]))
        waiting = {message_id: item for message_id, (item, _) in zip(ids, sent, strict=True) if message_id}
        incoming, answers, looked = [], [], started
        while waiting and time.monotonic() - started < deadline:
            for reply in self._patiently(self._grid.pull_messages, list(waiting)):
                item = waiting.pop(reply.metadata.reply_to_message_id, None)
                if item is not None:
                    incoming.append(self._read(item, reply))
                    answers.append({"node": str(item.address), "after": time.monotonic() - started, **meter_of(reply)})
            if waiting and time.monotonic() - looked > _LOOK_FOR_NODES:
                connected, looked = set(self.present()), time.monotonic()
                waiting = {message_id: item for message_id, item in waiting.items() if item.address in connected}
            if waiting:
                self._sleep(_LOOK_FOR_ANSWERS)
        kinds = sorted({item.kind for item in outgoing})
        self.meter.exchanges.append({"kinds": kinds, "seconds": time.monotonic() - started, "answers": answers})
        return incoming

    def _patiently(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """A call of the grid, again where the SuperLink could not answer just now: its database was locked by other
        requests, or a connection broke. What is pushed twice for that is answered twice, and second answers are not
        taken."""
        until, pause = time.monotonic() + _SECONDS_TO_RECOVER, _LOOK_FOR_ANSWERS
        while True:
            try:
                return call(*arguments)
            except Exception as error:
                if not _passes(error) or time.monotonic() > until:
                    raise
            self._sleep(pause)
            pause = min(2 * pause, _LOOK_FOR_NODES)

    def _read(self, item: Outgoing, reply: Message) -> Incoming:
        if reply.has_error():
            return Incoming(item.address, None, f"{reply.error.reason or 'failed'} (code {reply.error.code})")
        self.meter.add(item.kind, "up", reply)
        try:
            return Incoming(item.address, from_records(reply.content))
        except MessageError as error:
            return Incoming(item.address, None, str(error))


def _passes(error: Exception) -> bool:
    """Whether a request that failed so may succeed later."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status >= _SERVER_ERROR
    of_connection = type(error).__module__.partition(".")[0] == "httpx" and "Error" in type(error).__name__
    return isinstance(error, ConnectionError | TimeoutError) or (of_connection and not hasattr(error, "response"))


def sizes(message: Message) -> tuple[int, int]:
    """(payload, framed) bytes of a message."""
    from flwr.common.serde import message_to_proto
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

    payload = sum(len(record.deflate()) for record in message.content.values())
    framed = sum(len(part.deflate()) for part in get_all_nested_objects(message).values())
    return payload, framed + message_to_proto(message).metadata.ByteSize()
