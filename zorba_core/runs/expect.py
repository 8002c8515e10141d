"""Measurements before a run: the accuracy of the base model, and the time of a round on this machine.

A few rows and clients are measured, whatever the size of the table. The prompt is chosen as a run does it.

Shapes: E rows, N clients, C labels.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace

from zorba_core.allocation import Allocation
from zorba_core.data.divide import divide, division_of
from zorba_core.data.encode import RowsOnDemand, encode
from zorba_core.data.load import load
from zorba_core.data.task import Task
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.course import Course
from zorba_core.engine.evaluation import evaluate, label_log_probabilities, prior_rows, shared_preference, spread
from zorba_core.engine.loop import LocalClients, Training, init, next_round
from zorba_core.engine.round import FederatedRows, Reports, RoundPlan
from zorba_core.engine.settings import Settings, is_large
from zorba_core.runs.load import evaluation_frame, open_network, read_spec, suited_threads, use_threads
from zorba_core.runs.prompt import PromptChoice, choose_local_prompt

ROWS, ROWS_OF_LARGE = 200, 100  # to evaluate, at most
TIMED = 2  # clients whose work of a round is timed


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
    """Choose the prompt if none is given, evaluate the base model on some rows, and time a round.

    Raises:
        InvalidInputError, MissingDataError: model, rows and settings do not fit each other.
    """
    wanted, num_clients, chosen = settings.eval_rows or math.inf, allocation.num_clients, None
    num_parameters = read_spec(model).num_parameters
    most = min(ROWS_OF_LARGE if is_large(num_parameters) else ROWS, wanted)
    settings = settings.replace(eval_rows=most)
    with use_threads(suited_threads(num_parameters)):
        network, tokenizer = open_network(model, settings)
        started = time.perf_counter()
        if task.prompts:
            division = division_of(task, None)
            chosen = choose_local_prompt(task, tokenizer, network, num_clients, settings, alpha=1.0, division=division)
            task = replace(task, prompt=chosen.prompt, prompts=())
        choosing = time.perf_counter() - started
        frame, tested = load(task), evaluation_frame(task, settings)
        evaluation = encode(task, tested, tokenizer, settings.seq_len)
        train = (encode if task.kind == "options" else RowsOnDemand.of)(task, frame, tokenizer, settings.seq_len)
        held_N = divide(frame, num_clients, 1.0, settings.seed)
        rows = FederatedRows(train.centred() if settings.calibration == "batch" else train, held_N, evaluation)
        started = time.perf_counter()
        accuracy, plain = _accuracies(task, network, rows, settings)
        of_preference = 0 if plain is None else num_clients * prior_rows(num_clients)
        seconds_a_row = (time.perf_counter() - started) / (len(evaluation) + of_preference)
        seconds = _seconds_of_round(network, allocation, rows, settings)
    all_rows = min(len(load(task, task.rows.evaluation_split)), wanted)
    evaluating = all_rows * settings.rounds / settings.eval_every * seconds_a_row
    minutes = (choosing + settings.rounds * seconds + evaluating) / 60
    return Expectation(len(evaluation), accuracy, plain, seconds, minutes, chosen)


def _accuracies(task: Task, network: Blocks, rows: FederatedRows, settings: Settings) -> tuple[float, float | None]:
    """The base model's accuracy, and without calibration if the run has one, from one forward pass of each row."""
    if settings.calibration == "none" or task.prior:
        return evaluate(network, rows.evaluation).accuracy, None
    log_p_EC, label_E = label_log_probabilities(network, rows.evaluation), rows.evaluation.label_E.numpy()
    prior_C = shared_preference(network, rows.train, rows.held_N)
    plain, calibrated = ((p_EC.argmax(axis=1) == label_E).mean() for p_EC in (log_p_EC, log_p_EC - prior_C))
    return float(calibrated), float(plain)


def _seconds_of_round(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> float:
    """The time of a round, from the work of a few clients. The weights are one round ahead afterwards."""
    asked = max(1, round(settings.participation * allocation.num_clients))
    few = spread(allocation.num_clients, TIMED)
    clients = _Timed(replace(rows, held_N=[rows.held_N[n] for n in few]))
    settings = settings.replace(participation=1.0)
    training = Training(network, Allocation(allocation.A_MN[:, few]), settings, clients, rows.evaluation)
    whole = next_round(training, init(network, settings), Course())[1].seconds
    return whole + clients.seconds * (asked / len(few) - 1)


class _Timed(LocalClients):
    """Clients in this process, and the seconds of their reports."""

    seconds = 0.0

    def collect(self, plan: RoundPlan) -> Reports:
        started = time.perf_counter()
        reports = super().collect(plan)
        self.seconds += time.perf_counter() - started
        return reports
