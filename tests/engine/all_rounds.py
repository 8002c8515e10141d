"""A whole run of the engine, or one round of it, in one call."""

from __future__ import annotations

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.course import Course
from zorba_core.engine.loop import Training, TrainState, next_round, run_rounds
from zorba_core.engine.round import FederatedRows, Round
from zorba_core.engine.settings import Settings


def run_all(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> list[Round]:
    """Every round, the base model's evaluation first."""
    return list(run_rounds(Training.local(network, allocation, rows, settings)))


def step(
    state: TrainState, network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings
) -> tuple[TrainState, Round]:
    """The round after the state's."""
    course = Course(Round(t) for t in range(state.rounds_done + 1))
    course.best = course.start
    return next_round(Training.local(network, allocation, rows, settings), state, course)
