"""Messages through a Flower grid.

``grid.send_and_receive`` looks for answers every three seconds and waits for clients that are gone; this does the same
two calls with a shorter pause, and stops waiting for a client whose node has left. Messages expire at the deadline, so
a slow client does not work off a queue of rounds that are over.

The grid fetches all answers that are there in one call, and fails, or waits for minutes, where one node has sent what
is no message or never sent all of it. From the first such call on each node's answer is fetched by itself, so that a
node that lies loses its own answer alone; what the others had sent by then is lost once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
_SECONDS_TO_PULL = 30.0  # all answers that are there, from a SuperLink beside this process


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
        self._one_by_one = False
        self._pulling: dict[str, _Pull] = {}  # by message, those that have not returned

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
            for message_id, reply in self._pulled(list(waiting), started + deadline):
                item = waiting.pop(message_id, None)
                if item is None:
                    continue
                try:
                    if isinstance(reply, Exception):
                        raise reply
                    incoming.append(self._read(item, reply))
                    answers.append({"node": str(item.address), "after": time.monotonic() - started, **meter_of(reply)})
                except Exception as error:
                    reason = f"its answer cannot be read: {type(error).__name__}"
                    incoming.append(Incoming(item.address, None, reason))
            if waiting and time.monotonic() - looked > _LOOK_FOR_NODES:
                connected, looked = set(self.present()), time.monotonic()
                waiting = {message_id: item for message_id, item in waiting.items() if item.address in connected}
            if waiting:
                self._sleep(_LOOK_FOR_ANSWERS)
        kinds = sorted({item.kind for item in outgoing})
        self.meter.exchanges.append({"kinds": kinds, "seconds": time.monotonic() - started, "answers": answers})
        return incoming

    def _pulled(self, message_ids: list[str], until: float) -> Iterator[tuple[str, Message | Exception]]:
        """The answers that are there, by what they answer; an error for one that cannot be fetched."""
        if not self._one_by_one:
            pull = _Pull(self, message_ids)
            pull.join(max(_LOOK_FOR_ANSWERS, min(_SECONDS_TO_PULL, until - time.monotonic())))
            if not pull.is_alive() and pull.error is None:
                yield from ((reply.metadata.reply_to_message_id, reply) for reply in pull.replies)
                return
            self._one_by_one = True
        for message_id in message_ids:
            if message_id not in self._pulling:
                self._pulling[message_id] = _Pull(self, [message_id])
        for message_id in message_ids:
            pull = self._pulling[message_id]
            pull.join(_LOOK_FOR_ANSWERS)
            if pull.is_alive():
                continue
            del self._pulling[message_id]
            if pull.error is not None:
                yield message_id, pull.error
            yield from ((message_id, reply) for reply in pull.replies)

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


class _Pull(threading.Thread):
    """A call of the grid for answers, which may never return."""

    def __init__(self, transport: FlowerTransport, message_ids: list[str]) -> None:
        super().__init__(daemon=True)
        self._call = lambda: list(transport._patiently(transport._grid.pull_messages, message_ids))
        self.replies: list[Message] = []
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.replies = self._call()
        except Exception as error:
            self.error = error


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
