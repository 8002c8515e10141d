"""What a solver is: a function from a problem to an allocation, and its declared facts.

A solver is a value. Those that this package and others register have a name by which command, dashboard and notebooks
offer them (``zorba_core.allocation.SOLVERS``); :func:`~zorba_core.allocation.solve.solve` takes any other as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.measures import AllocationMetrics
from zorba_core.allocation.problem import OBJECTIVES, AllocationProblem, Objective, Status


@dataclass(frozen=True)
class SolverOptions:
    """What a solver may read beside the problem; one without the capability leaves an option alone."""

    objective: Objective = "lambda"  # one of its ``objectives``
    time_limit: float = 10.0  # seconds, with ``takes_time_limit``
    seed: int | Sequence[int] = 0  # with ``random``
    trace: list[Any] | None = None  # with ``traces``: where each step is appended

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator: the same seed draws the same."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True, eq=False)
class Answer:
    """An allocation with more to say than its matrix. A bound on the objective counts if the solver ``proves``."""

    allocation: AllocationMetrics
    lower_bound: float = 0.0
    status: Status = Status.FEASIBLE
    nodes: int = 0  # of a search; 0 when the bound closed the gap before it


class RowMetrics(NamedTuple):
    """Metrics of the allocations of E budget vectors; NaN (0 for popularity) where they do not cover every block."""

    total_blocks_E: NDArray[np.int64]
    bias_lambda_E: NDArray[np.float64]
    mean_inverse_popularity_E: NDArray[np.float64]
    effective_clients_E: NDArray[np.float64]
    min_popularity_E: NDArray[np.int64]


@dataclass(frozen=True)
class Solver:
    """One way to solve an :class:`~zorba_core.allocation.problem.AllocationProblem`.

    ``run`` returns an allocation, or an :class:`Answer`; what it returns is checked against the problem, and gets the
    lower bound that every answer gets.
    """

    name: str  # in commands, links, files
    title: str
    help: str  # one sentence, begun in lower case
    run: Callable[[AllocationProblem, SolverOptions], AllocationMetrics | Answer]
    cost: str = ""  # how long it takes, in words
    objectives: tuple[Objective, ...] = ("lambda",)
    honours_total: bool = True
    random: bool = False  # draws: another seed, another matrix
    proves: bool = False  # its own lower bounds are proven
    takes_time_limit: bool = False
    traces: bool = False
    most_points: int | None = None  # a sweep on a page has no more than so many; None where each is cheap
    rows: Callable[[NDArray[np.integer], int], RowMetrics] | None = None  # (budget_EN, M): many problems at once


def not_a_solver(part: object) -> str | None:
    """What keeps ``part`` from being a solver, in a sentence; None where it is one."""
    if not isinstance(part, Solver):
        return f"{type(part).__name__} is not a zorba_core.allocation.Solver"
    if not (part.name and part.name.replace("-", "").replace("_", "").isalnum() and part.name == part.name.lower()):
        return f"its name is {part.name!r}; use lower-case letters, digits and hyphens"
    if not (part.title and part.help and callable(part.run)):
        return f"{part.name} needs a title, a help text and a function to run"
    if not part.objectives or not set(part.objectives) <= {*OBJECTIVES}:
        return f"the objectives of {part.name} are {part.objectives!r}; choose from {', '.join(OBJECTIVES)}"
    if part.most_points is not None and part.most_points < 1:
        return f"{part.name} allows {part.most_points} points in a sweep; it must be at least 1"
    return None
