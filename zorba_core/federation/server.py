"""The server's side of the protocol: what each client receives in a round, and how its answer is used.

Nothing here depends on a network, a clock or a process: :mod:`zorba_core.federation.rounds` carries its messages over a
transport and calls these methods in turn. No answer, however wrong, raises: it is refused and noted with its client and
reason, and the round continues with the others, each block averaged over those of its clients that answered.

The server holds a replica of its own: the model is evaluated on it, and clients' replicas are compared with it.

Shapes: M blocks, N seats, Q directions of a round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from zorba_core.allocation import Allocation
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import TrainState, init, plan_round
from zorba_core.engine.methods.interface import Scalars
from zorba_core.engine.methods.registry import method_of
from zorba_core.engine.reports import MALFORMED, NOT_ASKED, REPORTED, SILENT, STATUSES, judge_reports
from zorba_core.engine.round import Round, lr_of_round
from zorba_core.federation import messages
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.fleet import Address, Member, Plan
from zorba_core.federation.membership import Incoming, Membership, NoteTaker, Outgoing
from zorba_core.federation.messages import (
    CATCH_UP,
    MAX_NUMBERS,
    TRAIN,
    Aggregate,
    CatchUp,
    MessageError,
    Refusal,
    RoundAnswer,
    RoundTask,
    Standing,
)
from zorba_core.federation.robust import aggregate


class RoundPlan(NamedTuple):
    """A round as it is sent out."""

    round: int
    seeds_Q: np.ndarray  # uint32
    asked_N: np.ndarray  # bool; the members whose scalars are asked for


class Server(Membership):
    """The state of one run: members, plan, averages so far and the weights they make."""

    def __init__(self, config: RunConfig, settings: ServerSettings, network: Blocks, note: NoteTaker) -> None:
        super().__init__(config, settings, network, note)
        self._method, self._state = method_of(config.settings), init(network, config.settings)
        self._catching_up: dict[Address, int] = {}  # whom this round sends averages only, and where it stood

    def resume(
        self,
        state: TrainState,
        averages: Iterable[Aggregate],
        plan: Plan | None,
        base_sha256: str,
        run_allocation: Allocation,
    ) -> None:
        """Continue where a log ends. The network was the base of that fingerprint and now holds the weights after
        ``averages``."""
        self._state, self.averages, self.plan, self._base_sha256 = state, list(averages), plan, base_sha256
        self.run_allocation = run_allocation

    # -- a round -------------------------------------------------------------------------------------------------------

    def begin_round(self) -> tuple[RoundPlan, list[Outgoing]]:
        """The round as it is planned, and the message to each client that takes part. A client that is far behind gets
        averages and no round."""
        t, seeds_Q, asked_N = plan_round(self._state, self.members.num_seats, self.config.settings)
        ready_N, outgoing = np.zeros(self.members.num_seats, dtype=bool), []
        blocks_N = self.plan.allocation.blocks_per_client
        members = [member for member in self.members if blocks_N[member.seat]]
        recipients = [member for member in members if asked_N[member.seat]] or members
        self._catching_up = {}
        for member in recipients:
            missing = self._missing(member)
            if member.round + len(missing) < self.rounds_done:
                outgoing.append(Outgoing(member.address, CATCH_UP, messages.encode(CatchUp(self.run, missing))))
                self._catching_up[member.address] = member.round
                continue
            ready_N[member.seat] = True
            task = RoundTask(self.run, t, seeds_Q, tuple(blocks_N[member.seat]), missing)
            outgoing.append(Outgoing(member.address, TRAIN, messages.encode(task)))
        return RoundPlan(t, seeds_Q, ready_N), outgoing

    def conclude_round(self, plan: RoundPlan, incoming: Sequence[Incoming]) -> Round | None:
        """Judge the answers, average and update. None when no answer could be used: the weights are as before, and the
        same round can be tried again."""
        settings, num_seats = self.config.settings, self.members.num_seats
        rho_NQ, loss_N = np.zeros((num_seats, len(plan.seeds_Q))), np.zeros(num_seats)
        status_N = np.where(plan.asked_N, SILENT, NOT_ASKED).astype(np.uint8)
        forward_passes, answered = 0, set()
        for message in incoming:
            problem = self._take_answer(message, plan, answered, rho_NQ, loss_N, status_N)
            if isinstance(problem, str):
                self._refuse(message.address, plan.round, problem)
            else:
                forward_passes += problem
        answered_N = status_N == REPORTED
        judged_N = judge_reports(
            rho_NQ,
            loss_N,
            answered_N,
            mu=settings.mu,
        )
        status_N[answered_N] = judged_N[answered_N]
        self._count_missed(status_N, plan, answered)
        reported_N = status_N == REPORTED
        if not reported_N.any():
            self._note("void round", {"round": plan.round, "asked": int(plan.asked_N.sum())})
            return None
        A_MN = self.plan.allocation.A_MN
        rho_bar_MQ = aggregate(rho_NQ, A_MN, reported_N, self.settings.aggregation)
        scalars = Scalars(rho_bar_MQ, rho_NQ, A_MN, reported_N)
        rho_bar_MQ, method_state = self._method.checked_coefficients(self._state.method_state, scalars, settings)
        lr = lr_of_round(settings, plan.round)
        update_blocks(self.network, rho_bar_MQ, plan.seeds_Q, self._state.directions, lr)
        self._state = replace(self._state, rounds_done=plan.round, method_state=method_state)
        self.averages.append(Aggregate(plan.round, plan.seeds_Q, rho_bar_MQ, lr))
        own = np.array_equal(A_MN, self.run_allocation.A_MN)
        return Round(
            plan.round,
            lr,
            plan.seeds_Q,
            np.where(reported_N[:, None], rho_NQ, 0.0),
            status_N,
            np.where(reported_N, loss_N, 0.0),
            rho_bar_MQ,
            method_state,
            None if own else A_MN,
            forward_passes,
        )

    def _take_answer(
        self,
        message: Incoming,
        plan: RoundPlan,
        answered: set[Address],
        rho_NQ: np.ndarray,
        loss_N: np.ndarray,
        status_N: np.ndarray,
    ) -> int | str:
        """The answer's forward passes once it is written into the arrays, or why it is refused."""
        if message.address not in self.members:
            return "an answer from a client that is not a member"
        member = self.members[message.address]
        if message.payload is None:
            return f"no answer: {message.failure[:200]}"
        if message.address in answered:
            return "a second answer in one round"
        answered.add(message.address)
        asked = bool(plan.asked_N[member.seat])
        if asked:
            status_N[member.seat] = MALFORMED
        try:
            reply = messages.decode(message.payload, RoundAnswer, Standing, Refusal)
            if isinstance(reply, Refusal):
                return self._behind(member, reply)
            if reply.run != self.run or reply.seat != member.seat:
                return f"it answers for another run, or for seat {reply.seat} instead of {member.seat}"
            if isinstance(reply, Standing):
                self.members.update(message.address, round=min(reply.round, self.rounds_done))
                return 0
        except MessageError as error:
            return str(error)
        if not asked:
            return "scalars that were not asked for"
        if reply.round != plan.round:
            return f"a stale answer, of round {reply.round}"
        if len(reply.rho_Q) != len(plan.seeds_Q):
            return f"{len(reply.rho_Q)} scalars where {len(plan.seeds_Q)} were expected"
        rho_NQ[member.seat], loss_N[member.seat], status_N[member.seat] = reply.rho_Q, reply.loss, REPORTED
        self.members.update(message.address, round=plan.round - 1)
        return reply.forward_passes

    def _behind(self, member: Member, refusal: Refusal) -> str:
        """A client that could not follow: the next message starts from the round that it reports."""
        if refusal.run == self.run:
            self.members.update(member.address, round=min(refusal.round, self.rounds_done))
        else:  # it has lost the run: greet it again
            self.leave(member.address, "it no longer knows the run")
        return f"the client declines: {refusal.reason}"

    def _count_missed(self, status_N: np.ndarray, plan: RoundPlan, answered: set[Address]) -> None:
        for member in list(self.members):
            status = int(status_N[member.seat])
            if not plan.asked_N[member.seat]:
                before = self._catching_up.get(member.address, -1)
                if member.round <= before:  # it was sent averages and is no further: no round is asked of it for ever
                    self._miss(member, silent=member.address not in answered)
                continue
            if status == REPORTED:
                self.members.update(member.address, missed=0)
                continue
            if status not in (SILENT, MALFORMED):
                self._refuse(member.address, plan.round, f"its scalars are {STATUSES[status]}")
            self._miss(member, silent=status == SILENT)

    def _miss(self, member: Member, *, silent: bool) -> None:
        missed = member.missed + 1
        self.members.update(member.address, missed=missed)
        if missed >= self.settings.patience and silent:
            self.leave(member.address, f"silent in {missed} rounds in a row")
        elif missed >= self.settings.patience:  # it would hold its seat and blocks, and be asked again and again
            self.send_away(member.address, f"no usable answer in {missed} rounds in a row")

    # -- keeping replicas together -------------------------------------------------------------------------------------

    def catch_ups(self) -> list[Outgoing]:
        """The averages that every member lacks, for after the last round; answered with the replica's fingerprint."""
        return [
            Outgoing(member.address, CATCH_UP, messages.encode(CatchUp(self.run, self._missing(member))))
            for member in self.members
        ]

    def hear_standing(self, incoming: Sequence[Incoming]) -> Mapping[int, Standing]:
        """The round of each replica, by seat; what is not an answer to a catch-up is noted."""
        standing: dict[int, Standing] = {}
        for message in incoming:
            try:
                if message.address not in self.members or message.payload is None:
                    raise MessageError(message.failure or "not a member")
                reply = messages.decode(message.payload, Standing, Refusal)
                member = self.members[message.address]
                if isinstance(reply, Refusal):
                    self._refuse(message.address, self.rounds_done, self._behind(member, reply))
                elif reply.run == self.run and reply.seat == member.seat:
                    self.members.update(message.address, round=min(reply.round, self.rounds_done))
                    standing[reply.seat] = reply
            except MessageError as error:
                self._refuse(message.address, self.rounds_done, str(error))
        return standing

    def _missing(self, member: Member) -> tuple[Aggregate, ...]:
        """The averages that come next for a replica, as many as one message takes."""
        most = max(1, MAX_NUMBERS // (self.network.num_blocks * self.config.settings.directions))
        return tuple(self.averages[member.round : member.round + most])

    def _refuse(self, address: Address, round_index: int, reason: str) -> None:
        seat = self.members[address].seat if address in self.members else None
        self._note("refused", {"client": str(address), "seat": seat, "round": round_index, "reason": reason[:300]})
