"""Does the rate in units of the scalars learn as fast as the best of a grid around it?

    python -m tests.benchmarks.bench_learning [FILE [CASE ...]]

Each case is trained with ``lr auto`` and the centred loss, at the step length of :mod:`zorba_core.engine.rate` and at
half and twice of it, and evaluated on rows that no client trains on. A run reaches the target in the first
evaluation at which 90 % of the best run's fall in loss is done. What is done stands in FILE and is not done again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.own_rows import hotel_reviews, tickets
from zorba_core.allocation import Problem, solve
from zorba_core.data.infer import task_for
from zorba_core.data.task import Overrides, Task, get_task
from zorba_core.engine import loop
from zorba_core.engine.loop import Training, run_rounds
from zorba_core.engine.settings import LARGE_DIRECTIONS, SMALL_DIRECTIONS, Settings
from zorba_core.files import read_json, write_json
from zorba_core.runs.load import federated_rows, open_network, suited_settings
from zorba_core.runs.record import environment_of

DEFAULT_FILE = Path("artifacts/benchmarks/learning.json")
TIMES = (1.0, 0.5, 2.0)  # of the package's step length; the first is the package's own
SHARES = (0.25, 0.4, 0.65, 1.0)  # of the blocks that a client trains, in turn
CLIENTS, EVAL_ROWS = 8, 200


@dataclass(frozen=True)
class Case:
    """Rows, a model and a number of rounds; eight clients, Dirichlet 1.0, eight rows each."""

    task: Callable[[], Task]
    model: str
    rounds: int
    prompt: str = ""


def _tickets() -> Task:
    return task_for(tickets(1200, seed=0), Overrides(("text",), "queue", prompt="{text}\nThis is about"))


def _hotels() -> Task:
    return task_for(hotel_reviews(1100, seed=0), Overrides(("review",), "tone", prompt="{review}\nIn one word:"))


_sst2, _ag_news = partial(get_task, "sst2"), partial(get_task, "ag-news")
CASES = {
    **{
        f"{name}, opt-mini": Case(task, "opt-mini", 40)
        for name, task in (("sst2", _sst2), ("ag-news", _ag_news), ("tickets", _tickets), ("hotels", _hotels))
    },
    "sst2, smollm2-135m": Case(_sst2, "smollm2-135m", 20, "Review: {text} Sentiment:"),
    "ag-news, smollm2-135m": Case(_ag_news, "smollm2-135m", 20),
    "tickets, smollm2-135m": Case(_tickets, "smollm2-135m", 20),
    "hotels, smollm2-135m": Case(_hotels, "smollm2-135m", 20),
}


def main(file: Path, names: list[str]) -> None:
    content = read_json(file) if file.is_file() else {"machine": environment_of(Settings()), "cases": {}}
    for name in names or CASES:
        case = content["cases"].setdefault(name, {"runs": {}})
        for times in TIMES:
            if str(times) not in case["runs"]:
                case["runs"][str(times)] = losses_of(CASES[name], times)
                write_json(file, content)
        case |= compared(case["runs"])
        print(name, {key: case[key] for key in ("best", "target", "rounds_to_target", "factor")}, flush=True)
        write_json(file, content)


def losses_of(case: Case, times: float) -> dict[str, Any]:
    """Rounds, losses and accuracies of the evaluations at this multiple of the package's step length."""
    task = case.task()
    task = replace(task, prompt=case.prompt) if case.prompt else task
    given = {"direction": "low-rank", "schedule": "cosine", "calibration": "batch", "lr": "auto"}
    given["directions"] = LARGE_DIRECTIONS if case.model == "smollm2-135m" else SMALL_DIRECTIONS
    given |= {"rounds": case.rounds, "batch_size": 8, "eval_every": 5, "eval_rows": EVAL_ROWS}
    settings = suited_settings(task, case.model, given)
    network, tokenizer = open_network(case.model, settings)
    rows, _ = federated_rows(task, tokenizer, CLIENTS, settings)
    blocks = [max(1, round(network.num_blocks * share)) for share in SHARES]
    allocation = solve(Problem(blocks * (CLIENTS // len(blocks)), network.num_blocks), solver="balanced").allocation
    usual, started = loop.length_of_step, time.process_time()
    loop.length_of_step = lambda *arguments: times * usual(*arguments)
    try:
        done = list(run_rounds(Training.local(network, allocation, rows, settings)))
    finally:
        loop.length_of_step = usual
    seconds = time.process_time() - started
    seen = [each for each in done if each.eval_loss is not None]
    print(times, [(each.round, round(each.eval_loss, 3), each.eval_accuracy) for each in seen], flush=True)
    return {
        "rounds": [each.round for each in seen],
        "losses": [each.eval_loss for each in seen],
        "accuracies": [each.eval_accuracy for each in seen],
        "cpu_seconds": seconds,
    }


def compared(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The run that ends lowest, and the rounds of each run to 90 % of its fall."""
    best = min(runs, key=lambda times: runs[times]["losses"][-1])
    initial = runs[best]["losses"][0]
    target = initial - 0.9 * (initial - runs[best]["losses"][-1])
    reached = {
        times: next((t for t, loss in zip(run["rounds"], run["losses"], strict=True) if loss <= target), None)
        for times, run in runs.items()
    }
    fastest = min(rounds for rounds in reached.values() if rounds is not None)
    own = reached["1.0"]
    return {
        "best": float(best),
        "target": target,
        "rounds_to_target": reached,
        "factor": own / fastest if own else None,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE, sys.argv[2:])
