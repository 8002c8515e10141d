"""Where the loss is curved, beside where its gradient is: what the gain of an allocation leaves out.

    ZORBA_DATA=... python -m tests.benchmarks.bench_curvature [FILE]

The gain takes one smoothness for all blocks. The part of an update that is noise lies along random directions, and
along those the loss of block m bends by the trace of its Hessian, h_m: the mean of (F(w + eps v) + F(w - eps v) -
2 F(w)) / eps^2 over signs v of that block alone. For each base and task of ``what-to-run``: h_m and its standard error,
at the base model, on rows that no client holds; and the gain's ratio of the arms ``gain`` and ``paper`` (mean logarithm
over seeds 0 to 9), as it is and with h_m in the place of the blocks' parameters d_m.
An exploration, thought of after the runs that it is to explain. Decides nothing.

Shapes: M blocks, K directions.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from zorba_core.allocation.gain import BlockFacts, gain
from zorba_core.checksums import write_sealed
from zorba_core.data.encoding import encode, head_tokens
from zorba_core.data.splits import load_split
from zorba_core.data.tasks import TASKS
from zorba_core.engine.families import family_of
from zorba_core.engine.randomness import stream
from zorba_core.runs.model_source import load_model, load_tokenizer
from zorba_core.runs.session import use_threads
from zorba_core.study.base_model.corpus import trimmed
from zorba_core.study.base_model.model import answer_hidden
from zorba_core.study.experiments.energies import stored_facts
from zorba_core.study.experiments.own_protocol import CELLS
from zorba_core.study.experiments.what_to_run import recipe_of_arm

DEFAULT_FILE = Path("artifacts/benchmarks/curvature.json")
ROWS, SEQ_LEN, DIRECTIONS, EPS, SEEDS = 128, 64, 16, 1e-3, range(10)
LEAST_SHARE = 1e-3  # of the largest, where a trace is not above 0


def traces(model: str, dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """(h_M, its standard errors)."""
    task, tokenizer = TASKS[dataset], load_tokenizer(model)
    frame = load_split(dataset, "base")
    chosen = stream("proxy", 0).permutation(len(frame))[:ROWS]
    encoded = encode(task, frame.iloc[chosen].reset_index(drop=True), tokenizer, SEQ_LEN)
    batch = trimmed(encoded.rows(torch.arange(len(encoded))))
    network = load_model(model).eval().requires_grad_(False)
    head_CH = network.get_output_embeddings().weight[head_tokens(task, tokenizer)]

    def loss() -> float:
        return float(functional.cross_entropy((answer_hidden(network, batch) @ head_CH.T).double(), batch.label_R))

    generator, at_base, bends_MK = torch.Generator().manual_seed(0), loss(), []
    for block in family_of(network).blocks():
        weights = list(block.parameters())
        bends_K = []
        for _ in range(DIRECTIONS):
            signs = [torch.randint(0, 2, w.shape, generator=generator).to(w.dtype).mul_(2).sub_(1) for w in weights]
            before, losses = [w.clone() for w in weights], []
            for side in (EPS, -EPS):
                for w, w0, v in zip(weights, before, signs, strict=True):
                    w.copy_(w0).add_(v, alpha=side)
                losses.append(loss())
            for w, w0 in zip(weights, before, strict=True):
                w.copy_(w0)
            bends_K.append((sum(losses) - 2 * at_base) / EPS**2)
        bends_MK.append(bends_K)
    return np.mean(bends_MK, axis=1), np.std(bends_MK, axis=1, ddof=1) / math.sqrt(DIRECTIONS)


def cell(model: str, dataset: str) -> dict[str, Any]:
    h_M, error_M = traces(model, dataset)
    energies, noises = stored_facts(model, dataset)
    bends_M = np.maximum(h_M, LEAST_SHARE * h_M.max())

    def ratio(sizes: np.ndarray | None) -> float:
        facts = BlockFacts.of(len(h_M), energies, noises, sizes)
        logs = [math.log(gain(build("gain", seed), facts) / gain(build("paper", seed), facts)) for seed in SEEDS]
        return math.exp(float(np.mean(logs)))

    def build(arm: str, seed: int) -> np.ndarray:
        return recipe_of_arm(arm, "standard", (model, dataset), seed).build().A_MN

    return {
        "model": model,
        "dataset": dataset,
        "energies": energies,
        "trace": h_M,
        "standard_error": error_M,
        "share_of_the_first_block": float(bends_M[0] / bends_M.sum()),
        "gain_over_paper": ratio(None),
        "gain_over_paper_with_traces": ratio(bends_M),
    }


def main(file: Path) -> None:
    with use_threads(1):
        cells = []
        for model, dataset in CELLS:
            cells.append(cell(model, dataset))
            print(cells[-1], flush=True)
    settings = {"rows": ROWS, "directions": DIRECTIONS, "eps": EPS, "seq_len": SEQ_LEN}
    write_sealed(file, {"what": __doc__.splitlines()[0], "settings": settings, "cells": cells})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
