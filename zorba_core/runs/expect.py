"""Measurements before a run: the accuracy of the base model, and the time of a round on this machine."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass

from zorba_core.allocation import Allocation
from zorba_core.data.load import load
from zorba_core.data.task import Task
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.loop import init, step
from zorba_core.engine.settings import Settings
from zorba_core.runs.load import (
    federated_rows,
    open_network,
    read_spec,
    suited_threads,
    use_threads,
    with_label_prior,
)
from zorba_core.runs.rate import usual_rounds

ROWS = 200  # to evaluate


@dataclass(frozen=True)
class Expectation:
    """Accuracy of the base model, and an estimate of the run's duration."""

    rows: int
    accuracy: float
    plain_accuracy: float | None  # without the label prior; None where the task has its own, or no labels
    seconds_a_round: float
    minutes: float  # of the whole run, with the search for a learning rate and the evaluations

    def sentence(self, model: str, metric: str, settings: Settings, num_clients: int) -> str:
        """One line for a person. ``metric``: what the accuracy is called, as in ``task.counted``."""
        plain = "" if self.plain_accuracy is None else f" ({self.plain_accuracy:.3f} without the label prior)"
        return (
            f"{model} before training: {metric} {self.accuracy:.3f} on {self.rows} rows{plain}; a round of "
            f"{num_clients} clients takes {self.seconds_a_round:.1f} s here, so {settings.rounds} rounds, the learning "
            f"rate and the evaluations take about {max(1, round(self.minutes))} min"
        )


def expect(
    task: Task, model: str | os.PathLike[str], settings: Settings, allocation: Allocation, *, find_lr: bool = True
) -> Expectation:
    """Evaluate the base model on some rows and time one round. ``find_lr``: whether the run searches for its rate.

    Raises:
        InvalidInputError, MissingDataError: model, rows and settings do not fit each other.
    """
    wanted = settings.eval_rows
    settings = settings.replace(eval_rows=min(ROWS, wanted or ROWS))
    with use_threads(suited_threads(read_spec(model).num_parameters)):
        network, tokenizer = open_network(model, settings)
        rows, facts = federated_rows(task, tokenizer, allocation.num_clients, settings)
        started = time.perf_counter()
        result, plain = evaluate(network, rows.evaluation), None
        evaluation_seconds = time.perf_counter() - started
        if task.kind == "labels" and not task.prior:
            plain = result.accuracy
            _, rows = with_label_prior(task, network, rows)
            result = evaluate(network, rows.evaluation)
        started = time.perf_counter()
        step(init(network, settings), network, allocation, rows, settings)
        seconds = time.perf_counter() - started
    all_rows = min(len(load(task, task.rows.evaluation_split)), wanted or math.inf)
    evaluation_seconds *= all_rows / facts["evaluation_rows"]
    trial_rounds = usual_rounds(settings) if find_lr else 0
    evaluations = settings.rounds / settings.eval_every + trial_rounds / 3
    whole = (settings.rounds + trial_rounds) * seconds + evaluations * evaluation_seconds
    return Expectation(facts["evaluation_rows"], result.accuracy, plain, seconds, whole / 60)
