"""Deal the blocks out anew for the least forward work, with every popularity as it was.

A client reuses the base pass up to its first active block, so a round computes anew W = sum over j of the clients that
hold one of the first j blocks. V depends on the popularities alone, and Lambda on each client's least popularity: any
matrix with the same popularities, in which no client meets a scarcer block than before, has the same V and no larger
Lambda. Among those matrices this looks for the least W:

- ``forward-work`` lets every client keep its number of blocks, and so its VRAM;
- ``forward-work-free`` bounds it by its budget alone (at least one block). The clients with large budgets then carry
  most blocks and the others one late block: less work still, and fewer effective clients, since few weigh more.

*Construction.* Block after block, least popular first (and in the order of the bound's path): as few clients as
possible start there, and who has most left goes first. Whether the rest can still be dealt is decided exactly: serving
the least popular remaining block first from the clients with most left succeeds if anything does (Gale and Ryser), and
together with a slot for every client that has none yet (Mendelsohn and Dulmage).

*Bound.* Before each prefix of blocks so many clients must have started that their blocks cover the prefix's
popularities, that those who must have started have (too many blocks for what is left, or no slot left for them), and
that every block has distinct clients. Over all orders of blocks of different popularities this is a shortest path.
Where construction and bound meet, the work is proven least; else an integer programme over kinds of clients
(:mod:`zorba_core.allocation.forward_work_programme`) closes the gap, or narrows it.

Shapes: M blocks, N clients, S distinct popularities, rising. ``popularity_M``, ``least_N``, ``lower_N``, ``upper_N``
int64.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.block_order import least_forward_work
from zorba_core.allocation.forward_work_programme import solve_programme
from zorba_core.allocation.measures import AllocationMetrics
from zorba_core.allocation.problem import Allocation

Ints = NDArray[np.int64]
# Beyond so many cells blocks are only permuted; beyond so many nodes the bound takes prefixes of rising popularity.
_MOST_CELLS, _MOST_NODES = 100_000, 2_000


@dataclass(frozen=True, eq=False)
class LeastWork:
    """A matrix, and what no matrix of the same popularities stays below."""

    allocation: Allocation
    bound: int

    @property
    def proven(self) -> bool:
        return self.allocation.forward_work == self.bound


def deal_for_least_work(allocation: AllocationMetrics, budget_N: Ints | None = None) -> LeastWork:
    """The matrix with the least forward work that was found, and a bound. Never more work than before.

    Args:
        budget_N: the most blocks of each client, where their numbers are free; None: each keeps its number.

    O(M N) a feasibility check, at most M + N of them for an order of the blocks.
    """
    popularity_M, least_N = np.sort(allocation.popularity_M), allocation.least_popularity_N
    held_N = allocation.blocks_held_N
    lower_N, upper_N = (held_N, held_N) if budget_N is None else (np.ones_like(held_N), budget_N)
    upper_N = np.minimum(upper_N, allocation.num_blocks)
    before = least_forward_work(allocation)
    candidates = [before] if before.forward_work <= allocation.forward_work else [Allocation(allocation.A_MN)]
    bound, path_M = _bound(popularity_M, least_N, lower_N, upper_N)
    if allocation.num_blocks * allocation.num_clients <= _MOST_CELLS:
        for order_M in {tuple(popularity_M.tolist()), tuple(path_M.tolist())}:
            dealt = _deal(np.array(order_M), least_N, lower_N, upper_N)
            if dealt is not None:
                candidates.append(least_forward_work(Allocation(dealt)))
    best = min(candidates, key=lambda candidate: candidate.forward_work)
    if bound < best.forward_work:
        programmed, proven = solve_programme(popularity_M, least_N, lower_N, upper_N)
        bound = max(bound, proven)
        if programmed is not None:
            best = min((best, least_forward_work(Allocation(programmed))), key=lambda matrix: matrix.forward_work)
    return LeastWork(best, min(bound, best.forward_work))


def _deal(popularity_M: Ints, least_N: Ints, lower_N: Ints, upper_N: Ints) -> NDArray[np.bool_] | None:
    """A matrix with these popularities in this order, as few clients as possible starting at each block; None where
    the way taken leaves nothing feasible."""
    M, N = len(popularity_M), len(least_N)
    A_MN, held_N = np.zeros((M, N), bool), np.zeros(N, np.int64)
    for m, popularity in enumerate(popularity_M):
        if popularity == 0:  # nobody's
            continue
        rest = popularity_M[m + 1 :]
        able = (least_N <= popularity) & (held_N < upper_N)
        left_N = upper_N - held_N
        # Who has most left goes first; of equals, who has the larger need.
        order = np.lexsort((-lower_N, -left_N))
        started, fresh = (order[(able & chosen)[order]] for chosen in (held_N > 0, held_N == 0))
        for new in range(max(0, popularity - len(started)), min(popularity, len(fresh)) + 1):
            taken = np.concatenate((started[: popularity - new], fresh[:new]))
            after_N = held_N.copy()
            after_N[taken] += 1
            if _can_be_dealt(rest, least_N, lower_N - after_N, upper_N - after_N):
                A_MN[m, taken], held_N = True, after_N
                break
        else:
            return None
    return A_MN if bool(((held_N >= lower_N) & (held_N <= upper_N)).all()) else None


def _can_be_dealt(popularity_R: Ints, least_N: Ints, lower_N: Ints, upper_N: Ints) -> bool:
    """Whether the remaining blocks can be filled, no client above ``upper_N`` and each with at least ``lower_N``.

    ``lower_N`` is ``upper_N`` (then the totals agree, and filling is enough), or at most 1 of each client.
    """
    if bool((upper_N < 0).any()):
        return False
    rising = np.sort(popularity_R[popularity_R > 0])
    left_N = upper_N.copy()
    for popularity in rising:
        able = np.flatnonzero((least_N <= popularity) & (left_N > 0))
        if len(able) < popularity:
            return False
        most = able[np.argpartition(-left_N[able], popularity - 1)[:popularity]]
        left_N[most] -= 1
    waiting = lower_N > 0
    if int(lower_N[waiting].sum()) == int(upper_N.sum()):
        return True
    # Every client without a block needs a slot in one that it may use.
    return all(
        int((waiting & (least_N >= level)).sum()) <= int(rising[rising >= level].sum())
        for level in np.unique(least_N[waiting])
    )


def _bound(popularity_M: Ints, least_N: Ints, lower_N: Ints, upper_N: Ints) -> tuple[int, Ints]:
    """What no matrix stays below, and the order of popularities in which the bound is that low."""
    level_S, count_S = np.unique(popularity_M, return_counts=True)
    if (
        np.prod(count_S.astype(float) + 1) > _MOST_NODES
    ):  # one order, and permissions left out: lower, and still a bound
        free_N = np.full_like(least_N, level_S[0])
        merged = [_started(np.array([j]), popularity_M[:j], popularity_M[j:], level_S[:1], free_N, lower_N, upper_N)
                  for j in range(1, len(popularity_M) + 1)]  # fmt: skip
        return int(np.sum(merged)), popularity_M
    cost: dict[tuple[int, ...], int] = {(0,) * len(level_S): 0}
    came: dict[tuple[int, ...], int] = {}
    for node in itertools.product(*(range(count + 1) for count in count_S)):
        if not any(node):
            continue
        taken_S = np.array(node)
        inside, outside = np.repeat(level_S, taken_S), np.repeat(level_S, count_S - taken_S)
        started = _started(taken_S, inside, outside, level_S, least_N, lower_N, upper_N)
        before = {s: cost[(*node[:s], node[s] - 1, *node[s + 1 :])] for s in range(len(node)) if node[s]}
        came[node] = min(before, key=before.__getitem__)
        cost[node] = before[came[node]] + started
    node, order = tuple(count_S.tolist()), []
    total = cost[node]
    while any(node):
        s = came[node]
        order.append(level_S[s])
        node = (*node[:s], node[s] - 1, *node[s + 1 :])
    return total, np.array(order[::-1])


def _started(
    taken_S: Ints, inside: Ints, outside: Ints, level_S: Ints, least_N: Ints, lower_N: Ints, upper_N: Ints
) -> int:
    """Fewest clients that hold one of the blocks ``inside``, whose popularities are those; ``outside`` are the others.

    ``taken_S`` counts the inside blocks of each level of ``level_S``; where one level stands for all, all of them.
    """
    merged = len(level_S) == 1
    usable_N = np.array([len(outside) if merged else int((outside >= least).sum()) for least in least_N])
    must_N = lower_N > usable_N
    must = int(must_N.sum())
    fewest = max(must, len(least_N) - int(outside.sum()))  # the others have a slot outside
    for s, level in enumerate(level_S):
        if not taken_S[s]:
            continue
        # Blocks inside up to this level can be held by the clients that may use it, in the blocks that each may use.
        may_N = least_N <= level
        reach_N = np.array([taken_S[: s + 1][level_S[: s + 1] >= least].sum() for least in least_N])
        cover_N = np.where(may_N, np.minimum(upper_N, reach_N), 0)
        need = int(inside.sum() if merged else (taken_S[: s + 1] * level_S[: s + 1]).sum())
        need -= int(cover_N[must_N].sum())
        further = np.cumsum(np.sort(cover_N[~must_N])[::-1])
        fewest = max(fewest, must + (int(np.searchsorted(further, need)) + 1 if need > 0 else 0))
        distinct = int(inside.max() if merged else level)
        fewest = max(fewest, int((must_N & ~may_N).sum()) + distinct)
    return fewest
