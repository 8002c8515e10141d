"""Clients as columns of a picture; with very many of them, neighbours share one.

Shapes: M blocks, N clients, G columns. ``edge`` int64 (G + 1,): the first client of each column, and N.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST_COLUMNS = 120


def column_edges(num_clients: int) -> NDArray[np.int64]:
    """One column a client up to 120 of them, else 120 groups of equal size (within one)."""
    return np.linspace(0, num_clients, min(num_clients, MOST_COLUMNS) + 1).astype(np.int64)


def column_names(label_N: Sequence[str], edge: NDArray[np.int64]) -> list[str]:
    """The client's name, or the first and last of a group and how many it has."""
    return [
        label_N[first] if past - first == 1 else f"{label_N[first]} … {label_N[past - 1]} ({past - first} clients)"
        for first, past in itertools.pairwise(edge.tolist())
    ]


def column_counts(A_MN: NDArray[np.bool_], edge: NDArray[np.int64]) -> NDArray[np.int64]:
    """True cells of each row in each column, (M, G)."""
    return np.add.reduceat(A_MN, edge[:-1], axis=1, dtype=np.int64)


def column_shares(A_MN: NDArray[np.bool_], edge: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of each column's clients with a true cell, (M, G)."""
    return column_counts(A_MN, edge) / np.diff(edge)


def column_means(value_N: NDArray[np.float64], edge: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over each column's clients, (G,)."""
    return np.add.reduceat(value_N, edge[:-1]) / np.diff(edge)
