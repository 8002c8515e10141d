"""Does the rate that is found learn as fast as the best of a grid of six?

    python -m tests.benchmarks.bench_rate [FILE [CASE ...]]

Each rate of the grid, and the one that is found, is a run with a cosine schedule, evaluated on rows that the finder
never sees; the label priors are taken out. The target is 90 % of the best grid rate's fall in loss; a run reaches it in
the first round at which its mean over three evaluations is there. What is done stands in FILE and is not done again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.own_rows import hotel_reviews, tickets
from zorba_core.allocation import Problem, solve
from zorba_core.data.infer import task_for
from zorba_core.data.task import Overrides, Task, get_task
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.loop import init, step
from zorba_core.engine.settings import Settings
from zorba_core.errors import RunError
from zorba_core.files import read_json, write_json
from zorba_core.runs.load import federated_rows, open_network, with_label_prior
from zorba_core.runs.rate import find_rate
from zorba_core.runs.record import environment_of

DEFAULT_FILE = Path("artifacts/benchmarks/rate.json")
WHAT = (
    "Rounds to 90 % of the fall in loss of the grid rate that ends lowest, by the rate that is found and by a grid of "
    "six; label priors taken out, cosine"
)
EVERY = 2


@dataclass(frozen=True)
class Case:
    """A task, a base model and settings; ``clients`` clients of ``blocks`` blocks each."""

    task: Callable[[], Task]
    model: str
    settings: Settings
    rates: tuple[float, ...]
    clients: int
    blocks: int


def _tickets() -> Task:
    return task_for(tickets(1200, seed=0), Overrides(("text",), "queue"))


def _hotels() -> Task:
    return task_for(hotel_reviews(1100, seed=0), Overrides(("review",), "tone"))


_SMALL = Settings(rounds=40, batch_size=8, seq_len=64, eval_rows=200, estimator="exact", schedule="cosine")
_REAL = Settings.suited(2 * 10**8, rounds=40, batch_size=8, seq_len=32, eval_rows=96)
_LONG = _REAL.replace(batch_size=4, seq_len=96, eval_rows=48)
_RATES = (0.16, 0.08, 0.04, 0.02, 0.01, 0.005)
_REAL_RATES = (0.02, 0.01, 0.005, 0.0025, 0.00125, 0.0006)
_sst2, _ag_news = partial(get_task, "sst2"), partial(get_task, "ag-news")
_low_rank = _SMALL.replace(direction="low-rank", directions=100)
_own = _SMALL.replace(direction="low-rank", directions=200)
CASES = {
    "gaussian, Q = 10": Case(_sst2, "opt-mini", _SMALL.replace(directions=10), _RATES, 8, 6),
    "low-rank, Q = 100": Case(_sst2, "opt-mini", _low_rank, _RATES, 8, 6),
    "ag-news, opt-mini, gaussian, Q = 10": Case(_ag_news, "opt-mini", _SMALL.replace(directions=10), _RATES, 8, 6),
    "tickets, opt-mini": Case(_tickets, "opt-mini", _own.replace(seq_len=40), _RATES, 20, 6),
    "hotels, opt-mini": Case(_hotels, "opt-mini", _own, (0.32, *_RATES[:5]), 8, 6),
    "tickets, smollm2-135m": Case(_tickets, "smollm2-135m", _REAL, _REAL_RATES, 4, 15),
    "sst2, smollm2-135m": Case(_sst2, "smollm2-135m", _REAL, _REAL_RATES, 4, 15),
    "ag-news, smollm2-135m": Case(_ag_news, "smollm2-135m", _REAL.replace(seq_len=64), _REAL_RATES, 4, 15),
    "hotels, smollm2-135m": Case(_hotels, "smollm2-135m", _LONG, _REAL_RATES, 8, 15),
}


def main(file: Path, names: list[str]) -> None:
    content = read_json(file) if file.is_file() else {"machine": environment_of(_SMALL), "cases": {}}
    content["what"] = WHAT
    for name in names or CASES:
        chosen = CASES[name]
        settings = chosen.settings
        network, tokenizer = open_network(chosen.model, settings)
        task = chosen.task()
        rows, _ = federated_rows(task, tokenizer, chosen.clients, settings)
        _, rows = with_label_prior(task, network, rows)
        allocation = solve(Problem([chosen.blocks] * chosen.clients, network.num_blocks)).allocation
        case = content["cases"].setdefault(name, {"runs": {}})
        case |= {"model": chosen.model, "task": task.name, "rounds": settings.rounds}
        case["initial"] = evaluate(network, rows.evaluation).loss
        started = time.process_time()
        found = find_rate(network, allocation, rows, settings)
        case["found"] = {**found.describe(), "cpu_seconds": time.process_time() - started}
        print(found.sentence(), [(round(trial.lr, 4), trial.loss) for trial in found.trials], flush=True)
        for lr in (found.lr, *chosen.rates):
            if str(lr) not in case["runs"]:
                case["runs"][str(lr)] = losses_of(network, allocation, rows, settings.replace(lr=lr), case["initial"])
                write_json(file, content)
        case |= compared(case, str(found.lr), chosen.rates)
        print(name, {key: case[key] for key in ("best_of_grid", "target", "rounds_to_target", "factor")}, flush=True)
        write_json(file, content)


def losses_of(network, allocation, rows, settings, initial: float) -> list[float] | None:
    """The evaluation loss after every ``EVERY`` rounds, until it is twice the initial one; None where it diverged."""
    base_M = [network.block_weights(m).clone() for m in range(network.num_blocks)]
    state, losses = init(network, settings), []
    try:
        for t in range(1, settings.rounds + 1):
            state, _ = step(state, network, allocation, rows, settings)
            if t % EVERY == 0:
                losses.append(float(evaluate(network, rows.evaluation, settings.precision).loss))
                if losses[-1] > 2 * initial:
                    break
    except RunError:
        return None
    finally:
        network.copy_to_blocks(base_M)
    print(settings.lr, [round(loss, 3) for loss in losses], flush=True)
    return losses


def compared(case: dict[str, Any], found: str, rates: tuple[float, ...]) -> dict[str, Any]:
    smooth = {
        lr: [float(np.mean(losses[max(0, i - 2) : i + 1])) for i in range(len(losses))]
        for lr, losses in case["runs"].items()
        if losses
    }
    best = min((str(lr) for lr in rates if str(lr) in smooth), key=lambda lr: smooth[lr][-1])
    target = case["initial"] - 0.9 * (case["initial"] - smooth[best][-1])
    reached = {
        lr: next((EVERY * (i + 1) for i, loss in enumerate(losses) if loss <= target), None)
        for lr, losses in smooth.items()
    }
    fastest = min(reached[str(lr)] for lr in rates if reached.get(str(lr)))
    own = reached.get(found)
    return {
        "best_of_grid": float(best),
        "target": target,
        "rounds_to_target": reached,
        "factor": own / reached[best] if own else None,
        "factor_to_fastest": own / fastest if own else None,  # which may end higher
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE, sys.argv[2:])
