"""The paper's solver: Theorem 4, Dinic's flow, and the greedy update of Algorithm 1.

The printed algorithm needs three clarifications:

* Budgets are rounded down to whole blocks first. The paper's real-valued budgets give a gamma* that no matrix attains.
* Dinic's flow may leave clients without a block, but Algorithm 1 gives each of them one. With sum of budgets =
  gamma* M + r, r < M, it can raise at most r blocks, so some block is a candidate as long as any client has room, and
  a client without a block has room.
* The condition of Algorithm 1's loop never changes within the loop, so the loop here also ends without candidates.

Shapes: M blocks, N clients. ``A_MN`` bool; ``budget_N``, ``room_N`` int64.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.bounds import gamma_star
from zorba_core.allocation.measures import Allocation, least_popularity, popularity
from zorba_core.allocation.problem import Problem
from zorba_core.allocation.solution import Options, solver
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    import networkx as nx


def initial_matrix(budget_N: NDArray[np.int64], num_blocks: int) -> NDArray[np.bool_]:
    """A-tilde of problem P_I: gamma* clients on every block, by Dinic's algorithm. Some clients may have no block."""
    return _initial_matrix(tuple(budget_N.tolist()), num_blocks).copy()


@functools.lru_cache(maxsize=512)  # a sweep with one tau for all clients repeats most of its budgets
def _initial_matrix(budgets: tuple[int, ...], num_blocks: int) -> NDArray[np.bool_]:
    from networkx.algorithms.flow import dinitz

    budget_N = np.array(budgets)
    residual = dinitz(_network(budget_N, num_blocks, gamma_star(budget_N, num_blocks)), "s", "t")
    arcs_N = [residual["client", n] for n in range(len(budgets))]
    return np.array([[arcs["block", m]["flow"] > 0 for arcs in arcs_N] for m in range(num_blocks)])


def can_be_met(budget_N: NDArray[np.int64], num_blocks: int, popularity: int) -> bool:
    """Whether every block can have ``popularity`` clients, by a maximum flow, to check the closed ``gamma_star``."""
    import networkx as nx  # slow to import, and other solvers do not need it
    from networkx.algorithms.flow import dinitz

    graph = _network(budget_N, num_blocks, popularity)
    return nx.maximum_flow_value(graph, "s", "t", flow_func=dinitz) == popularity * num_blocks


def greedy_update(
    initial_MN: NDArray[np.bool_], budget_N: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Algorithm 1: activate one more client on the block from which most clients gain, until there is no candidate.

    Ties of the argmax go to the smallest block id. Does not change the input.
    """
    A_MN, popularity_M = initial_MN.copy(), popularity(initial_MN)
    gamma = int(popularity_M.min())
    room_N = budget_N - initial_MN.sum(axis=0)  # r
    low_M = popularity_M == gamma  # L: blocks still at gamma*
    low_N = least_popularity(initial_MN) == gamma  # F: clients whose least popularity is still gamma*
    bottleneck_MN = initial_MN & low_M[:, None]  # W_n as columns
    while low_M.any() and low_N.any():
        can_take_MN = ~initial_MN & (room_N > 0)
        candidates = np.flatnonzero(low_M & can_take_MN.any(axis=1))  # C
        if not candidates.size:
            break
        gain_C = bottleneck_MN[candidates][:, low_N].sum(axis=1)
        block = int(candidates[gain_C.argmax()])  # m*
        client = int(rng.choice(np.flatnonzero(can_take_MN[block])))
        A_MN[block, client] = True
        room_N[client] -= 1
        low_M[block] = False
        held_it = bottleneck_MN[block].copy()
        bottleneck_MN[block] = False
        low_N &= ~(held_it & ~bottleneck_MN.any(axis=0))
    return A_MN


def _network(budget_N: NDArray[np.int64], num_blocks: int, demand: int) -> nx.DiGraph:
    """Source -> client (budget) -> block (1) -> sink (``demand``)."""
    import networkx as nx

    graph = nx.DiGraph()
    for client, budget in enumerate(budget_N.tolist()):
        graph.add_edge("s", ("client", client), capacity=budget)
        graph.add_edges_from(((("client", client), ("block", m)) for m in range(num_blocks)), capacity=1)
    graph.add_edges_from(((("block", m), "t") for m in range(num_blocks)), capacity=demand)
    return graph


@solver("lexicographic", title="The paper's method", help="the paper's method")
def lexicographic(problem: Problem, options: Options) -> Allocation:
    """The inner step of Algorithm 2 for one budget vector: Dinic's flow, then Algorithm 1.

    Popularities of the result are gamma* or gamma* + 1. Algorithm 1 "randomly selects" clients by the options' seed.
    The flow, nearly all of the time, is computed once for equal budgets.

    Raises:
        InvalidInputError: the problem has a total, which the method does not support.
    """
    if problem.total is not None:
        raise InvalidInputError("lexicographic does not support a total; omit it, or use balanced, two-level or exact")
    initial_MN = initial_matrix(problem.usable_N, problem.num_blocks)
    return Allocation(greedy_update(initial_MN, problem.usable_N, options.rng))
