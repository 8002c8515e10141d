"""The paper's solver: Theorem 4, Dinic's flow, and the greedy update of Algorithm 1.

Three points where the printed text does not run, and what is done about them:

* budgets are floored to whole blocks first (the paper's real-valued budgets give a gamma* that no matrix attains);
* Dinic's flow may leave clients with no block. With S = sum of budgets = gamma* M + r and r < M, Algorithm 1 can raise
  at most r blocks, so some block stays a candidate while any client has room; a client without a block has room,
  hence every such client gets one before the loop can end;
* Algorithm 1's guard never changes in the loop, so its one real exit is an empty candidate set, which is added.

Shapes: M blocks, N clients. ``A_MN`` bool; ``budget_N``, ``room_N`` int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.bounds import gamma_star
from zorba_core.allocation.measures import Allocation, least_popularity, popularity
from zorba_core.allocation.problem import Problem
from zorba_core.allocation.solve import Options, solver
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    import networkx as nx


def initial_matrix(budget_N: NDArray[np.int64], num_blocks: int) -> NDArray[np.bool_]:
    """A-tilde of problem P_I: gamma* clients on every block, by Dinic's algorithm. Clients may be left without one."""
    gamma = gamma_star(budget_N, num_blocks)
    from networkx.algorithms.flow import dinitz

    residual = dinitz(_network(budget_N, num_blocks, gamma), "s", "t")
    A_MN = np.zeros((num_blocks, len(budget_N)), bool)
    for client in range(len(budget_N)):
        for node, arc in residual["client", client].items():
            if node != "s" and arc["flow"] > 0:
                A_MN[node[1], client] = True
    return A_MN


def can_be_met(budget_N: NDArray[np.int64], num_blocks: int, popularity: int) -> bool:
    """Whether every block can have so many clients, by a maximum flow; Theorem 4 in closed form is ``gamma_star``."""
    import networkx as nx  # takes long to load, and other solvers do without
    from networkx.algorithms.flow import dinitz

    graph = _network(budget_N, num_blocks, popularity)
    return nx.maximum_flow_value(graph, "s", "t", flow_func=dinitz) == popularity * num_blocks


def greedy_update(
    initial_MN: NDArray[np.bool_], budget_N: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Algorithm 1: activate one block after another where the most clients gain, until no candidate is left.

    Ties of the argmax go to the smallest block id. The input is not changed.
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


@solver("lexicographic", title="The paper's method", help="Dinic's flow and the greedy update of Algorithm 1")
def lexicographic(problem: Problem, options: Options) -> Allocation:
    """The inner step of Algorithm 2 for one budget vector: Dinic's flow, then Algorithm 1.

    Popularities of the result are gamma* or gamma* + 1. The clients that Algorithm 1 "randomly selects" come from the
    options' seed. 9 ms of processor time at N=50, M=12 and 1.7 s at N=1000, M=48, nearly all in networkx.

    Raises:
        InvalidInputError: a total, which the method has no place for.
    """
    if problem.total is not None:
        raise InvalidInputError(
            "the lexicographic solver cannot honour a total (budgets decide it); leave it out, or use balanced, "
            "two-level or exact"
        )
    initial_MN = initial_matrix(problem.usable_N, problem.num_blocks)
    return Allocation(greedy_update(initial_MN, problem.usable_N, options.rng))
