"""What do 77 labels of several tokens cost? `python -m tests.benchmarks.bench_many_labels [FILE] [--clients N]`.

CPU seconds of a round's scalars on opt-mini, with made texts: two labels of one token; the 77 of Banking77, the prompt
run once with their tree behind it; and the same path by path, which the tree is to agree with. Arms take turns.
Asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from zorba_core.checksums import write_sealed
from zorba_core.data.encoding import encode, head_tokens
from zorba_core.data.splits import load_split
from zorba_core.data.tasks import get_task
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators import cohort
from zorba_core.engine.network import BlockNetwork
from zorba_core.runs.model_source import load_model, load_tokenizer

SEQ_LEN, BATCH, DIRECTIONS, TURNS = 64, 8, 4, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path("artifacts/benchmarks/many-labels.json"))
    parser.add_argument("--clients", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer, clients = load_tokenizer("opt-mini"), arguments.clients
    texts = load_split("toy-reviews", "federated")["text"].head(clients * BATCH)
    arms, trees = {}, cohort.in_trees
    for name, task, way in (
        ("two labels", "toy-reviews", trees),
        ("77 labels in a tree", "banking77", trees),
        ("77 labels path by path", "banking77", lambda network, batches: batches),
    ):
        task = get_task(task)
        rows = pd.DataFrame({"text": texts, "label": np.arange(len(texts)) % task.num_classes})
        network = BlockNetwork(load_model("opt-mini"), head_tokens(task, tokenizer))
        encoded = encode(task, rows, tokenizer, SEQ_LEN)
        batches_N = [encoded.rows(range(n * BATCH, (n + 1) * BATCH)).trimmed() for n in range(clients)]
        arms[name] = {"way": way, "network": network, "batches_N": batches_N, "cpu_seconds": []}
    for _ in range(TURNS):
        for name, arm in arms.items():
            network = arm["network"]
            cohort.in_trees = arm["way"]
            started = time.process_time()
            estimate = cohort.estimate_cohort(
                network,
                arm["batches_N"],
                np.ones((network.num_blocks, clients), bool),
                range(DIRECTIONS),
                Directions("gaussian", network.sizes_M),
                mu=1e-3,
            )
            arm["cpu_seconds"].append(round(time.process_time() - started, 3))
            arm["loss_N"] = estimate.loss_N.tolist()
            print(name, arm["cpu_seconds"][-1], flush=True)
    cohort.in_trees = trees
    apart = np.abs(np.subtract(arms["77 labels in a tree"]["loss_N"], arms["77 labels path by path"]["loss_N"])).max()
    least = {name: min(arm["cpu_seconds"]) for name, arm in arms.items()}
    write_sealed(
        arguments.file,
        {
            "what": "CPU seconds of a round's scalars by the number of labels, opt-mini",
            "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "threads": 1},
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
            "clients": clients,
            "settings": {"batch_size": BATCH, "seq_len": SEQ_LEN, "directions": DIRECTIONS, "active_blocks": "all"},
            "cpu_seconds": {name: arm["cpu_seconds"] for name, arm in arms.items()},
            "times_two_labels": {name: round(value / least["two labels"], 2) for name, value in least.items()},
            "losses_apart_at_most": float(apart),
        },
    )


if __name__ == "__main__":
    main()
