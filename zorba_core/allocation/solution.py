"""The registry of solvers, and :func:`solve`, which checks every answer and adds a proven lower bound.

A solver is a function with a decorator, in ``solvers/`` or in another package::

    @solver("mine", help="one line of description")
    def mine(problem: Problem, options: Options) -> Allocation: ...

A solver raises :class:`InvalidInputError` for a constraint that it does not support, such as a total.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zorba_core import show
from zorba_core.allocation.bounds import gamma_star, water_filled_bound
from zorba_core.allocation.measures import Allocation
from zorba_core.allocation.problem import Problem
from zorba_core.errors import InvalidInputError, RunError, ZorbaError
from zorba_core.fleet import Fleet
from zorba_core.registry import Registry
from zorba_core.vram import GIB

# Relative difference up to which value and bound count as equal, because both are sums of rounded terms.
_SAME = 1e-9


class Status(enum.Enum):
    """How a solve ended; the value is a sentence for the user."""

    OPTIMAL = "Proven optimal: no matrix that meets the request does better."
    FEASIBLE = "Feasible, optimality not proven: the lower bound says how much better another matrix could be at most."
    TIME_LIMIT = "The time limit came first: this is the best matrix so far, with a valid lower bound."
    ON_TARGET = "On target: the total is exact and Lambda within the tolerance."


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The result of :func:`solve`."""

    allocation: Allocation
    """The matrix and its measures."""
    value: float
    """Lambda of the matrix."""
    lower_bound: float
    """No matrix that meets the request has a smaller Lambda."""
    status: Status
    """How the solve ended."""
    solver: str
    """The solver's name."""
    seconds: float
    """The time that it took."""
    problem: Problem
    """Budgets and limits."""
    fleet: Fleet | None = None
    """The clients; None if only budgets were given."""

    def __repr__(self) -> str:
        proof = {Status.OPTIMAL: "proven", Status.ON_TARGET: "on target"}
        how = proof.get(self.status, f"not proven, bound {self.lower_bound:.3g}")
        allocation = self.allocation
        return (
            f"Solution({self.solver}: Λ {self.value:.3g}, {how}, {allocation.total_blocks} of "
            f"{allocation.A_MN.size} blocks, {self.seconds:.2f} s)"
        )

    def _repr_html_(self) -> str:
        """In a notebook: the matrix, clients with most blocks on the left."""
        order_N = np.argsort(-self.allocation.blocks_held_N, kind="stable")
        picture = show.matrix(self.allocation.A_MN[:, order_N], "clients (columns) and blocks (rows)")
        return show.card(repr(self), picture)

    @property
    def optimal(self) -> bool:
        """Whether the value is proven to be the least."""
        return self.status is Status.OPTIMAL

    @property
    def gap(self) -> float:
        """(value - lower bound) / value, at least 0: the largest possible improvement."""
        return max(0.0, 1.0 - self.lower_bound / self.value)

    @property
    def gamma_star(self) -> int:
        """Theorem 4's largest least popularity for the same budgets."""
        return gamma_star(self.problem.usable_N, self.problem.num_blocks)

    @property
    def vram_N_gib(self) -> NDArray[np.float64] | None:
        """psi_tot of each client, in GiB; None if only budgets were given."""
        return None if self.fleet is None else self.fleet.used_N_bytes(self.allocation.blocks_held_N) / GIB

    def describe(self) -> dict[str, Any]:
        """The content for files and ``--json``."""
        used_N = self.vram_N_gib
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
            "gap": self.gap,
            "status": self.status.value,
            "seconds": self.seconds,
            "vram_gib": None if used_N is None else {"total": float(used_N.sum()), "per_client": used_N},
        }


@dataclass(frozen=True)
class Options:
    """A solver's options."""

    time_limit: float = 10.0  # seconds
    seed: int | Sequence[int] = 0

    @property
    def rng(self) -> np.random.Generator:
        """A new generator from the seed."""
        return np.random.default_rng(self.seed)


class SolverResult(NamedTuple):
    """An allocation with a bound from its solver."""

    allocation: Allocation
    lower_bound: float = 0.0  # on Lambda, over every matrix that meets the request
    status: Status = Status.FEASIBLE  # OPTIMAL and FEASIBLE follow from the bound


@dataclass(frozen=True)
class Solver:
    """A solver with its name and descriptions."""

    name: str  # in commands, links and files
    help: str  # one line that starts in lower case
    title: str  # in headings
    run: Callable[[Problem, Options], Allocation | SolverResult]

    def __call__(self, problem: Problem, options: Options | None = None) -> Allocation | SolverResult:
        """The plain function, without the checks and the bound of :func:`solve`."""
        return self.run(problem, options or Options())


SOLVERS: Registry[Solver] = Registry("solver", "zorba.solvers", Solver)


def solver(
    name: str, *, help: str, title: str = ""
) -> Callable[[Callable[[Problem, Options], Allocation | SolverResult]], Solver]:
    """Register a function as a solver.

    Args:
        help: one line of description that starts in lower case.
        title: the name in headings; by default the name with a capital.
    """
    return lambda run: SOLVERS.register(Solver(name, help, title or name.capitalize(), run))


def solve(
    request: Fleet | Problem,
    solver: str | Solver = "balanced",
    *,
    time_limit: float = 10.0,
    seed: int | Sequence[int] = 0,
    **limits: Any,
) -> Solution:
    """Allocate blocks to clients.

    Args:
        request: a fleet, whose VRAM gives the budgets, or a problem.
        limits: ``total``, ``total_mode``, ``min_popularity`` and ``max_blocks_per_client`` of the :class:`Problem`.
        solver: the name of one of :data:`SOLVERS`, or a solver.
        time_limit: seconds after which ``exact`` returns the best matrix so far and its bound.
        seed: seed of a solver's random choices; most solvers make none.

    Raises:
        InvalidInputError: the solver is unknown, or does not support the request.
        InfeasibleError: a client that cannot hold one block, or limits that no matrix can meet.
        RunError: the solver failed, or its matrix does not meet the request.
    """
    problem = problem_of(request, **limits)
    part = find_solver(solver)
    if not (time_limit > 0 and math.isfinite(time_limit)):
        raise InvalidInputError(f"time limit is {time_limit} seconds; it must be a finite number above 0")
    started = time.perf_counter()
    try:
        answer = part.run(problem, Options(time_limit, seed))
    except ZorbaError:
        raise
    except Exception as error:  # the solver of another package may raise anything
        raise RunError(f"the {part.name} solver failed: {type(error).__name__}: {error}") from error
    answer = answer if isinstance(answer, SolverResult) else SolverResult(answer)
    allocation = answer.allocation
    _check_answer(part.name, problem, allocation)
    value, lower_bound = allocation.bias_lambda, max(answer.lower_bound, water_filled_bound(problem))
    if value <= lower_bound * (1 + _SAME):
        status = Status.OPTIMAL
    else:
        status = Status.FEASIBLE if answer.status is Status.OPTIMAL else answer.status
    return Solution(
        allocation=allocation,
        value=value,
        lower_bound=min(lower_bound, value),
        status=status,
        solver=part.name,
        seconds=time.perf_counter() - started,
        problem=problem,
        fleet=request if isinstance(request, Fleet) else None,
    )


def problem_of(request: Fleet | Problem, **limits: Any) -> Problem:
    """The problem of a fleet, with budgets from its VRAM, or the given problem; with these limits.

    Raises:
        InvalidInputError: a limit out of range.
        InfeasibleError: a client that cannot hold one block, or limits that no matrix can meet.
    """
    if isinstance(request, Fleet):
        return Problem(request.budget_N, request.num_blocks, **limits)
    return replace(request, **limits) if limits else request


def find_solver(solver: str | Solver) -> Solver:
    """The registered solver of this name, or the given solver.

    Raises:
        InvalidInputError: the solver is unknown.
    """
    return SOLVERS.get_part(solver) if isinstance(solver, str) else solver


def _check_answer(name: str, problem: Problem, allocation: object) -> None:
    """Check that a solver's answer meets the problem's constraints.

    Raises:
        RunError: the solver, and the constraint that its matrix breaks.
    """
    M, N, wrong = problem.num_blocks, problem.num_clients, None
    if not isinstance(allocation, Allocation):
        wrong = f"{type(allocation).__name__} is not an Allocation"
    elif (shape := (allocation.num_blocks, allocation.num_clients)) != (M, N):
        wrong = f"{shape[0]} blocks for {shape[1]} clients, not {M} for {N}"
    elif (over := allocation.blocks_held_N - problem.usable_N).max() > 0:
        wrong = f"client {over.argmax()} holds {over.max()} more than its budget allows"
    elif allocation.blocks_held_N.min() < 1:
        wrong = f"client {allocation.blocks_held_N.argmin()} holds no block"
    elif (few := np.flatnonzero(allocation.popularity_M < problem.min_popularity)).size:
        wrong = f"block {few[0]} has {allocation.popularity_M[few[0]]} clients"
    elif (total := allocation.total_blocks) > problem.most_blocks or (
        problem.total_mode == "eq" and total < problem.most_blocks
    ):
        wrong = f"{total} activated blocks, the total is {problem.total}"
    if wrong:
        raise RunError(f"the {name} solver's answer does not meet the request: {wrong}")
