"""A proof that Theorem 4's gamma* cannot be larger: a cut of the flow network that asks for one client more a block.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import gamma_star
from zorba_core.allocation.solvers.lexicographic import flow_network


@dataclass(frozen=True)
class GammaCertificate:
    """A cut that proves that gamma* cannot be gamma_star + 1: the flow into ``blocks`` is at most ``capacity``, which
    is below the ``demand`` of one more client on each. ``open_clients`` are on the source's side of the cut, and
    count with their arcs into ``blocks``; every other client counts with its whole budget."""

    gamma_star: int
    blocks: tuple[int, ...]
    open_clients: tuple[int, ...]
    capacity: int
    demand: int


def gamma_certificate(budget_N: NDArray[np.int64], num_blocks: int) -> GammaCertificate:
    """The minimum cut of the flow network that asks every block for gamma* + 1 clients, by Dinic."""
    import networkx as nx  # takes long to load, and other solvers do without
    from networkx.algorithms.flow import dinitz

    gamma = gamma_star(budget_N, num_blocks)
    capacity, (reached, _) = nx.minimum_cut(flow_network(budget_N, num_blocks, gamma + 1), "s", "t", flow_func=dinitz)
    return GammaCertificate(
        gamma_star=gamma,
        blocks=tuple(m for m in range(num_blocks) if ("block", m) not in reached),
        open_clients=tuple(n for n in range(len(budget_N)) if ("client", n) in reached),
        # The blocks on the source's side pay their demand in full; without them the same cut bounds the others alone.
        capacity=int(capacity) - (gamma + 1) * sum(("block", m) in reached for m in range(num_blocks)),
        demand=(gamma + 1) * sum(("block", m) not in reached for m in range(num_blocks)),
    )
