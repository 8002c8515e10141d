"""Do label words of several tokens learn as one-token words do? `python -m tests.benchmarks.bench_label_words [FILE]`.

The same federated run on SST-2 with words that are one token each and with words of two tokens (two rows an example,
since they start differently). Writes accuracy and loss before and after, and the CPU seconds; asserts nothing. Needs
SST-2 (ZORBA_DATA).
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from zorba_core.allocation import AllocationProblem, solve
from zorba_core.checksums import write_sealed
from zorba_core.engine.settings import TrainSettings
from zorba_core.runs.model_source import load_tokenizer
from zorba_core.runs.session import fine_tune

WORDS = {
    "one token": ("bad", "good"),
    "two tokens": ("dreadful", "delightful"),
}
SEEDS = (0, 1, 2)
BUDGETS = (12, 6, 4)
SETTINGS = {
    "rounds": 30,
    "lr": 1.5e-2,
    "num_perturbations": 10,
    "batch_size": 8,
    "seq_len": 48,
    "eval_rows": 400,
    "eval_every": 30,
}


def measure(words: tuple[str, str], seed: int, folder: str) -> dict[str, object]:
    allocation = solve(AllocationProblem(BUDGETS, 12)).allocation
    settings = TrainSettings(**SETTINGS, seed=seed)
    started = time.process_time()
    run = fine_tune(allocation, dataset="sst2", settings=settings, label_words=words, runs_folder=folder)
    seconds = time.process_time() - started
    judged = run.metrics[run.metrics["eval_loss"].notna()]
    return {
        "seed": seed,
        "rounds": judged["round"].tolist(),
        "accuracy": judged["eval_accuracy"].tolist(),
        "loss": judged["eval_loss"].tolist(),
        "cpu_seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path("artifacts/benchmarks/label-words.json"))
    file = parser.parse_args().file
    tokenizer, arms = load_tokenizer("opt-mini"), []
    for name, words in WORDS.items():
        pieces = [
            tokenizer.convert_ids_to_tokens(tokenizer.encode(" " + word, add_special_tokens=False)) for word in words
        ]
        arms.append({"name": name, "words": words, "tokens": pieces, "runs": []})
    for seed in SEEDS:  # the arms in turn, so that a stop leaves them equally far
        for arm in arms:
            with tempfile.TemporaryDirectory() as folder:
                arm["runs"].append(measure(arm["words"], seed, folder))
            last = arm["runs"][-1]
            print(arm["name"], seed, last["accuracy"], last["loss"], last["cpu_seconds"], flush=True)
        for arm in arms:
            arm["initial_accuracy_mean"] = float(np.mean([run["accuracy"][0] for run in arm["runs"]]))
            arm["final_accuracy_mean"] = float(np.mean([run["accuracy"][-1] for run in arm["runs"]]))
        write_sealed(file, {**facts(), "arms": arms})


def facts() -> dict[str, object]:
    return {
        "what": "SST-2 with opt-mini, zeroth-order, by the number of tokens of the label words",
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "threads": 1},
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "budgets": BUDGETS,
        "settings": SETTINGS,
    }


if __name__ == "__main__":
    main()
