"""What a lying client does under each aggregation rule, and what scalars tell of a row. Run by hand::

    python -m tests.benchmarks.bench_security [--rounds 15] [--trials 40] [--out artifacts/benchmarks/security.json]

Poisoning: eight clients with all blocks fine-tune opt-mini on toy reviews; one sends the opposite of its scalars, as
they are or 30 times as large; or one that knows the others' scalars sends the opposite of their mean, as large as the
server's checks let through; or several do together. Rounds are the engine's; scalars are judged and averaged by the
federation's own functions.

Reconstruction: somebody who holds the model and knows the seeds computes the scalars of candidate rows and picks the
one whose scalars correlate most with what was seen: a client's scalars (the server), or a round's average over several
clients (another client), without and with noise on the averages. A guess at random is right once in 20.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.torture.__main__ import _machine
from zorba_core.checksums import write_sealed
from zorba_core.data.tasks import get_task
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.estimators.registry import estimator_of
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.loop import init, plan_round
from zorba_core.engine.methods.steps import lr_of_round
from zorba_core.engine.reports import REPORTED, judge_reports
from zorba_core.engine.rounding import rounding_of
from zorba_core.engine.rounds import client_batch
from zorba_core.engine.settings import TrainSettings
from zorba_core.federation.privacy import PrivacySettings, private_average
from zorba_core.federation.robust import RULES, AggregationSettings, aggregate
from zorba_core.runs.session import divide_rows, open_network

ROOT = Path(__file__).resolve().parents[2]
CLIENTS, CANDIDATES = 8, 20
# What so many liars send, from their own scalars and the others', which they may know: (liars, Q) each. The checks let
# 100 times the median client's length through.
Lie = Callable[[np.ndarray, np.ndarray], np.ndarray]
LIES: dict[str, tuple[int, Lie]] = {
    "honest": (1, lambda own, others: own),
    "opposite": (1, lambda own, others: -own),
    "opposite, 30 times": (1, lambda own, others: -30 * own),
    "against the others' mean, 85 times": (1, lambda own, others: -85 * as_long_as_one(others)),
    "three, the opposite of the others' mean": (3, lambda own, others: np.tile(-others.mean(axis=0), (3, 1))),
    "two, 1.5 deviations beside the others": (
        2,
        lambda own, others: np.tile(
            others.mean(axis=0) - 1.5 * np.sign(others.mean(axis=0)) * others.std(axis=0), (2, 1)
        ),
    ),
}


def as_long_as_one(others_NQ: np.ndarray) -> np.ndarray:
    """The direction of their mean, with the median length of theirs."""
    mean_Q = others_NQ.mean(axis=0)
    return mean_Q / np.linalg.norm(mean_Q) * np.median(np.linalg.norm(others_NQ, axis=1))


def settings_of(rounds: int) -> TrainSettings:
    return TrainSettings(
        rounds=rounds, lr=1e-2, num_perturbations=3, num_seeds=4096, batch_size=4, seq_len=48, eval_rows=200,
        eval_every=rounds, target=None,
    )  # fmt: skip


def poisoning(rule: str, liars: int, lie: Lie, settings: TrainSettings, world: Any) -> dict[str, Any]:
    network, rows = world
    before = [network.block_weights(m).clone() for m in range(network.num_blocks)]
    A_MN = np.ones((network.num_blocks, CLIENTS), dtype=bool)
    state, refused = init(network, settings), 0
    with torch.no_grad():
        for t in range(1, settings.rounds + 1):
            plan = plan_round(state, CLIENTS, settings)
            batches_N = [client_batch(rows, settings, t, n, network.device) for n in range(CLIENTS)]
            reports = estimator_of(settings)(network, batches_N, A_MN, plan.seeds_Q, state.directions)
            rho_NQ = reports.rho_NQ.copy()
            rho_NQ[:liars] = lie(rho_NQ[:liars], rho_NQ[liars:])
            status_N = judge_reports(
                rho_NQ, reports.loss_N, plan.asked_N, mu=settings.mu, outlier_ratio=settings.outlier_ratio
            )
            refused += int((status_N[:liars] != REPORTED).any())
            rho_bar_MQ = aggregate(rho_NQ, A_MN, status_N == REPORTED, AggregationSettings(rule=rule))
            lr, rounding = lr_of_round(settings, t), rounding_of(settings, t)
            update_blocks(network, rho_bar_MQ, plan.seeds_Q, state.directions, lr, rounding)
            state = replace(state, rounds_done=t)
        judged = evaluate(network, rows.evaluation)
        for m, weights in enumerate(before):
            network.block_weights(m).copy_(weights)
    return {"loss": judged.loss, "accuracy": judged.accuracy, "rounds_in_which_a_liar_was_refused": refused}


def reconstruction(trials: int, world: Any, settings: TrainSettings) -> dict[str, float]:
    """Share of the trials in which the true row is picked, by what is seen."""
    network, rows = world
    generator = np.random.default_rng(0)
    settings = replace(settings, num_perturbations=10, batch_size=1)
    directions, picked = init(network, settings).directions, {}
    sizes, clients = (1, 4, 16), 4
    held = np.concatenate(rows.held_N)
    with torch.no_grad():
        for _ in range(trials):
            count = CANDIDATES - 1 + clients * max(sizes)
            chosen = generator.choice(held, size=count, replace=False)
            batches = [rows.train.rows(chosen[i : i + 1]).trimmed() for i in range(count)]
            seeds_Q = generator.integers(2**32, size=10, dtype=np.uint32)
            A_MN = np.ones((network.num_blocks, count), dtype=bool)
            rho_NQ = estimator_of(settings)(network, batches, A_MN, seeds_Q, directions).rho_NQ
            others_NQ, own_NQ = rho_NQ[: CANDIDATES - 1], rho_NQ[CANDIDATES - 1 :]
            for size in sizes:
                of_client = own_NQ[: clients * size].reshape(clients, size, -1).mean(axis=1)
                average = of_client.mean(axis=0)
                privacy = PrivacySettings(noise_multiplier=1.0, clip=float(np.linalg.norm(of_client, axis=1).max()))
                noisy = private_average(
                    of_client, np.ones((1, clients), bool), np.ones(clients, bool), privacy, generator
                )[0]
                for name, seen in (
                    (f"the server, batch {size}", of_client[0]),
                    (f"another client, average of {clients}, batch {size}", average),
                    (f"another client, average of {clients} with noise 1.0, batch {size}", noisy),
                ):
                    candidates = np.vstack([own_NQ[0], others_NQ])
                    score = [abs(np.corrcoef(candidate, seen)[0, 1]) for candidate in candidates]
                    picked[name] = picked.get(name, 0) + (int(np.argmax(score)) == 0)
    return {name: count / trials for name, count in picked.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "benchmarks" / "security.json")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    settings, task = settings_of(asked.rounds), get_task("toy-reviews")
    network, tokenizer = open_network(task, "opt-mini", task.label_words, settings)
    rows, _ = divide_rows(task, tokenizer, CLIENTS, 1.0, settings)
    world = (network, rows)
    start = evaluate(network, rows.evaluation)
    seen = reconstruction(asked.trials, world, settings)
    print(seen, flush=True)
    result = {"before": {"loss": start.loss, "accuracy": start.accuracy}, "rules": {}}
    for rule in RULES:
        result["rules"][rule] = {name: poisoning(rule, *lie, settings, world) for name, lie in LIES.items()}
        print(rule, result["rules"][rule], flush=True)
    write_sealed(
        asked.out,
        {
            "poisoning": {**result, "rounds": asked.rounds, "clients": CLIENTS, "seed": 0},
            "reconstruction": {"trials": asked.trials, "candidates": CANDIDATES, "true_row_picked": seen},
            "machine": _machine(),
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
