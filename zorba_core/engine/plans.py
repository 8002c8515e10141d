"""Who activates what in each round of a run: the same in every round, varied from round to round, or planned again from
the run's own scalars.

With ``replan`` = k the first ``explore`` rounds, and from then on every k-th, have the run's own allocation with its
blocks in a random order, so that the scalars tell the blocks apart. After the first ones, and then after every k
rounds, energies and noises are read of all scalars so far (:mod:`zorba_core.allocation.importance`; those of k rounds
ago count half), and the allocation of largest gain within what each client held at the start is the plan of the rounds
that follow. Every plan is a function of the run's allocation and of scalars in the log, so it needs no message of its
own to be repeated; the log writes each round's matrix down nevertheless, so that a replay computes none.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zorba_core.allocation import Allocation, AllocationMetrics, AllocationProblem, solve
from zorba_core.allocation.importance import ScalarRound, importance_of
from zorba_core.allocation.varied import thinned, varied
from zorba_core.engine.records import RoundEntry
from zorba_core.engine.rounds import RoundResult
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InfeasibleError, InvalidInputError


def explores(settings: TrainSettings, round_index: int) -> bool:
    """Has the round its blocks in a random order, to see them all?"""
    k, t = settings.replan, round_index
    return k is not None and (t <= settings.explore or (k > 1 and (t - settings.explore) % k == 0))


class Plans:
    """The allocations of a run's rounds, made of the run's ``own``; clients without a block in it get none."""

    def __init__(
        self,
        own: AllocationMetrics,
        settings: TrainSettings,
        sizes_M: Sequence[int],
        done: Sequence[RoundEntry] = (),
    ) -> None:
        self._run, self._settings, self._sizes_M = own, settings, sizes_M
        self.own: AllocationMetrics = own  # changes where clients come and go
        self._heard: list[ScalarRound] = []
        self._plan: tuple[int, AllocationMetrics, AllocationMetrics, dict[str, Any]] | None = None
        for entry in done:
            self.hear(entry)

    def of_round(self, round_index: int) -> AllocationMetrics:
        """Round t's; the rounds before it must have been heard."""
        settings, t = self._settings, round_index
        if settings.replan is None:
            return varied(self.own, settings.vary, settings.seed, t)
        if explores(settings, t):
            return varied(thinned(self.own), "permute", settings.seed, t)
        after = t - 1 - (t - 1 - settings.explore) % settings.replan
        if self._plan is None or self._plan[:2] != (after, self.own):
            allocation, facts = self._made(after)
            self._plan = (after, self.own, allocation, facts)
        return self._plan[2]

    def note(self, round_index: int) -> dict[str, Any] | None:
        """What to write down of a plan that begins with this round; None where none does."""
        settings, t = self._settings, round_index
        if settings.replan is None or explores(settings, t) or self._plan is None or self._plan[0] != t - 1:
            return None
        return {"blocks_per_client": self._plan[2].blocks_per_client, **self._plan[3]}

    def hear(self, done: RoundEntry | RoundResult) -> None:
        """The scalars of the next round, which had the allocation of :meth:`of_round`."""
        if self._settings.replan is not None:
            A_MN = self._run.A_MN if done.A_MN is None else done.A_MN
            self._heard.append(ScalarRound(A_MN, done.rho_NQ, done.reported_N))

    def _made(self, after: int) -> tuple[AllocationMetrics, dict[str, Any]]:
        """The plan from the scalars of the first ``after`` rounds; the run's own allocation where they say nothing."""
        settings, A_MN = self._settings, self.own.A_MN
        rounds = [
            ScalarRound(each.A_MN, each.rho_NQ, each.reported_N, 0.5 ** ((after - t) / settings.replan))
            for t, each in enumerate(self._heard[:after], start=1)
        ]
        seated = np.flatnonzero(A_MN.any(axis=0))
        try:
            read = importance_of(rounds, resamples=0)
            facts = read.facts(self._sizes_M)
            problem = AllocationProblem(
                A_MN[:, seated].sum(axis=0), len(A_MN), idle_blocks=settings.idle_blocks, total=int(A_MN.sum())
            )
            solution = solve(problem, "gain", facts=facts)
        except (InvalidInputError, InfeasibleError) as error:
            return self.own, {"reason": f"as at the start: {error}"}
        planned_MN = np.zeros_like(A_MN)
        planned_MN[:, seated] = solution.allocation.A_MN
        said = {
            "reason": f"gain from the scalars of {after} rounds",
            "energies": facts.energy_M.tolist(),
            "noise": facts.noise_M.tolist(),
            "gain": solution.value,
        }
        return Allocation(planned_MN), said
