"""Replay a log's rounds: rebuild the weights and the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.callbacks import RoundRecord
from zorba_core.engine.loop import init, repeat_round
from zorba_core.engine.records import EvaluationEntry, RoundEntry
from zorba_core.engine.rounds import TrainState
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError
from zorba_core.runs.trajectory import Trajectory


@torch.no_grad()
def replay_rounds(
    network: Blocks,
    allocation: Allocation,
    settings: Settings,
    rounds: Sequence[RoundEntry],
    evaluations: Sequence[EvaluationEntry] = (),
    start: int = 0,
) -> TrainState:
    """Move the base's weights through ``rounds``, in place. The last evaluation's fingerprint proves the result.

    ``start``: so many of the rounds are in the weights already, from a checkpoint.

    Returns:
        the training state after the last round, with the method's state.

    Raises:
        InvalidInputError: the weights come out differently here.
    """
    proof = evaluations[-1] if evaluations else None
    state = init(network, settings)
    if start:
        state = replace(state, rounds_done=start, method_state=rounds[start - 1].method_state)
    for done in range(start, len(rounds) + 1):
        if proof is not None and proof.round == done and network.weights_sha256() != proof.weights_sha256:
            raise InvalidInputError(
                f"the log's round {done} replays to other weights here than where the run was made: processor, device "
                "or versions differ (see environment.json); use the machine and versions that it records"
            )
        if done < len(rounds):
            state = repeat_round(state, rounds[done], network, allocation, settings)
    return state


def records_of(trajectory: Trajectory, settings: Settings) -> tuple[RoundRecord, ...]:
    """The metrics from the log, those of an uninterrupted run: an interruption is evaluated wherever it comes."""
    judged = {entry.round: entry for entry in trajectory.evaluations if settings.evaluates_after(entry.round)}
    records = [RoundRecord.of(entry) for entry in trajectory.rounds]
    if 0 in judged:
        records.insert(0, RoundRecord(0, None, None, None, 0.0, 0, 0, 0))
    return tuple(
        replace(record, eval_loss=judged[record.round].loss, eval_accuracy=judged[record.round].accuracy)
        if record.round in judged
        else record
        for record in records
    )
