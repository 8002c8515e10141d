"""How good the shared model is: accuracy and mean cross-entropy over the label words.

Shapes: R rows, C label words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.randomness import stream
from zorba_core.engine.rows import Encoded

BATCH_SIZE = 64  # rows evaluated together


@dataclass(frozen=True)
class Evaluation:
    accuracy: float  # share of rows whose label word has the largest logit
    loss: float  # mean cross-entropy, nats


def choose_rows(num_rows: int, most: int | None, seed: int) -> np.ndarray:
    """Indices of a fixed random subset of ``wanted`` rows, sorted; all rows when ``wanted`` is None or not fewer."""
    if most is None or most >= num_rows:
        return np.arange(num_rows)
    return np.sort(stream("evaluation-rows", seed).choice(num_rows, size=most, replace=False))


@torch.no_grad()
def evaluate(network: BlockNetwork, rows: Encoded, batch_size: int = BATCH_SIZE) -> Evaluation:
    """Accuracy and loss of the whole network (every block with its weights) on all ``rows``."""
    # Rows of similar length share a batch, so that little of it is padding.
    order = torch.argsort(rows.last_R, stable=True)
    correct, total_loss = 0, 0.0
    batches = (
        rows.rows(order[start : start + batch_size]).trimmed(network.device)
        for start in range(0, len(rows), batch_size)
    )
    with network.at_precision("highest"):
        for batch, final_BH in network.outputs(batches):
            logits_BC = network.head(final_BH).double()
            correct += int((logits_BC.argmax(dim=1) == batch.label_R).sum())
            total_loss += float(F.cross_entropy(logits_BC, batch.label_R, reduction="sum"))
    return Evaluation(correct / len(rows), total_loss / len(rows))
