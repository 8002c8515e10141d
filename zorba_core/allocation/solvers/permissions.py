"""From popularities and permissions to a matrix: one maximum flow with lower bounds.

Shapes: M blocks, N clients. ``A_MN`` bool.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zorba_core.allocation.problem import AllocationProblem
from zorba_core.allocation.solvers.dual_programme import Path


def matrix_from_path(problem: AllocationProblem, order_N: NDArray[np.int64], path: Path) -> NDArray[np.bool_]:
    """A matrix whose block of popularity p is held by p of its n permitted clients, every client holding one block.

    ``order_N`` lists clients by falling budget; ``path`` is least popular first, and so are the blocks.

    Raises:
        RuntimeError: no such matrix, which the conditions checked before rule out.
    """
    M, N = problem.num_blocks, problem.num_clients
    popularity_M = np.array([p for p, _ in path])
    permitted_M = np.array([n for _, n in path])
    block, rank = np.nonzero(np.arange(N)[None, :] < permitted_M[:, None])
    client = order_N[rank]
    # Nodes: source, clients, blocks, sink, then the pair that carries the lower bound of one block for each client.
    source, sink, extra_source, extra_sink = 0, 1 + N + M, 2 + N + M, 3 + N + M
    clients, blocks = 1 + np.arange(N), 1 + N + np.arange(M)
    total = int(popularity_M.sum())
    arcs = np.concatenate(
        [
            _arcs(source, clients, problem.usable_N - 1),
            _arcs(extra_source, clients, np.ones(N, int)),
            _arcs([source], [extra_sink], [N]),
            _arcs(1 + client, 1 + N + block, np.ones(len(client), int)),
            _arcs(blocks, extra_sink, popularity_M),  # popularities are met exactly: a lower bound as well
            _arcs([extra_source], [sink], [total]),
            _arcs([sink], [source], [total]),
        ],
        axis=1,
    )
    graph = sparse.csr_array((arcs[2].astype(np.int32), (arcs[0], arcs[1])), shape=(4 + N + M, 4 + N + M))
    from scipy.sparse.csgraph import maximum_flow  # takes long to load

    result = maximum_flow(graph, extra_source, extra_sink)
    if result.flow_value != N + total:
        raise RuntimeError(f"no matrix has popularities and permissions {path}")
    A_MN = np.zeros((M, N), bool)
    A_MN[block, client] = np.asarray(result.flow[1 + client, 1 + N + block]).ravel() > 0
    return A_MN


def _arcs(tail: object, head: object, capacity: object) -> NDArray[np.int64]:
    return np.stack(np.broadcast_arrays(np.asarray(tail), np.asarray(head), np.asarray(capacity))).astype(np.int64)
