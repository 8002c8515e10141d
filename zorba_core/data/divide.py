"""Divide a task's rows among clients: by the client that each row names, or at random.

At random, the clients get equal shares (``iid``), shares of unequal size (``quantity``), or unequal mixtures of labels:
the usual Dirichlet split (``dirichlet``; Hsu et al., 2019, arXiv:1909.06335).

Shapes: R rows, N clients, C classes.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from zorba_core.data.load import load
from zorba_core.data.sources import files_of
from zorba_core.data.task import CLIENT, TableRows, Task
from zorba_core.errors import InvalidInputError, name_some

DIRICHLET, NATURAL, IID, QUANTITY = "dirichlet", "natural", "iid", "quantity"
DIVISIONS = {
    DIRICHLET: "by label, in mixtures of Dir(alpha)",
    NATURAL: "by the client that each row names (--client, or one file a client)",
    IID: "at random, in equal shares",
    QUANTITY: "at random, in shares of Dir(alpha)",
}


def names_clients(task: Task) -> bool:
    """Whether the rows name their clients: by a column, or by one file for each client."""
    rows = task.rows
    if not isinstance(rows, TableRows):
        return False
    files = files_of(rows)
    return bool(rows.client) or (files is not None and bool(files.clients))


def clients_of(frame: pd.DataFrame) -> tuple[str, ...]:
    """The names in a split's CLIENT column, sorted; empty without this column."""
    return tuple(sorted(set(frame[CLIENT]))) if CLIENT in frame else ()


def division_of(task: Task, division: str | None) -> str:
    """The given division; by default ``natural`` if the rows name their clients, else ``dirichlet``."""
    return division or (NATURAL if names_clients(task) else DIRICHLET)


def named_clients(task: Task, division: str | None = None) -> tuple[str, ...]:
    """The clients of a natural division, in order; empty for another division."""
    if not names_clients(task) or division_of(task, division) != NATURAL:
        return ()
    return clients_of(load(task))


def divide(
    frame: pd.DataFrame, num_clients: int, alpha: float, seed: int, division: str = DIRICHLET
) -> list[np.ndarray]:
    """The rows of each client, as :func:`dirichlet_partition` returns them.

    Args:
        frame: a task's ``federated`` split, with ``label`` if the task has labels, and CLIENT if rows name clients.

    Raises:
        InvalidInputError: an unknown division; fewer rows than clients; or for ``natural``, rows that name no clients
            or another number of clients.
    """
    if division == NATURAL:
        return _by_client(frame, num_clients)
    if division == IID:
        return dirichlet_partition(np.zeros(len(frame), np.int64), num_clients, math.inf, seed)
    if division == QUANTITY or (division == DIRICHLET and "label" not in frame):
        return dirichlet_partition(np.zeros(len(frame), np.int64), num_clients, alpha, seed)
    if division == DIRICHLET:
        return dirichlet_partition(frame["label"].to_numpy(), num_clients, alpha, seed)
    raise InvalidInputError(f"division is {division!r}; choose one of {', '.join(DIVISIONS)}")


def _by_client(frame: pd.DataFrame, num_clients: int) -> list[np.ndarray]:
    clients = clients_of(frame)
    if not clients:
        raise InvalidInputError(
            "division is natural and the rows name no clients; give the column of clients (--client COL), or one file "
            'for each client (--data "clients/*.csv")'
        )
    if len(clients) != num_clients:
        raise InvalidInputError(
            f"the rows are from {len(clients)} clients ({name_some(clients)}) and the allocation is for "
            f"{num_clients}; make them agree (--clients {len(clients)}, or as many budgets), or choose a --division"
        )
    return [np.flatnonzero(frame[CLIENT].to_numpy() == client).astype(np.int64) for client in clients]


def dirichlet_partition(label_R: ArrayLike, num_clients: int, alpha: float, seed: int) -> list[np.ndarray]:
    """Divide the rows among clients: each class's rows in proportions drawn from Dir(alpha).

    With a small ``alpha`` each client has few classes; with a large one all have similar mixtures (``math.inf``: equal
    shares). A client without rows gets one from the client with most rows.

    Returns:
        For each client a sorted int64 array of row indices; each row is in exactly one.

    Raises:
        InvalidInputError: fewer rows than clients, or ``num_clients`` or ``alpha`` not positive.
    """
    label_R = np.asarray(label_R)
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
        # A random order, so that the rounding remainders of all classes do not go to the last client.
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
