"""The least forward work as an integer programme over kinds of clients, by HiGHS.

Clients that may hold equally many blocks and may use the same ones are of one kind. For kind k, start t and block m:
x[k, t] clients start at t, and z[k, t, m] of their slots are in block m. Clients of one kind and start are alike, so
any z with z[k, t, m] <= x[k, t] can be dealt out to them; and once x and the order of the popularities are whole
numbers, the rest is a transport problem, whose solutions can be. So x and the order alone are integer variables.

Shapes: M places of blocks, S distinct popularities, K kinds, N clients. ``lower_N``, ``upper_N`` int64.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Ints = NDArray[np.int64]
MOST_VARIABLES = 12_000
_NODES, _SECONDS = 300, 20.0  # nodes end a search at the same place on every machine that is not far too slow


def solve_programme(
    popularity_M: Ints, least_N: Ints, lower_N: Ints, upper_N: Ints
) -> tuple[NDArray[np.bool_] | None, int]:
    """(matrix, bound): the best matrix that was found, or None, and what none stays below (0: unknown).

    ``popularity_M`` may come in any order: the programme chooses it.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # takes long to load

    M = len(popularity_M)
    level_S, count_S = np.unique(popularity_M, return_counts=True)
    kinds, kind_N, size_K = np.unique(
        np.stack((lower_N, upper_N, least_N)), axis=1, return_inverse=True, return_counts=True
    )
    K, S = kinds.shape[1], len(level_S)
    starts = [(k, t) for k in range(K) for t in range(M)]
    slots = [(k, t, m) for k, t in starts for m in range(t, M)]
    if len(slots) > MOST_VARIABLES:
        return None, 0
    x_of = {start: i for i, start in enumerate(starts)}
    z_of = {slot: len(starts) + i for i, slot in enumerate(slots)}
    first_y = len(starts) + len(slots)
    count = first_y + M * S

    def y(m: int, s: int) -> int:
        return first_y + m * S + s

    rows: list[tuple[list[int], list[float], float, float]] = []  # columns, coefficients, low, high
    for k in range(K):
        rows.append(([x_of[k, t] for t in range(M)], [1.0] * M, size_K[k], size_K[k]))
    for k, t in starts:
        in_z = [z_of[k, t, m] for m in range(t, M)]
        rows.append(([z_of[k, t, t], x_of[k, t]], [1.0, -1.0], 0, 0))  # the start is a slot
        rows += [([z_of[k, t, m], x_of[k, t]], [1.0, -1.0], -np.inf, 0) for m in range(t + 1, M)]
        low, high = kinds[0, k], kinds[1, k]
        rows.append(([*in_z, x_of[k, t]], [1.0] * len(in_z) + [-float(high)], -np.inf, 0))
        rows.append(([*in_z, x_of[k, t]], [1.0] * len(in_z) + [-float(low)], 0, np.inf))
    for m in range(M):
        filled = [z_of[k, t, m] for k in range(K) for t in range(m + 1)]
        order = [y(m, s) for s in range(S)]
        rows.append((filled + order, [1.0] * len(filled) + (-level_S.astype(float)).tolist(), 0, 0))
        rows.append((order, [1.0] * S, 1, 1))
        for s in range(S - 1):  # a place of a popularity too small for some kinds: they are not there
            barred = [z_of[k, t, m] for k in range(K) if kinds[2, k] > level_S[s] for t in range(m + 1)]
            if barred:
                higher = [y(m, other) for other in range(s + 1, S)]
                weights = [1.0] * len(barred) + (-level_S[s + 1 :].astype(float)).tolist()
                rows.append((barred + higher, weights, -np.inf, 0))
    for s in range(S):
        rows.append(([y(m, s) for m in range(M)], [1.0] * M, count_S[s], count_S[s]))
    row = np.repeat(np.arange(len(rows)), [len(columns) for columns, *_ in rows])
    columns = np.concatenate([np.array(columns) for columns, *_ in rows])
    values = np.concatenate([np.array(weights) for _, weights, *_ in rows])
    matrix = sparse.csr_array((values, (row, columns)), shape=(len(rows), count))
    cost, whole, high = np.zeros(count), np.zeros(count), np.full(count, float(len(least_N)))
    for (_, t), i in x_of.items():
        cost[i], whole[i] = M - t, 1
    whole[first_y:], high[first_y:] = 1, 1
    found = milp(
        cost,
        integrality=whole,
        bounds=Bounds(0, high),
        constraints=LinearConstraint(matrix, [row[2] for row in rows], [row[3] for row in rows]),
        options={"node_limit": _NODES, "time_limit": _SECONDS},
    )
    dual = found.mip_dual_bound
    bound = math.ceil(dual - 1e-6) if dual is not None and math.isfinite(dual) else 0
    if found.x is None:
        return None, bound
    placed_M = level_S[np.round(found.x[first_y:]).reshape(M, S).argmax(axis=1)]
    start_N = np.zeros(len(least_N), np.int64)
    for k in range(K):
        counts = np.round([found.x[x_of[k, t]] for t in range(M)]).astype(int)
        start_N[kind_N == k] = np.repeat(np.arange(M), counts)
    return _with_starts(placed_M, start_N, least_N, upper_N), bound


def _with_starts(popularity_M: Ints, start_N: Ints, least_N: Ints, upper_N: Ints) -> NDArray[np.bool_] | None:
    """The matrix in which each client's first block is given: one maximum flow. None where there is none."""
    M, N = len(popularity_M), len(start_N)
    A_MN = np.zeros((M, N), bool)
    A_MN[start_N, np.arange(N)] = True
    left_M = popularity_M - A_MN.sum(axis=1)
    if (left_M < 0).any():
        return None
    client, block = np.nonzero((np.arange(M) > start_N[:, None]) & (popularity_M >= least_N[:, None]))
    source, sink = 0, 1 + N + M
    tail = np.concatenate((np.full(N, source), 1 + client, 1 + N + np.arange(M)))
    head = np.concatenate((1 + np.arange(N), 1 + N + block, np.full(M, sink)))
    room = np.concatenate((upper_N - 1, np.ones(len(client), np.int64), left_M)).astype(np.int32)
    from scipy.sparse.csgraph import maximum_flow  # takes long to load

    flow = maximum_flow(sparse.csr_array((room, (tail, head)), shape=(sink + 1, sink + 1)), source, sink)
    if flow.flow_value != left_M.sum():
        return None
    A_MN[block, client] = np.asarray(flow.flow[1 + client, 1 + N + block]).ravel() > 0
    return A_MN
