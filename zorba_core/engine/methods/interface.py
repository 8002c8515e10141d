"""The interface of a method: its description, and three functions with an explicit server state.

    init(num_blocks, settings) -> state                       before the first round
    report(plan, batches) -> Reports                          the clients' part of a round
    update(plan, reports, reported_N, state) -> Step, state   the server's part of a round

Plans, checks of reports, the learning rate, evaluation, data, seeds and the log are the same for all methods
(:mod:`zorba_core.engine.loop`), so two runs of one seed differ by the method alone.

A state is a mapping from names to float64 arrays. The functions are pure: they change neither the network's weights nor
their arguments. A federation calls ``report`` in the clients' processes, one client each, and ``update`` in the
server's. The server sends the averages of the step, so clients do not need the method's code for the update.

The log has the averages of every round and the state after it, so resume and replay do not compute them again. A method
that exchanges whole estimates has no averages; its steps are computed again from the log's scalars.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from zorba_core.engine.parts import METHODS, MethodDescription
from zorba_core.engine.round import MethodState, Reports, RoundPlan, Step
from zorba_core.engine.settings import Settings

if TYPE_CHECKING:
    from zorba_core.engine.rows import Rows


class Method(MethodDescription, ABC):
    """A federated algorithm. Its module must not load torch when it is imported: lists of methods import it."""

    def init(self, num_blocks: int, settings: Settings) -> MethodState:
        """The state before the first round."""
        return {}

    @abstractmethod
    def report(self, plan: RoundPlan, batches: Mapping[int, Rows]) -> Reports:
        """The reports of the clients in ``batches``, which maps each client to its mini-batch."""

    @abstractmethod
    def update(
        self, plan: RoundPlan, reports: Reports, reported_N: np.ndarray, state: MethodState
    ) -> tuple[Step, MethodState]:
        """The server's step by the reports of the clients in ``reported_N``, and the new state.

        For replay from the log, a method must use nothing of the reports but ``rho_NQ``.
        """


def method_of(settings: Settings) -> Method:
    """The method of a run's settings."""
    return cast(Method, METHODS[settings.method])
