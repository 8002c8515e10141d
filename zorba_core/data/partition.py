"""Which rows each client holds: the usual Dirichlet split over labels (Hsu et al., 2019, arXiv:1909.06335).

Shapes: R rows, N clients, C classes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from zorba_core.errors import InvalidInputError


def dirichlet_partition(label_R: ArrayLike, num_clients: int, alpha: float, seed: int) -> list[np.ndarray]:
    """Divide the rows among clients; each class's rows go to clients in proportions drawn from Dir(alpha).

    A small ``alpha`` gives each client few classes, a large one gives all the same mixture (``math.inf``: equal
    shares). A client left with nothing is given one row of the client that holds most, so each holds at least one.

    Returns:
        One sorted int64 array of row indices per client; together they hold every row once.

    Raises:
        InvalidInputError: fewer rows than clients, or ``num_clients`` or ``alpha`` not positive.
    """
    label_R = np.asarray(label_R)
    if label_R.ndim != 1:
        raise InvalidInputError(f"labels must be a list of one label per row, got an array of shape {label_R.shape}")
    if num_clients < 1:
        raise InvalidInputError(f"num_clients must be at least 1, got {num_clients}")
    if not alpha > 0:
        raise InvalidInputError(f"alpha of the Dirichlet partition must be positive, got {alpha}")
    if len(label_R) < num_clients:
        raise InvalidInputError(f"{len(label_R)} rows are too few for {num_clients} clients: use fewer clients")

    rng = np.random.default_rng([seed, 0xD112])
    parts: list[list[np.ndarray]] = [[] for _ in range(num_clients)]
    for label in np.unique(label_R):
        rows = rng.permutation(np.flatnonzero(label_R == label))
        if math.isinf(alpha):
            share_N = np.full(num_clients, 1.0 / num_clients)
        else:
            share_N = rng.dirichlet(np.full(num_clients, float(alpha)))
        # A different client gets each class's rounding remainder, or equal shares would favour the last client.
        order = rng.permutation(num_clients)
        cuts = np.rint(np.cumsum(share_N[order])[:-1] * len(rows)).astype(np.int64)
        for client, piece in zip(order, np.split(rows, cuts), strict=True):
            parts[client].append(piece)
    rows_N = [np.concatenate(pieces) for pieces in parts]
    for client in range(num_clients):
        if len(rows_N[client]) == 0:
            richest = max(range(num_clients), key=lambda other: len(rows_N[other]))
            rows_N[client], rows_N[richest] = rows_N[richest][-1:], rows_N[richest][:-1]
    return [np.sort(rows).astype(np.int64) for rows in rows_N]
