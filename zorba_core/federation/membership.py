"""Who takes part: greeting clients, seating them, and planning for those who are there.

Shapes: M blocks, N seats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.methods.registry import method_facts
from zorba_core.errors import InfeasibleError, name_some
from zorba_core.federation import messages
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.fleet import Address, Member, Members, Plan, make_plan
from zorba_core.federation.messages import HELLO, Aggregate, Hello, MessageError, Payload, Refusal, Registration
from zorba_core.vram import GIB, Workload, psi_block_bytes, psi_model_bytes, spec_of_model, whole_block_budgets

NoteTaker = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class Outgoing:
    """A message to one client."""

    address: Address
    kind: str  # hello, train or catch_up
    payload: Payload


@dataclass(frozen=True)
class Incoming:
    """What came from one client. ``payload`` is None where the transport has only a failure to report."""

    address: Address
    payload: Payload | None
    failure: str = ""


class Membership:
    """Members, seats and plan of one run; the rounds are :class:`zorba_core.federation.server.Server`'s."""

    def __init__(self, config: RunConfig, settings: ServerSettings, network: Blocks, note: NoteTaker) -> None:
        self.config, self.settings, self.network = config, settings, network
        self.run = config.run
        self.members = Members(config.num_clients)
        self.plan: Plan | None = None
        self.run_allocation: Allocation | None = None  # that of the run's folder: its first plan
        self.averages: list[Aggregate] = []  # of all rounds so far
        self._base_sha256 = network.weights_sha256()
        self._spec = spec_of_model(network.model, name=config.model)
        self._note = note
        self._turned_away: set[Address] = set()
        self._out_of_reach: dict[Address, tuple[int | None, str]] = {}  # seat, where known, and reason
        self._waiting: set[Address] = set()

    @property
    def rounds_done(self) -> int:
        return len(self.averages)

    def greetings(self, present: Iterable[Address]) -> list[Outgoing]:
        """A hello for every client that is present, not a member, and not turned away before."""
        hello = messages.encode(Hello(self.run, self.config.to_json()))
        strangers = [a for a in present if a not in self.members and a not in self._turned_away]
        return [Outgoing(address, HELLO, hello) for address in strangers]

    def register(self, incoming: Incoming, present: Iterable[Address]) -> None:
        """Register a client by its answer to hello, or turn it away with a note."""
        if incoming.payload is None:
            self._note("unreachable", {"client": str(incoming.address), "reason": incoming.failure[:200]})
            self._out_of_reach[incoming.address] = (None, f"no answer: {incoming.failure[:200]}")
            return  # it may have been busy: greeted again next round
        seat = None
        try:
            reply = messages.decode(incoming.payload, Registration, Refusal)
            seat = reply.seat
            if isinstance(reply, Refusal):
                raise MessageError(f"the client declines: {reply.reason}")
            member = self._member(incoming.address, reply)
            if not self._vacate(member, set(present)):
                return
        except MessageError as error:
            self._turned_away.add(incoming.address)
            self._out_of_reach[incoming.address] = (seat, str(error))
            self._note("turned away", {"client": str(incoming.address), "reason": str(error)})
            return
        self.members.add(member)
        self._out_of_reach.pop(member.address, None)
        self._note(
            "joined",
            {
                "client": str(member.address),
                "seat": member.seat,
                "budget": member.budget,
                "replica_round": member.round,
            },
        )

    @property
    def most_members(self) -> int:
        """How many seats can be taken yet: all but those whose client was turned away and has not come back."""
        lost = {seat for address, (seat, _) in self._out_of_reach.items() if address in self._turned_away}
        return sum(seat not in lost or self.members.at(seat) is not None for seat in range(self.members.num_seats))

    def why_absent(self) -> str:
        """Of the clients that did not become members, the seat and the reason, one line; empty where none is known."""
        reasons = {
            f"seat {seat}: {reason}" if seat is not None else reason
            for seat, reason in self._out_of_reach.values()
            if seat is None or self.members.at(seat) is None
        }
        return name_some(sorted(reasons), 4)

    def _vacate(self, member: Member, present: set[Address]) -> bool:
        """Is the seat free for this client? A client that died may look present for a while, so a member that owes an
        answer gives its seat to a newcomer; otherwise the newcomer waits and is greeted again next round."""
        sitting = self.members.at(member.seat)
        if sitting is None:
            return True
        if sitting.address in present and not sitting.missed:
            if member.address not in self._waiting:
                self._waiting.add(member.address)
                self._note(
                    "waiting", {"client": str(member.address), "seat": member.seat, "reason": "its seat is taken"}
                )
            return False
        self.leave(sitting.address, "another connection has its seat")
        return True

    def _member(self, address: Address, reply: Registration) -> Member:
        if reply.run != self.run:
            raise MessageError("it registers for another run")
        if not reply.seat < self.members.num_seats:
            raise MessageError(f"seat {reply.seat} is not one of the {self.members.num_seats}, 0 to N-1")
        if reply.base_sha256 != self._base_sha256:
            raise MessageError(
                f"its base model has the fingerprint {reply.base_sha256[:16]}, not {self._base_sha256[:16]}"
            )
        if reply.round > self.rounds_done:
            raise MessageError(
                f"its replica stands at round {reply.round} and this run's log ends at {self.rounds_done}: if the log "
                "has lost its end, stop the run and restore it; if not, empty the client's folder"
            )
        if reply.vram_bytes:
            workload = Workload(
                batch_size=self.config.settings.batch_size,
                seq_len=self.config.settings.seq_len,
            )
            try:
                budget = int(whole_block_budgets([reply.vram_bytes], self._spec, workload)[0])
            except InfeasibleError:
                needed = psi_model_bytes(self._spec, workload) + psi_block_bytes(self._spec, workload)
                raise MessageError(
                    f"its {reply.vram_bytes / GIB:.3g} GiB cannot hold the model and one block, which need "
                    f"{needed / GIB:.3g} GiB"
                ) from None
        else:
            budget = min(reply.blocks, self.network.num_blocks)
        if budget < 1:
            raise MessageError("it says neither how many blocks nor how much VRAM it can spare")
        facts = method_facts(self.config.settings.method)
        if budget < self.network.num_blocks and not facts.allocates:
            raise MessageError(f"it can hold {budget} of {self.network.num_blocks} blocks, and {facts.name} needs all")
        return Member(address, reply.seat, budget, reply.round)

    def leave(self, address: Address, reason: str) -> None:
        member = self.members.remove(address)
        self._note("left", {"client": str(address), "seat": member.seat, "reason": reason})

    def send_away(self, address: Address, reason: str) -> None:
        """As :meth:`leave`, for a client that is not greeted again unless it connects anew."""
        seat = self.members[address].seat
        self.leave(address, reason)
        self._turned_away.add(address)
        self._out_of_reach[address] = (seat, reason)

    def keep_present(self, present: Iterable[Address]) -> None:
        """Remove the members whose connection is gone."""
        connected = set(present)
        for member in list(self.members):
            if member.address not in connected:
                self.leave(member.address, "its connection is gone")

    def replan(self) -> bool:
        """Make a new plan if the members or their capacities have changed; True when a new plan was made.

        Raises:
            InfeasibleError: there is no plan yet, and the members cannot hold every block between them.
        """
        budgets = self.members.budget_by_seat
        if not budgets or (self.plan is not None and dict(self.plan.budget_by_seat) == budgets):
            return False
        before = self.plan
        came = sorted(set(budgets) - set(before.budget_by_seat if before else ()))
        went = sorted(set(before.budget_by_seat if before else ()) - set(budgets))
        changes = [f"seats {seats} {what}" for seats, what in ((came, "joined"), (went, "left")) if seats]
        reason = "first plan" if before is None else ", ".join(changes) or "other capacities"
        self.plan = make_plan(
            budgets,
            self.network.num_blocks,
            self.members.num_seats,
            self.settings.solver,
            reason,
            before,
            method_facts(self.config.settings.method).allocates,
        )
        if self.run_allocation is None:
            self.run_allocation = self.plan.allocation
        self._note("plan", self.plan.describe())
        return True
