"""Which rows each client holds: by the client that a row names, or by chance.

By chance, rows are spread alike (``iid``), in unequal amounts (``quantity``), or by label in unequal mixtures, the
usual Dirichlet split (Hsu et al., 2019, arXiv:1909.06335).

Shapes: R rows, N clients, C classes.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from zorba_core.data.load import load
from zorba_core.data.own_rows import is_many
from zorba_core.data.task import CLIENT, TableRows, Task
from zorba_core.errors import InvalidInputError, name_some

DIRICHLET, NATURAL, IID, QUANTITY = "dirichlet", "natural", "iid", "quantity"
DIVISIONS = {
    DIRICHLET: "by label, in mixtures of Dir(alpha)",
    NATURAL: "by the client that each row names (--client, or one file a client)",
    IID: "all alike",
    QUANTITY: "alike in kind, in amounts of Dir(alpha)",
}


def names_clients(task: Task) -> bool:
    """Do the rows name their clients: by a column, or by a file for each client?"""
    rows = task.rows
    return isinstance(rows, TableRows) and (bool(rows.client) or is_many(rows.train))


def clients_of(frame: pd.DataFrame) -> tuple[str, ...]:
    """The clients that a split's rows name, sorted; none where they name none."""
    return tuple(sorted(set(frame[CLIENT]))) if CLIENT in frame else ()


def division_of(task: Task, division: str | None) -> str:
    """How the rows are divided: as asked, else by the clients that the rows name, else by label."""
    return division or (NATURAL if names_clients(task) else DIRICHLET)


def named_clients(task: Task, division: str | None = None) -> tuple[str, ...]:
    """The clients that the rows name, in their order; none where they are to be divided otherwise."""
    if not names_clients(task) or division_of(task, division) != NATURAL:
        return ()
    return clients_of(load(task))


def divide(
    frame: pd.DataFrame, num_clients: int, alpha: float, seed: int, division: str = DIRICHLET
) -> list[np.ndarray]:
    """Rows of each client, as :func:`dirichlet_partition` returns them.

    Args:
        frame: of a task's ``federated`` split: ``label`` where it has labels, and CLIENT where rows name clients.

    Raises:
        InvalidInputError: an unknown division, rows that name no clients or another number of them, or a client
            without rows.
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
            "division is natural and the rows name no clients; say which column does (--client COL), or give one file "
            'a client (--data "clients/*.csv")'
        )
    if len(clients) != num_clients:
        raise InvalidInputError(
            f"the rows are those of {len(clients)} clients ({name_some(clients)}) and the allocation is for "
            f"{num_clients}; make them agree (--clients {len(clients)}, or as many budgets), or choose a --division"
        )
    rows_of = {client: np.flatnonzero(frame[CLIENT].to_numpy() == client).astype(np.int64) for client in clients}
    return [rows_of[client] for client in clients]


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
