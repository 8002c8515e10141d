"""The clients that take part in a run, and the exchange of messages with them over a Flower grid.

The server greets every new SuperNode, and gives its client the seat of its partition-id. A client that owes an answer
stays in its seat; it gets no further instruction until its answer comes or the message expires, and rounds do not wait
for it. An invalid answer never raises here: it becomes an event with the client and the reason.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from zorba_core.errors import RunError, name_some, printable
from zorba_core.federation import protocol
from zorba_core.federation.options import ServerOptions
from zorba_core.federation.protocol import HELLO, Answer, Instruction, Line, ProtocolError
from zorba_core.federation.request import Terms

_log = logging.getLogger(__name__)
_LOOK_FOR_ANSWERS, _LOOK_FOR_NODES = 0.2, 2.0  # seconds
_SECONDS_TO_RECOVER = 60.0


@dataclass
class Seat:
    """A client that takes part."""

    node: int  # Flower's id of its SuperNode
    rows: int
    replica_round: int  # the client needs the averages after this round
    late: bool = False  # an answer is overdue


@dataclass(frozen=True)
class _Sent:
    """A message without an answer so far."""

    node: int
    kind: str
    line: int  # number of its instruction's line
    until: float  # time at which the message expires


class Members:
    """The clients of one run.

    Args:
        run: the run's name in messages.
        line: the rounds that the clients' replicas follow.
    """

    def __init__(
        self,
        grid: Grid,
        run: str,
        terms: Terms,
        options: ServerOptions,
        base_sha256: str,
        *,
        line: Line,
    ) -> None:
        self.seats: dict[int, Seat] = {}  # by client
        self.line, self.run = line, run
        self._grid, self._terms, self._options = grid, terms, options
        self._base_sha256 = base_sha256
        self._unanswered: dict[str, _Sent] = {}  # by message id
        self._turned_away: dict[int, str] = {}  # the reason, by node
        self._events: list[dict[str, Any]] = []
        self._looked = -_LOOK_FOR_NODES

    def note(self, what: str, **content: Any) -> None:
        """Store an event for the next round's record, and log it as one line."""
        words = ", ".join(f"{name} {value}" for name, value in content.items())
        _log.info("%s", printable(f"{what}: {words}"))  # a client's text may contain terminal codes
        self._events.append({"what": what, **content})

    def refuse(self, client: int, reason: str) -> None:
        """Note that the server does not use a client's answer."""
        self.note("refused", client=client, round=self.line.end + 1, reason=reason)

    def take_events(self) -> tuple[dict[str, Any], ...]:
        """The events since the last call."""
        events, self._events = tuple(self._events), []
        return events

    def free(self) -> list[int]:
        """The clients that owe no answer, in ascending order."""
        owing = {sent.node for sent in self._unanswered.values()}
        return [client for client in sorted(self.seats) if self.seats[client].node not in owing]

    def begin(self, line: Line) -> None:
        """Start another line: every client's replica starts from the base model."""
        self.line = line
        for seat in self.seats.values():
            seat.replica_round = 0

    def gather(self, needed: int) -> None:
        """Wait for all clients; after ``start_timeout`` seconds ``needed`` of them are enough.

        Raises:
            RunError: fewer than ``needed`` clients joined.
        """
        clients, started = self._terms.clients, time.monotonic()
        while True:
            self.send_hello()
            self._take_answers({})
            waited, here = time.monotonic() - started, len(self.seats)
            # A node that was turned away does not come again. Once every client's node is seated or turned away, no
            # more clients will join.
            settled = self._turned_away and not self._unanswered and here + len(self._turned_away) >= clients
            if here == clients or (here >= needed and (settled or waited > self._options.start_timeout)):
                return
            if settled or waited > self._options.start_timeout:
                why = name_some(sorted(set(self._turned_away.values())), 4)
                raise RunError(
                    f"{here} of {needed} clients joined within {waited:.0f} seconds"
                    f"{f' (turned away: {why})' if why else ''}; look at their logs, or wait longer (start_timeout)"
                )
            time.sleep(_LOOK_FOR_ANSWERS)

    def send_hello(self) -> None:
        """Greet every new node, and free the seats of nodes that have left. Does not wait for answers."""
        if time.monotonic() - self._looked < _LOOK_FOR_NODES:
            return
        present, self._looked = set(self._patiently(self._grid.get_node_ids)), time.monotonic()
        for client, seat in list(self.seats.items()):
            if seat.node not in present:
                self._leave(client, "its node is gone")
        self._turned_away = {node: why for node, why in self._turned_away.items() if node in present}
        known = {sent.node for sent in self._unanswered.values()} | {seat.node for seat in self.seats.values()}
        hello = {
            node: protocol.hello(self.run, self._terms.to_json())
            for node in sorted(present - known - set(self._turned_away))
        }
        self._send(HELLO, hello, self._options.start_timeout)

    def exchange(self, kind: str, instructions: Mapping[int, Instruction], *, deadlines: int = 1) -> dict[int, Answer]:
        """The clients' answers to their instructions, by client. Waits up to ``deadline`` seconds, or that many times
        as long: for all clients that are not late, or, if all are late, for the first answer."""
        deadline = deadlines * self._options.deadline
        records = {
            self.seats[client].node: protocol.instruction_records(instruction)
            for client, instruction in instructions.items()
        }
        asked = dict(zip(self._send(kind, records, 2 * deadline), instructions, strict=False))
        answers: dict[int, Answer] = {}
        until = time.monotonic() + deadline
        while True:
            answers |= self._take_answers(asked)
            open_now = [client for name, client in asked.items() if name in self._unanswered]
            prompt = [client for client in open_now if client in self.seats and not self.seats[client].late]
            if time.monotonic() > until or (not prompt and (answers or not self._unanswered)):
                break
            time.sleep(_LOOK_FOR_ANSWERS)
            self.send_hello()
        for client in prompt:
            self.seats[client].late = True
        return answers

    def _send(self, kind: str, by_node: Mapping[int, RecordDict], ttl: float) -> list[str]:
        messages = [Message(records, node, kind, ttl=ttl) for node, records in by_node.items()]
        ids, until = self._patiently(self._grid.push_messages, messages) if messages else [], time.monotonic() + ttl
        names = [name or f"not sent to {node}" for name, node in zip(ids, by_node, strict=True)]
        sent = [_Sent(node, kind, self.line.number, until) for node in by_node]
        self._unanswered |= dict(zip(names, sent, strict=True))
        return names

    def _take_answers(self, asked: Mapping[str, int]) -> dict[int, Answer]:
        """The usable answers to the messages ``asked`` (client by message id) that have arrived, by client. Also takes
        answers to greetings, and late answers: their values are dropped, but their clients are free again."""
        answers: dict[int, Answer] = {}
        for message in self._patiently(self._grid.pull_messages, list(self._unanswered)) if self._unanswered else ():
            name = message.metadata.reply_to_message_id
            sent = self._unanswered.pop(name, None)
            if sent is not None and sent.kind == HELLO:
                self._register(sent.node, message)
                continue
            client = next((client for client, seat in self.seats.items() if sent and seat.node == sent.node), None)
            if sent is None or client is None:
                continue
            seat, seat.late = self.seats[client], False
            try:
                answer = Answer(message)
                if sent.line == self.line.number:
                    seat.replica_round = min(answer.whole("replica_round"), self.line.end)
                if answer.error:
                    raise ProtocolError(f"the client declines: {answer.error}")
                if name not in asked:
                    raise ProtocolError("it came too late")
                answers[client] = answer
            except ProtocolError as error:
                self.refuse(client, str(error))
        now = time.monotonic()
        self._unanswered = {name: sent for name, sent in self._unanswered.items() if sent.until > now}
        return answers

    def _register(self, node: int, message: Message) -> None:
        """Give a client its seat by its answer to a greeting, or turn its node away. A client that returns with another
        node takes its seat back. A node that the greeting did not reach is greeted again."""
        if message.has_error() and message.error.code != ErrorCode.CLIENT_APP_RAISED_EXCEPTION:
            self.note("out of reach", node=str(node), reason=str(message.error.reason)[: protocol.MAX_REASON])
            return
        try:
            answer = Answer(message)
            if answer.error:
                raise ProtocolError(answer.error)
            client, rows = answer.whole("partition"), answer.whole("rows")
            if client >= self._terms.clients:
                raise ProtocolError(f"partition-id {client} is none of 0 to {self._terms.clients - 1}")
            if answer.text("base") != self._base_sha256:
                raise ProtocolError("its base model is not the server's: the fingerprints differ")
        except ProtocolError as error:
            self._turned_away[node] = str(error)
            self.note("turned away", node=str(node), reason=str(error))
            return
        if client in self.seats:
            self._turned_away[self.seats[client].node] = reason = "another node has its partition-id"
            self._leave(client, reason)
        self.seats[client] = Seat(node, rows, replica_round=0)  # it skips averages that it has applied
        self.note("joined", client=client, rows=rows)

    def _leave(self, client: int, reason: str) -> None:
        node = self.seats.pop(client).node
        self._unanswered = {name: sent for name, sent in self._unanswered.items() if sent.node != node}
        self.note("left", client=client, reason=reason)

    def _patiently(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call the grid, and repeat the call for a minute if the SuperLink does not answer. A message that was pushed
        twice gets two answers; the second one is ignored.

        Raises:
            RunError: it has not answered for a minute.
        """
        until = time.monotonic() + _SECONDS_TO_RECOVER
        while True:
            try:
                return list(call(*arguments))
            except (httpx.HTTPError, ConnectionError, TimeoutError) as error:
                if time.monotonic() > until:
                    raise RunError(
                        f"the SuperLink has not answered for {_SECONDS_TO_RECOVER:.0f} seconds "
                        f"({type(error).__name__}); look at its log, then resume the run"
                    ) from None
            time.sleep(_LOOK_FOR_ANSWERS)
