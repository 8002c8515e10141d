"""What the training loop tells of each round, and asks after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zorba_core.engine.records import EvaluationEntry, RoundEntry


@dataclass(frozen=True)
class RoundRecord:
    """One row of a run's metrics. Counts and seconds are totals since the start; None where not evaluated."""

    round: int  # rounds done; 0 is the model before fine-tuning
    train_loss: float | None  # mean over clients of F_n at the round's start
    eval_loss: float | None
    eval_accuracy: float | None
    seconds: float  # spent in rounds, evaluations not counted
    forward_passes: int  # of one client's batch
    scalars_up: int  # numbers sent by all clients: finite differences, estimates or weights
    scalars_down: int  # numbers sent to all clients: averages and seeds, estimates or weights
    clients_reported: int | None = None  # in this round
    clients_refused: int | None = None  # in this round, for scalars that could not be used
    backward_passes: int = 0  # of one client's batch

    @classmethod
    def of(cls, entry: RoundEntry) -> RoundRecord:
        """The round's row, before any evaluation."""
        return cls(
            round=entry.round,
            train_loss=entry.train_loss,
            eval_loss=None,
            eval_accuracy=None,
            seconds=entry.seconds,
            forward_passes=entry.forward_passes,
            scalars_up=entry.scalars_up,
            scalars_down=entry.scalars_down,
            clients_reported=int(entry.reported_N.sum()),
            clients_refused=int(entry.refused_N.sum()),
            backward_passes=entry.backward_passes,
        )


class Callback:
    """Called for every round, including round 0, the evaluation before the first."""

    def on_start(self, folder: Path) -> None:
        """Everything is loaded and checked; the run's folder exists."""

    def on_step(self, entry: RoundEntry) -> None:
        """The weights are those after the round; its evaluation, where one is due, comes next."""

    def on_evaluation(self, entry: EvaluationEntry) -> None:
        """The model was evaluated."""

    def on_round(self, record: RoundRecord) -> None:
        """After a round, and its evaluation where one is due."""

    def wants_stop(self) -> bool:
        """Asked after every round: end the run here?"""
        return False
