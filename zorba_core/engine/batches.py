"""Which rows a client sees in which round.

Shapes: B rows of a batch.
"""

from __future__ import annotations

import numpy as np

from zorba_core.engine.randomness import stream


def client_rows(held: np.ndarray, run_seed: int, round_index: int, client: int, batch_size: int) -> np.ndarray:
    """Row indices of client n's mini-batch in round t, shape (B,).

    Drawn from its own rows without a repeat within the batch (with repeats only when it holds fewer than B rows),
    afresh each round. The draw depends on (run seed, t, n) alone, so any round can be recomputed by itself.
    """
    generator = stream("batch", run_seed, round_index, client)
    return generator.choice(held, size=batch_size, replace=len(held) < batch_size)
