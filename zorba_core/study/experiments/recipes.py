"""How an experiment's activation matrices are made: a few frozen numbers, from which the same matrix always follows.

Shapes: M blocks, N clients. ``A_MN`` bool; ``popularity_M`` int.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import Allocation, Problem, solve
from zorba_core.allocation.scenarios import solve_scenario
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import Fleet

KINDS = ("uniform", "popularity", "random", "solver", "scenario", "only")
PLACEMENTS = ("spread", "pile")
_EXACT_SECONDS = 60.0


@dataclass(frozen=True)
class Recipe:
    """One activation matrix.

    ``kind`` and the fields it reads:

    * ``uniform``: balanced, ``blocks`` for every client.
    * ``popularity``: block m has ``popularity_M[m]`` clients, dealt by ``placement``: ``spread`` to the clients with
      fewest blocks so far, ``pile`` blocks scarcer than the mean on the same first clients.
    * ``random``: each cell with probability ``share``; a block or client left empty gets one cell. Drawn by ``draw``.
    * ``solver``: ``solver`` on a fleet drawn as in the paper by ``draw``, with ``total`` and ``cap`` if given.
    * ``scenario``: exactly ``total`` blocks and Lambda ``target_lambda`` within 1e-3, on such a fleet, or on clients
      that can hold everything when ``draw`` is negative.
    * ``only``: every client activates the same ``only_blocks`` and no other block is trained.

    ``shuffle`` permutes the blocks by that seed (no metric changes); None keeps their order.
    """

    kind: str
    num_clients: int  # N
    num_blocks: int = 12  # M
    blocks: int = 0
    popularity_M: tuple[int, ...] = ()
    placement: str = "spread"
    share: float = 0.0
    draw: int = 0
    solver: str = ""
    total: int | None = None
    cap: int | None = None
    target_lambda: float = 0.0
    only_blocks: tuple[int, ...] = ()
    shuffle: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInputError(f"allocation recipe {self.kind!r} is unknown; choose one of {', '.join(KINDS)}")
        if self.placement not in PLACEMENTS:
            raise InvalidInputError(f"placement is {self.placement!r}; choose one of {', '.join(PLACEMENTS)}")

    def build(self) -> Allocation:
        """The matrix; made once for each recipe in a process."""
        return _build(self)

    def describe(self) -> dict[str, Any]:
        """The fields that differ from their defaults, for a run's config."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        default = {name: field.default for name, field in self.__dataclass_fields__.items()}
        return {name: value for name, value in plain.items() if value != default[name]}


@functools.lru_cache(maxsize=1024)
def _build(recipe: Recipe) -> Allocation:
    if recipe.shuffle is not None:
        order_M = np.random.default_rng([recipe.shuffle, 0xB10C]).permutation(recipe.num_blocks)
        return Allocation(_build(replace(recipe, shuffle=None)).A_MN[order_M])
    N, M = recipe.num_clients, recipe.num_blocks
    if recipe.kind == "uniform":
        return Allocation(solve(Problem(np.full(N, recipe.blocks), M)).allocation.A_MN)
    if recipe.kind == "popularity":
        return dealt(recipe.popularity_M, N, recipe.placement)
    if recipe.kind == "random":
        return _random(recipe)
    if recipe.kind == "only":
        return Allocation.from_blocks([list(recipe.only_blocks)] * N, M)
    everything = recipe.kind == "scenario" and recipe.draw < 0
    budget_N = np.full(N, M) if everything else fleet_budgets(N, M, recipe.draw)
    if recipe.kind == "scenario":
        problem = Problem(budget_N, M, recipe.total, "eq")
        return Allocation(solve_scenario(problem, recipe.target_lambda, time_limit=_EXACT_SECONDS).allocation.A_MN)
    problem = Problem(budget_N, M, recipe.total, max_blocks_per_client=recipe.cap)
    solution = solve(problem, recipe.solver, seed=recipe.draw, time_limit=_EXACT_SECONDS)
    return Allocation(solution.allocation.A_MN)


def fleet_budgets(num_clients: int, num_blocks: int, draw: int) -> NDArray[np.int64]:
    """Whole-block budgets of a fleet drawn as in the paper: capacities between parameters and one block, and
    parameters and all blocks."""
    presets = {12: "opt-125m", 24: "opt-1.3b"}
    if num_blocks not in presets:
        raise InvalidInputError(f"a fleet is drawn for 12 or 24 blocks here, not {num_blocks}")
    return Fleet.uniform(presets[num_blocks], num_clients, seed=draw).budget_N


def dealt(popularity_M: Sequence[int], num_clients: int, placement: str) -> Allocation:
    """A matrix whose block m has ``popularity_M[m]`` clients (see :class:`Recipe`).

    Raises:
        InvalidInputError: a popularity outside 1..N, or one that leaves a client without a block.
    """
    A_MN = np.zeros((len(popularity_M), num_clients), bool)
    for m in np.argsort(popularity_M, kind="stable"):
        count = popularity_M[m]
        if not 1 <= count <= num_clients:
            raise InvalidInputError(f"block {m} is to have {count} clients; it must be between 1 and {num_clients}")
        piled = placement == "pile" and count < np.mean(popularity_M)
        held_N = np.arange(num_clients) if piled else A_MN.sum(axis=0)
        A_MN[m, np.argsort(held_N, kind="stable")[:count]] = True
    empty = np.flatnonzero(~A_MN.any(axis=0))
    if len(empty):
        raise InvalidInputError(f"these popularities leave client {empty[0]} without a block; raise one of them")
    return Allocation(A_MN)


def _random(recipe: Recipe) -> Allocation:
    rng = np.random.default_rng([recipe.draw, 0x3A7])
    A_MN = rng.random((recipe.num_blocks, recipe.num_clients)) < recipe.share
    for n in np.flatnonzero(~A_MN.any(axis=0)):
        A_MN[rng.integers(recipe.num_blocks), n] = True
    for m in np.flatnonzero(~A_MN.any(axis=1)):
        A_MN[m, rng.integers(recipe.num_clients)] = True
    return Allocation(A_MN)
