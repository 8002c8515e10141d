"""A round over a transport: greet, plan, ask, conclude. The loop around it is the same for every run.

A round is in the log, forced to disk, before its average is sent to anyone. So a server that dies and is started again
on the same folder knows at least what any replica knows, and resumes with the next round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from zorba_core.allocation import Allocation
from zorba_core.engine.round import Round
from zorba_core.errors import RunError
from zorba_core.federation.fleet import Address
from zorba_core.federation.membership import Incoming, Outgoing
from zorba_core.federation.messages import Standing
from zorba_core.federation.server import Server

_PAUSE = 0.5  # seconds between looks for clients while nobody is there
_MOST_VOID = 3  # rounds in a row without a usable answer before the run is given up, at least start_timeout apart
_MOST_CATCH_UPS = 10_000


class Transport(Protocol):
    """What carries messages between one server and its clients."""

    def present(self) -> Sequence[Address]:
        """Addresses of the clients that are connected now."""

    def exchange(self, outgoing: Sequence[Outgoing], deadline: float) -> list[Incoming]:
        """Send all, and return what came back within ``deadline`` seconds. Late answers are dropped."""


def gather(server: Server, transport: Transport, *, again: bool = False) -> None:
    """Greet clients until ``min_clients`` are registered. A resumed run (``again``) waits a deadline for them and
    then takes whoever is there: the others can come back later.

    Raises:
        RunError: too few registered within ``start_timeout``, or so many were turned away that too few are left.
    """
    settings, started = server.settings, time.monotonic()
    needed = 1 if again else settings.min_clients
    while True:
        # A client that is greeted for the first time loads its model, which may take the whole start_timeout.
        remaining = settings.start_timeout - (time.monotonic() - started)
        _greet(server, transport, settings.deadline if again else max(settings.deadline, remaining))
        waited = time.monotonic() - started
        if len(server.members) >= settings.min_clients or (
            again and len(server.members) and waited > settings.deadline
        ):
            return
        if server.most_members < needed:
            raise RunError(
                f"{server.most_members} of {server.members.num_seats} seats can be taken and the run needs {needed}; "
                f"turned away: {server.why_absent()}; start those clients as the reasons say, or lower min_clients"
            )
        if waited > settings.start_timeout:
            why = server.why_absent()
            raise RunError(
                f"{len(server.members)} of {settings.min_clients} clients registered within {settings.start_timeout:g} "
                f"seconds{f' ({why})' if why else ''}; look at their logs, or wait longer (start_timeout)"
            )
        time.sleep(_PAUSE)


class FederatedRounds:
    """The rounds of a server and its clients, for the loop of :mod:`zorba_core.engine.loop`. The server must have a
    plan.

    ``next_round`` raises RunError when nobody gave a usable answer for a long time.
    """

    def __init__(
        self,
        server: Server,
        transport: Transport,
        events: Callable[[], tuple[dict[str, Any], ...]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``events`` gives what happened to the clients since it was last called."""
        self.settings, self.network = server.config.settings, server.network
        self._server, self._transport, self._events, self._clock = server, transport, events, clock
        self._void, self._usable_at = 0, clock()

    @property
    def rounds_done(self) -> int:
        return self._server.rounds_done

    @property
    def allocation(self) -> Allocation:
        return self._server.plan.allocation

    def next_round(self, lr_factor: float = 1.0) -> Round | None:
        result = _round(self._server, self._transport)
        if result is not None:
            self._void, self._usable_at = 0, self._clock()
            return replace(result, events=self._events())
        self._void += 1
        if self._void >= _MOST_VOID and self._clock() - self._usable_at > self._server.settings.start_timeout:
            raise RunError(
                f"round {self.rounds_done + 1}: no client gave a usable answer in {self._void} tries; "
                "look at their logs, then resume the run"
            )
        return None


def bring_together(server: Server, transport: Transport) -> dict[int, Standing]:
    """After the last round: every replica, also one that has just joined, gets the averages it lacks and reports the
    hash of its weights; by seat."""
    standing: dict[int, Standing] = {}
    server.keep_present(transport.present())
    _greet(server, transport, server.settings.deadline)
    for _ in range(_MOST_CATCH_UPS):
        server.keep_present(transport.present())
        behind = [
            item
            for item in server.catch_ups()
            if (seat := server.members[item.address].seat) not in standing or standing[seat].round < server.rounds_done
        ]
        before = dict(standing)
        standing |= server.hear_standing(transport.exchange(behind, server.settings.deadline))
        if not behind or standing == before:
            break
    return standing


def _round(server: Server, transport: Transport) -> Round | None:
    present = transport.present()
    server.keep_present(present)
    if not server.members:
        _greet(server, transport, server.settings.deadline)
    server.replan()
    greetings = server.greetings(present)
    if not server.members:
        time.sleep(_PAUSE)
        return None
    plan, tasks = server.begin_round()
    incoming = transport.exchange([*tasks, *greetings], server.settings.deadline)
    greeted = {message.address for message in greetings}
    result = server.conclude_round(plan, [message for message in incoming if message.address not in greeted])
    _register(server, [message for message in incoming if message.address in greeted], present)
    return result


def _greet(server: Server, transport: Transport, deadline: float) -> None:
    present = transport.present()
    greetings = server.greetings(present)
    if greetings:
        _register(server, transport.exchange(greetings, deadline), present)


def _register(server: Server, incoming: Iterable[Incoming], present: Iterable[Address]) -> None:
    registered: set[Address] = set()
    for message in incoming:
        if message.address not in registered:
            registered.add(message.address)
            server.register(message, present)
