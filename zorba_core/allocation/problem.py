"""The allocation problem: budgets of whole blocks, constraints on the activation matrix, and a check of feasibility.

Shapes: M blocks, N clients. ``budget_N`` int64, whole blocks (the paper's lambda_n*, rounded down).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zorba_core.errors import InfeasibleError, InvalidInputError, in_short, name_some

TotalMode = Literal["le", "eq"]

MAX_BLOCKS = 10_000
MAX_CELLS = 250_000_000  # limit of M * N, for comparison: 96 million with a million clients and 96 blocks


@dataclass(frozen=True, eq=False)
class Problem:
    """Give each client 1..budget blocks so that every block has enough clients: constraints (7b) and (7c) of the
    paper's problem P_1, with budgets in place of VRAM.

    Raises:
        InvalidInputError: a field is out of range; the message has the client or the field.
        InfeasibleError: no matrix meets the request; the message has the constraint and the missing amount.
    """

    budget_N: NDArray[np.int64]  # most blocks of each client, 1..M
    num_blocks: int  # M
    total: int | None = None  # T, number of activated blocks over all clients
    total_mode: TotalMode = "le"  # le: at most T; eq: exactly T
    min_popularity: int = 1  # least number of clients of every block
    max_blocks_per_client: int | None = None  # another limit, the same for all clients

    def __post_init__(self) -> None:
        for name in ("num_blocks", "total", "min_popularity", "max_blocks_per_client"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole_number(name.replace("_", " "), value, 1))
        if self.total_mode not in ("le", "eq"):
            raise InvalidInputError(f"total mode is {self.total_mode!r}; choose le (at most) or eq (exactly)")
        if self.total_mode == "eq" and self.total is None:
            raise InvalidInputError("total mode eq needs a total; give the total, or use le")
        budget_N = whole_budgets(self.budget_N)
        M, N = self.num_blocks, len(budget_N)
        if M > MAX_BLOCKS or M * N > MAX_CELLS:
            raise InvalidInputError(
                f"{in_short(M)} blocks for {N} clients are too many; at most {MAX_BLOCKS} blocks and {MAX_CELLS} cells "
                "are supported"
            )
        outside = np.flatnonzero((budget_N < 1) | (budget_N > M))
        if outside.size:
            shown = name_some([f"client {n} has {budget_N[n]}" for n in outside[:6]])
            raise InvalidInputError(f"budgets must be between 1 and M = {M} blocks: {shown}")
        budget_N.setflags(write=False)
        object.__setattr__(self, "budget_N", budget_N)
        _check_feasible(self)

    @property
    def num_clients(self) -> int:
        """N."""
        return len(self.budget_N)

    @cached_property
    def usable_N(self) -> NDArray[np.int64]:
        """Budgets limited by ``max_blocks_per_client``."""
        usable_N = np.minimum(self.budget_N, min(self.max_blocks_per_client or self.num_blocks, self.num_blocks))
        usable_N.setflags(write=False)
        return usable_N

    @cached_property
    def by_falling_budget_N(self) -> NDArray[np.int64]:
        """Clients from the largest usable budget to the smallest; those with equal budgets stay in their order."""
        return np.argsort((-self.usable_N).astype(np.int16), kind="stable")  # a radix sort; M is below 2**15

    @property
    def most_blocks(self) -> int:
        """The largest total that budgets and T allow."""
        usable = int(self.usable_N.sum())
        return usable if self.total is None else min(usable, self.total)


def whole_number(what: str, value: Any, least: int) -> int:
    """``value`` as an int of at least ``least``.

    Raises:
        InvalidInputError: the value is not a whole number, or too small.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidInputError(f"{what} is {value!r}; it must be a whole number") from None
    if number < least:
        raise InvalidInputError(f"{what} is {in_short(number)}; it must be at least {least}")
    return number


def whole_budgets(values_N: ArrayLike) -> NDArray[np.int64]:
    """A new int64 array of one whole number per client.

    Raises:
        InvalidInputError: the values are empty, not one-dimensional or not whole numbers; the message has the client.
    """
    try:
        values = np.asarray(values_N)
    except ValueError:  # lists of different lengths
        values = np.empty((0, 0))
    if values.ndim != 1 or not values.size:
        raise InvalidInputError("budgets must be a list with one whole number per client")
    if values.dtype.kind not in "iuf":
        raise InvalidInputError(f"budgets must be whole numbers below 2^63, not {values.dtype}")
    broken = np.flatnonzero((values != np.floor(values)) | (np.abs(values) >= 2.0**62))
    if broken.size:
        client = int(broken[0])
        raise InvalidInputError(
            f"client {client}: budget is {values[client]:g}; it must be a whole number of blocks (round it down)"
        )
    return values.astype(np.int64)


def _check_feasible(problem: Problem) -> None:
    """Check that some matrix meets the request.

    The conditions are necessary and sufficient: if they hold, the balanced solver gives every block
    ``floor(total / M) >= c_min`` clients.

    Raises:
        InfeasibleError: the first constraint that fails, and the missing amount.
    """
    M, N, floor, total = problem.num_blocks, problem.num_clients, problem.min_popularity, problem.total
    if floor > N:
        raise InfeasibleError(
            f"min popularity {floor} needs more clients than there are: {N} clients, {floor - N} too few"
        )
    need, usable, budgets = M * floor, int(problem.usable_N.sum()), int(problem.budget_N.sum())
    capped = "" if usable == budgets else f" with at most {problem.max_blocks_per_client} blocks per client"
    if budgets < need:  # the budgets are too small even without the cap
        usable, capped = budgets, ""
    each = "one client" if floor == 1 else f"{floor} clients"
    if usable < need:
        raise InfeasibleError(
            f"budgets{capped} add up to {usable} blocks, but {M} blocks with {each} each need {need}: "
            f"{need - usable} short; raise {'max blocks per client' if capped else 'budgets or add clients'}"
        )
    if total is not None and total < max(N, need):
        why = f"{N} clients with one block each" if need <= N else f"{M} blocks with {each} each"
        raise InfeasibleError(
            f"total {total} is {max(N, need) - total} short: {why} need {max(N, need)}; raise the total"
        )
    if total is not None and problem.total_mode == "eq" and total > usable:
        raise InfeasibleError(
            f"total {total} exceeds what the budgets{capped} allow, {usable}, by {total - usable}; lower the total or "
            "use total mode le"
        )


def parse_budgets(text: str) -> NDArray[np.int64]:
    """Parse ``"11,9,3"``; spaces or semicolons may take the place of commas.

    Raises:
        InvalidInputError: a part is not a whole number.
    """
    numbers = []
    for client, part in enumerate(text.replace(",", " ").replace(";", " ").split()):
        try:
            numbers.append(int(part))
        except ValueError:
            raise InvalidInputError(
                f"client {client}: budget is {part!r}; it must be a whole number of blocks, such as 4 (for sizes "
                "in GiB there is --fleet)"
            ) from None
        if abs(numbers[-1]) >= 2**62:
            raise InvalidInputError(f"client {client}: budget {part} is out of range")
    if not numbers:
        raise InvalidInputError("--budgets is empty; give whole numbers such as 11,9,3")
    return np.array(numbers, np.int64)
