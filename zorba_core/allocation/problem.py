"""The request and the answer: an allocation problem, an activation matrix, and a solution that says how good it is.

Shapes: M blocks, N clients. ``A_MN`` bool, rows are blocks; ``budget_N`` int64, whole blocks.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import measures as metrics
from zorba_core.allocation.feasibility import check_feasible, whole_number, whole_numbers
from zorba_core.allocation.measures import AllocationMetrics
from zorba_core.errors import InvalidInputError, name_some

TotalMode = Literal["le", "eq"]
Objective = Literal["lambda", "v"]
OBJECTIVES: tuple[Objective, ...] = ("lambda", "v")


@dataclass(frozen=True, eq=False)
class AllocationProblem:
    """Give each client 1..budget blocks so that every block has enough clients.

    Raises:
        InvalidInputError: a field out of range, naming the client or the field.
        InfeasibleError: no matrix can meet the request; the message names the constraint and by how much.
    """

    budget_N: NDArray[np.int64]  # lambda_n: most blocks of each client, 1..M
    num_blocks: int  # M
    total: int | None = None  # activated blocks over all clients, T
    total_mode: TotalMode = "le"  # le: at most T; eq: exactly T
    min_popularity: int = 1  # clients that every block needs
    max_blocks_per_client: int | None = None  # on top of each client's budget

    def __post_init__(self) -> None:
        for name in ("num_blocks", "total", "min_popularity", "max_blocks_per_client"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole_number(name.replace("_", " "), value, 1))
        if self.total_mode not in ("le", "eq"):
            raise InvalidInputError(f"total mode is {self.total_mode!r}; choose le (at most) or eq (exactly)")
        if self.total_mode == "eq" and self.total is None:
            raise InvalidInputError("total mode eq needs a total; give the total, or use le")
        budget_N = whole_numbers("budget", self.budget_N)
        outside = np.flatnonzero((budget_N < 1) | (budget_N > self.num_blocks))
        if outside.size:
            shown = name_some([f"client {n} has {budget_N[n]}" for n in outside[:6]])
            raise InvalidInputError(f"budgets must be between 1 and M = {self.num_blocks} blocks: {shown}")
        budget_N.setflags(write=False)
        object.__setattr__(self, "budget_N", budget_N)
        check_feasible(self.usable_N, **{field.name: getattr(self, field.name) for field in fields(self)})

    @property
    def num_clients(self) -> int:
        return len(self.budget_N)

    @cached_property
    def usable_N(self) -> NDArray[np.int64]:
        """Budgets after the cap on blocks per client."""
        if self.max_blocks_per_client is None:
            return self.budget_N
        usable_N = np.minimum(self.budget_N, self.max_blocks_per_client)
        usable_N.setflags(write=False)
        return usable_N

    @property
    def most_blocks(self) -> int:
        """The largest total that budgets and T allow."""
        usable = int(self.usable_N.sum())
        return usable if self.total is None else min(usable, self.total)


@dataclass(frozen=True, eq=False)
class Allocation(AllocationMetrics):
    """A block activation matrix and what follows from it. A client or block may be empty while someone edits it:
    :attr:`is_complete` says so, and Lambda or V is then infinite."""

    A_MN: NDArray[np.bool_]

    def __post_init__(self) -> None:
        A_MN = np.array(self.A_MN)
        if A_MN.ndim != 2 or 0 in A_MN.shape:
            raise InvalidInputError(f"an activation matrix has shape (blocks, clients), not {A_MN.shape}")
        if A_MN.dtype != bool and not np.isin(A_MN, (0, 1)).all():
            raise InvalidInputError("an activation matrix holds only 0 and 1")
        A_MN = A_MN.astype(bool)
        A_MN.setflags(write=False)
        object.__setattr__(self, "A_MN", A_MN)

    @classmethod
    def from_blocks(cls, blocks_per_client: list[list[int]], num_blocks: int) -> Allocation:
        """From 0-based block ids, one list per client.

        Raises:
            InvalidInputError: an id outside 0..M-1 or twice in one client.
        """
        A_MN = np.zeros((num_blocks, len(blocks_per_client)), bool)
        for client, blocks in enumerate(blocks_per_client):
            if len(set(blocks)) != len(blocks) or not all(0 <= block < num_blocks for block in blocks):
                raise InvalidInputError(f"client {client}: block ids must be distinct and in 0..{num_blocks - 1}")
            A_MN[list(blocks), client] = True
        return cls(A_MN)

    @property
    def num_blocks(self) -> int:
        return self.A_MN.shape[0]

    @cached_property
    def popularity_M(self) -> NDArray[np.int64]:
        return metrics.popularity(self.A_MN)

    @cached_property
    def least_popularity_N(self) -> NDArray[np.int64]:
        return metrics.least_popularity(self.A_MN)

    @cached_property
    def blocks_held_N(self) -> NDArray[np.int64]:
        return self.A_MN.sum(axis=0, dtype=np.int64)

    @cached_property
    def influence_N(self) -> NDArray[np.float64]:
        return metrics.influence(self.A_MN)

    @cached_property
    def blocks_per_client(self) -> list[list[int]]:
        """0-based block ids, rising, one list per client in the order given."""
        return [np.flatnonzero(column).tolist() for column in self.A_MN.T]


class Status(enum.Enum):
    """How a solve ended; the value is what a person reads."""

    OPTIMAL = "Proven optimal: no matrix that meets the request does better."
    FEASIBLE = "Feasible, optimality not proven: the lower bound says how much better another matrix could be at most."
    TIME_LIMIT = "The time limit came first: this is the best matrix found, with a valid lower bound."
    ON_TARGET = "On target: the total is exact and Lambda within the tolerance."


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver returns. ``lower_bound`` bounds ``objective`` (Lambda or V) over every matrix that meets the
    request, so ``gap`` is the most that is left to gain; ``gamma_star`` is Theorem 4's for the same budgets."""

    allocation: AllocationMetrics
    solver: str
    status: Status
    objective: Objective
    lower_bound: float
    gamma_star: int
    seconds: float
    problem: AllocationProblem

    @property
    def optimal(self) -> bool:
        return self.status is Status.OPTIMAL

    @property
    def value(self) -> float:
        return objective_of(self.allocation, self.objective)

    @property
    def gap(self) -> float:
        """(value - lower bound) / value, at least 0."""
        return max(0.0, 1.0 - self.lower_bound / self.value)

    def describe(self) -> dict[str, Any]:
        """Everything but VRAM, which budgets alone do not tell: what files and ``--json`` are made of."""
        allocation = self.allocation
        return {
            "num_blocks": allocation.num_blocks,
            "num_clients": allocation.num_clients,
            "budgets": self.problem.budget_N,
            "blocks_per_client": allocation.blocks_per_client,
            "popularity": allocation.popularity_M,
            "least_popularity": allocation.least_popularity_N,
            "lambda": allocation.bias_lambda,
            "gamma_star": self.gamma_star,
            "total_blocks": allocation.total_blocks,
            "lower_bound": self.lower_bound,
            "optimal": self.optimal,
            "mean_inverse_popularity": allocation.mean_inverse_popularity,
            "effective_clients": allocation.effective_clients,
            "min_popularity": allocation.min_popularity,
            "largest_influence": allocation.largest_influence,
            "solver": self.solver,
            "objective": self.objective,
            "gap": self.gap,
            "status": self.status.value,
            "seconds": self.seconds,
        }


def objective_of(allocation: AllocationMetrics, objective: Objective) -> float:
    """Lambda or V of an allocation."""
    return allocation.bias_lambda if objective == "lambda" else allocation.mean_inverse_popularity
