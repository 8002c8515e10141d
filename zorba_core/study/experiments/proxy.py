"""Energy and noise of each block from public rows: the prior of the gain solver, before any client has trained.

Rows of the base half of a task, which no client holds, in batches of a client's size. With g_n the exact gradient of
batch n of K, by block, and X the sum of all of them,

    G_m = (||X_m||^2 - sum_n ||g_n,m||^2) / (K (K - 1)),      s_m^2 = mean_n ||g_n,m||^2 - G_m,

both without bias. They are stored, and recipes carry the stored numbers: a run's request says what its solver got.

    python -m zorba_core.study.experiments.proxy opt-mini sst2

Shapes: M blocks, K batches.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.study.experiments.energies import FILE

BATCHES = 256
DIGITS = 4


def measure(model: str, dataset: str, *, batch_size: int = 2, batches: int = BATCHES, seed: int = 0) -> dict[str, Any]:
    """What :func:`~zorba_core.study.experiments.energies.stored_facts` reads of a cell, with what it was made of."""
    import torch
    from torch.nn import functional

    from zorba_core.data.encoding import encode, label_token_ids
    from zorba_core.data.splits import load_split
    from zorba_core.data.tasks import TASKS
    from zorba_core.engine.families import family_of
    from zorba_core.engine.randomness import stream
    from zorba_core.runs.model_source import load_model, load_tokenizer
    from zorba_core.study.base_model.corpus import trimmed
    from zorba_core.study.base_model.model import answer_hidden

    task, tokenizer = TASKS[dataset], load_tokenizer(model)
    rows = load_split(dataset, "base")
    chosen = stream("proxy", seed).permutation(len(rows))[: batches * batch_size]
    encoded = encode(task, rows.iloc[chosen].reset_index(drop=True), tokenizer, 64)
    network = load_model(model).eval().requires_grad_(False)
    blocks = [list(block.parameters()) for block in family_of(network).blocks()]
    weights = [weight.requires_grad_(True) for block in blocks for weight in block]
    head_CH = network.get_output_embeddings().weight[label_token_ids(task, tokenizer)].detach()
    total_M = [torch.zeros(sum(weight.numel() for weight in block)) for block in blocks]
    square_M = torch.zeros(len(blocks), dtype=torch.float64)
    for start in range(0, len(encoded) - batch_size + 1, batch_size):
        batch = trimmed(encoded.rows(torch.arange(start, start + batch_size)))
        loss = functional.cross_entropy(answer_hidden(network, batch) @ head_CH.T, batch.label_R)
        grads = iter(torch.autograd.grad(loss, weights))
        for m, block in enumerate(blocks):
            flat = torch.cat([next(grads).flatten() for _ in block])
            total_M[m] += flat
            square_M[m] += flat.double().square().sum()
    count = len(encoded) // batch_size
    sum_M = torch.stack([total.double().square().sum() for total in total_M])
    energy_M = ((sum_M - square_M) / (count * (count - 1))).clamp(min=0)
    noise_M = (square_M / count - energy_M).clamp(min=0)
    scale = float(energy_M.max())
    return {
        "energies": [float(f"{value / scale:.{DIGITS}g}") for value in energy_M.tolist()],
        "noises": [float(f"{value / scale:.{DIGITS}g}") for value in noise_M.tolist()],
        "largest_energy": scale,
        "batches": count,
        "batch_size": batch_size,
        "seed": seed,
        "rows": "base split",
    }


def main() -> None:
    from zorba_core.runs.session import use_threads

    parser = argparse.ArgumentParser(description="Measure energy and noise of each block, and store them.")
    parser.add_argument("model")
    parser.add_argument("dataset")
    arguments = parser.parse_args()
    stored = read_sealed(FILE) if FILE.is_file() else {}
    with use_threads(1):
        stored[f"{arguments.model}/{arguments.dataset}"] = measure(arguments.model, arguments.dataset)
    write_sealed(FILE, dict(sorted(stored.items())))
    print(json.dumps(stored[f"{arguments.model}/{arguments.dataset}"]))


if __name__ == "__main__":
    main()
