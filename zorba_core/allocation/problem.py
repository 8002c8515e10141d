"""The request: budgets of whole blocks and the constraints on an activation matrix, checked to be possible.

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
MAX_CLIENTS = 10_000_000
MAX_CELLS = 250_000_000  # M * N; a million clients of a model of 96 blocks are 96 million


@dataclass(frozen=True, eq=False)
class Problem:
    """Give each client 1..budget blocks so that every block has enough clients: problem P_1 of the paper, whose
    constraints on VRAM are the budgets.

    Raises:
        InvalidInputError: a field out of range, naming the client or the field.
        InfeasibleError: no matrix can meet the request; the message names the constraint and by how much.
    """

    budget_N: NDArray[np.int64]  # most blocks of each client, 1..M
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
        _check_size(self)
        _check_feasible(self)

    @property
    def num_clients(self) -> int:
        """N."""
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


def whole_number(what: str, value: Any, least: int) -> int:
    """``value`` as an int of at least ``least``.

    Raises:
        InvalidInputError: not a whole number, or too small.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidInputError(f"{what} is {value!r}; it must be a whole number") from None
    if number < least:
        raise InvalidInputError(f"{what} is {in_short(number)}; it must be at least {least}")
    if number >= 2**62:
        raise InvalidInputError(f"{what} is {in_short(number)}; it must be below 2^62")
    return number


def whole_numbers(what: str, values_N: ArrayLike) -> NDArray[np.int64]:
    """A fresh int64 copy of one whole number per client.

    Raises:
        InvalidInputError: empty, not one-dimensional, or a value that is no whole number, naming the client.
    """
    try:
        values = np.asarray(values_N)
    except ValueError:
        values = np.empty((0, 0))
    if values.ndim != 1 or not 1 <= values.size <= MAX_CLIENTS:
        raise InvalidInputError(f"{what}s must be a list with one whole number per client (1 to {MAX_CLIENTS})")
    if values.dtype.kind in "iu":
        if (values > np.int64(2**62)).any():
            raise InvalidInputError(f"{what}s must be below 2^62")
        return values.astype(np.int64)
    if values.dtype.kind != "f":
        raise InvalidInputError(f"{what}s must be whole numbers, not {values.dtype}")
    broken = np.flatnonzero(~np.isfinite(values) | (values != np.floor(values)) | (abs(values) > 2**62))
    if broken.size:
        client = int(broken[0])
        raise InvalidInputError(
            f"client {client}: {what} is {values[client]:g}; it must be a whole number of blocks (round it down)"
        )
    return values.astype(np.int64)


def _check_size(problem: Problem) -> None:
    """
    Raises:
        InvalidInputError: a matrix that no memory holds.
    """
    M, N = problem.num_blocks, problem.num_clients
    if M > MAX_BLOCKS:
        raise InvalidInputError(f"num blocks is {M}; at most {MAX_BLOCKS} are supported")
    if M * N > MAX_CELLS:
        raise InvalidInputError(f"{M} blocks for {N} clients are {M * N} cells; at most {MAX_CELLS} are supported")


def _check_feasible(problem: Problem) -> None:
    """Raise unless some matrix meets the request.

    The conditions are exact: when they hold, wrapping budgets of the right total around the blocks (see
    ``solvers.balanced``) gives every block ``floor(total / M) >= c_min`` clients.

    Raises:
        InfeasibleError: naming the first constraint that fails and by how much.
    """
    M, N, floor, total = problem.num_blocks, problem.num_clients, problem.min_popularity, problem.total
    if floor > N:
        raise InfeasibleError(
            f"min popularity {floor} asks for more clients than there are: {N} clients, {floor - N} too few"
        )
    need, budgets, usable = M * floor, int(problem.budget_N.sum()), int(problem.usable_N.sum())
    each = "one client" if floor == 1 else f"{floor} clients"
    if budgets < need:
        raise InfeasibleError(
            f"budgets add up to {budgets} blocks, but {M} blocks with {each} each need {need}: {need - budgets} short; "
            f"raise budgets or add clients{' or lower min popularity' if floor > 1 else ''}"
        )
    if usable < need:
        raise InfeasibleError(
            f"with at most {problem.max_blocks_per_client} blocks per client the budgets add up to {usable}, but {M} "
            f"blocks with {each} each need {need}: {need - usable} short; raise max blocks per client"
        )
    if total is None:
        return
    if total < max(N, need):
        why = f"{N} clients with one block each" if need <= N else f"{M} blocks with {each} each"
        raise InfeasibleError(
            f"total {total} is {max(N, need) - total} short: {why} need {max(N, need)}; raise the total"
        )
    if problem.total_mode == "eq" and total > usable:
        capped = "" if usable == budgets else f" with at most {problem.max_blocks_per_client} per client"
        raise InfeasibleError(
            f"total {total} exceeds what the budgets{capped} allow, {usable}, by {total - usable}; lower the total or "
            "use total mode le"
        )
