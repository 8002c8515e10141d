"""Measurements before a run: the accuracy of the base model, and the time of a round on this machine."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace

from zorba_core.allocation import Allocation
from zorba_core.data.divide import division_of
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
    with_base_preference,
)
from zorba_core.runs.prompt import PromptChoice, choose_local_prompt

ROWS = 200  # to evaluate


@dataclass(frozen=True)
class Expectation:
    """Accuracy of the base model, and an estimate of the run's duration."""

    rows: int
    accuracy: float
    plain_accuracy: float | None  # with calibration none, if the run's is another
    seconds_a_round: float
    minutes: float  # of the whole run, with the choice of a prompt and the evaluations
    prompt: PromptChoice | None  # if the run chooses it

    def sentence(self, model: str, metric: str, settings: Settings, num_clients: int) -> str:
        """One line for a person. ``metric``: what the accuracy is called, as in ``task.counted``."""
        plain = "" if self.plain_accuracy is None else f" ({self.plain_accuracy:.3f} without calibration)"
        return (
            f"{model} before training: {metric} {self.accuracy:.3f} on {self.rows} rows{plain}; a round of "
            f"{num_clients} clients takes {self.seconds_a_round:.1f} s here, so {settings.rounds} rounds and "
            f"the evaluations take about {max(1, round(self.minutes))} min"
        )


def expect(task: Task, model: str | os.PathLike[str], settings: Settings, allocation: Allocation) -> Expectation:
    """Choose the prompt if none is given, evaluate the base model on some rows, and time one round.

    Raises:
        InvalidInputError, MissingDataError: model, rows and settings do not fit each other.
    """
    wanted, num_clients, chosen = settings.eval_rows, allocation.num_clients, None
    settings = settings.replace(eval_rows=min(ROWS, wanted or ROWS))
    with use_threads(suited_threads(read_spec(model).num_parameters)):
        network, tokenizer = open_network(model, settings)
        started = time.perf_counter()
        if task.prompts:
            division = division_of(task, None)
            chosen = choose_local_prompt(task, tokenizer, network, num_clients, settings, alpha=1.0, division=division)
            task = replace(task, prompt=chosen.prompt, prompts=())
        choosing = time.perf_counter() - started
        rows, facts = federated_rows(task, tokenizer, num_clients, settings)
        started = time.perf_counter()
        result, plain = evaluate(network, rows.evaluation), None
        evaluation_seconds = time.perf_counter() - started
        if settings.calibration != "none" and not task.prior:
            plain, (_, calibrated) = result.accuracy, with_base_preference(task, network, rows)
            result = evaluate(network, calibrated.evaluation)
            rows = rows if settings.calibration == "batch" else calibrated
        started = time.perf_counter()
        step(init(network, settings), network, allocation, rows, settings)
        seconds = time.perf_counter() - started
    all_rows = min(len(load(task, task.rows.evaluation_split)), wanted or math.inf)
    evaluation_seconds *= all_rows / facts["evaluation_rows"]
    whole = choosing + settings.rounds * seconds + settings.rounds / settings.eval_every * evaluation_seconds
    return Expectation(facts["evaluation_rows"], result.accuracy, plain, seconds, whole / 60, chosen)
