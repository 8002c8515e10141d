"""The server's side of the protocol: what each client is told in a round, and what becomes of the answers.

Nothing in here knows a network, a clock or a process: :mod:`zorba_core.federation.rounds` carries its messages over a
transport and calls these methods in turn. No answer, however wrong, raises: it is refused and noted with its client and
reason, and the round continues with the others, each block averaged over those of its clients that answered.

The server holds a replica of its own, to judge the model by and to prove clients' replicas against.

Shapes: M blocks, N seats, Q directions of a round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.loop import init, plan_round
from zorba_core.engine.methods.interface import Scalars
from zorba_core.engine.methods.registry import method_of
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.reports import MALFORMED, NOT_ASKED, REPORTED, SILENT, STATUSES, judge_reports
from zorba_core.engine.rounds import RoundPlan, RoundResult, TrainState
from zorba_core.federation import messages
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.fleet import Address, Member, Plan
from zorba_core.federation.membership import Incoming, Membership, NoteTaker, Outgoing
from zorba_core.federation.messages import (
    CATCH_UP,
    MAX_NUMBERS,
    TRAIN,
    Aggregate,
    Answer,
    CatchUp,
    MessageError,
    Refusal,
    Standing,
    Task,
)
from zorba_core.federation.privacy import private_average
from zorba_core.federation.robust import aggregate


class Server(Membership):
    """The state of one run: members, plan, averages so far and the weights they make."""

    def __init__(self, config: RunConfig, settings: ServerSettings, network: BlockNetwork, note: NoteTaker) -> None:
        super().__init__(config, settings, network, note)
        self._method, self._state = method_of(config.settings), init(network, config.settings)

    def resume(self, state: TrainState, averages: Iterable[Aggregate], plan: Plan | None, base_sha256: str) -> None:
        """Stand where a log ends; the network, once the base of that fingerprint, holds the weights after
        ``averages``."""
        self._state, self.averages, self.plan, self._base_sha256 = state, list(averages), plan, base_sha256

    # -- a round -------------------------------------------------------------------------------------------------------

    def begin_round(self) -> tuple[RoundPlan, list[Outgoing]]:
        """The round's plan, and what each client that takes part is told. Those far behind get averages instead."""
        drawn = plan_round(self._state, self.fleet.num_seats, self.config.settings)
        ready_N, outgoing = np.zeros(self.fleet.num_seats, dtype=bool), []
        members = [member for member in self.fleet if self.plan.blocks(member.seat)]
        asked = [member for member in members if drawn.asked_N[member.seat]] or members
        for member in asked:
            missing = self._missing(member)
            if member.round + len(missing) < self.rounds_done:
                outgoing.append(Outgoing(member.address, CATCH_UP, messages.encode(CatchUp(self.run, missing))))
                continue
            ready_N[member.seat] = True
            task = Task(self.run, drawn.round, drawn.seeds_Q, self.plan.blocks(member.seat), missing)
            outgoing.append(Outgoing(member.address, TRAIN, messages.encode(task)))
        return replace(drawn, asked_N=ready_N), outgoing

    def conclude_round(self, plan: RoundPlan, incoming: Sequence[Incoming]) -> RoundResult | None:
        """Judge the answers, average and update. None when no answer could be used: the weights are as before, and the
        same round can be tried again."""
        settings, num_seats = self.config.settings, self.fleet.num_seats
        rho_NQ, loss_N = np.zeros((num_seats, len(plan.seeds_Q))), np.zeros(num_seats)
        status_N = np.where(plan.asked_N, SILENT, NOT_ASKED).astype(np.uint8)
        forward_passes, heard = 0, set()
        for one in incoming:
            problem = self._take_answer(one, plan, heard, rho_NQ, loss_N, status_N)
            if isinstance(problem, str):
                self._refuse(one.address, plan.round, problem)
            else:
                forward_passes += problem
        answered_N = status_N == REPORTED
        judged_N = judge_reports(
            rho_NQ, loss_N, answered_N, mu=settings.mu,
            outlier_ratio=np.inf if self.settings.privacy.on else settings.outlier_ratio,
        )  # fmt: skip
        status_N[answered_N] = judged_N[answered_N]
        self._count_missed(status_N, plan)
        reported_N = status_N == REPORTED
        if not reported_N.any():
            self._note("void round", {"round": plan.round, "asked": int(plan.asked_N.sum())})
            return None
        A_MN, private = self.plan.allocation.A_MN, self.settings.privacy.on
        if private:
            rho_bar_MQ = private_average(rho_NQ, A_MN, reported_N, self.settings.privacy)
        else:
            rho_bar_MQ = aggregate(rho_NQ, A_MN, reported_N, self.settings.aggregation)
        scalars = Scalars(rho_bar_MQ, None if private else rho_NQ, A_MN, reported_N)
        rho_bar_MQ, method_state = self._method.checked_coefficients(self._state.method_state, scalars, settings)
        update_blocks(self.network, rho_bar_MQ, plan.seeds_Q, self._state.directions, settings.lr)
        self._state = replace(self._state, rounds_done=plan.round, method_state=method_state)
        self.averages.append(Aggregate(plan.round, plan.seeds_Q, rho_bar_MQ, settings.lr))
        return RoundResult(
            plan.round, plan.seeds_Q, rho_NQ, status_N, rho_bar_MQ, loss_N, forward_passes,
            method_state=method_state, log_update=True,
        )  # fmt: skip

    def _take_answer(
        self, one: Incoming, plan: RoundPlan, heard: set[Address],
        rho_NQ: np.ndarray, loss_N: np.ndarray, status_N: np.ndarray,
    ) -> int | str:  # fmt: skip
        """The answer's forward passes once it is written into the arrays, or why it is refused."""
        if one.address not in self.fleet:
            return "an answer from one who is not a member"
        member = self.fleet[one.address]
        if one.payload is None:
            return f"no answer: {one.failure[:200]}"
        if one.address in heard:
            return "a second answer in one round"
        heard.add(one.address)
        asked = bool(plan.asked_N[member.seat])
        if asked:
            status_N[member.seat] = MALFORMED
        try:
            reply = messages.decode(one.payload, Answer, Standing, Refusal)
            if isinstance(reply, Refusal):
                return self._behind(member, reply)
            if reply.run != self.run or reply.seat != member.seat:
                return f"it answers for another run, or for seat {reply.seat} instead of {member.seat}"
            if isinstance(reply, Standing):
                self.fleet.update(one.address, round=min(reply.round, self.rounds_done))
                return 0
        except MessageError as error:
            return str(error)
        if not asked:
            return "scalars that nobody asked for"
        if reply.round != plan.round:
            return f"a stale answer, of round {reply.round}"
        if len(reply.rho_Q) != len(plan.seeds_Q):
            return f"{len(reply.rho_Q)} scalars where {len(plan.seeds_Q)} were due"
        rho_NQ[member.seat], loss_N[member.seat], status_N[member.seat] = reply.rho_Q, reply.loss, REPORTED
        self.fleet.update(one.address, round=plan.round - 1)
        return reply.forward_passes

    def _behind(self, member: Member, refusal: Refusal) -> str:
        """A client that could not follow: it is helped next time from where it says it stands."""
        if refusal.run == self.run:
            self.fleet.update(member.address, round=min(refusal.round, self.rounds_done))
        else:  # it has lost the run: greet it again
            self.leave(member.address, "it does not know the run any more")
        return f"the client declines: {refusal.reason}"

    def _count_missed(self, status_N: np.ndarray, plan: RoundPlan) -> None:
        for member in list(self.fleet):
            status = int(status_N[member.seat])
            if not plan.asked_N[member.seat]:
                continue
            if status == REPORTED:
                self.fleet.update(member.address, missed=0)
                continue
            if status not in (SILENT, MALFORMED):
                self._refuse(member.address, plan.round, f"its scalars are {STATUSES[status]}")
            self.fleet.update(member.address, missed=member.missed + 1)
            if status == SILENT and member.missed + 1 >= self.settings.patience:
                self.leave(member.address, f"silent in {member.missed + 1} rounds in a row")

    # -- keeping replicas together -------------------------------------------------------------------------------------

    def catch_ups(self) -> list[Outgoing]:
        """What every member lacks, to be sent when no round follows; answered with the replica's fingerprint."""
        return [
            Outgoing(member.address, CATCH_UP, messages.encode(CatchUp(self.run, self._missing(member))))
            for member in self.fleet
        ]

    def hear_standing(self, incoming: Sequence[Incoming]) -> Mapping[int, Standing]:
        """Where replicas stand, by seat; what is not an answer to a catch-up is noted."""
        standing: dict[int, Standing] = {}
        for one in incoming:
            try:
                if one.address not in self.fleet or one.payload is None:
                    raise MessageError(one.failure or "not a member")
                reply = messages.decode(one.payload, Standing, Refusal)
                member = self.fleet[one.address]
                if isinstance(reply, Refusal):
                    self._refuse(one.address, self.rounds_done, self._behind(member, reply))
                elif reply.run == self.run and reply.seat == member.seat:
                    self.fleet.update(one.address, round=min(reply.round, self.rounds_done))
                    standing[reply.seat] = reply
            except MessageError as error:
                self._refuse(one.address, self.rounds_done, str(error))
        return standing

    def _missing(self, member: Member) -> tuple[Aggregate, ...]:
        """The averages that come next for a replica, as many as one message takes."""
        most = MAX_NUMBERS // (self.network.num_blocks * self.config.settings.num_perturbations)
        return tuple(self.averages[member.round : member.round + most])

    def _refuse(self, address: Address, round_index: int, reason: str) -> None:
        seat = self.fleet[address].seat if address in self.fleet else None
        self._note("refused", {"client": str(address), "seat": seat, "round": round_index, "reason": reason[:300]})
