"""Whether a request can be met at all, said in one line: which constraint fails, by how much, and what to change.

Shapes: N clients. ``budget_N`` int64 whole blocks.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zorba_core.errors import InfeasibleError, InvalidInputError, in_short

MAX_BLOCKS = 10_000
MAX_CLIENTS = 10_000_000
MAX_CELLS = 250_000_000  # M * N; a million clients of a model of 96 blocks are 96 million


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


def check_feasible(
    usable_N: NDArray[np.int64],
    *,
    budget_N: NDArray[np.int64],
    num_blocks: int,
    total: int | None,
    total_mode: str,
    min_popularity: int,
    max_blocks_per_client: int | None,
) -> None:
    """Raise unless some matrix meets the request; ``usable_N`` are the budgets after the cap on blocks per client.

    The conditions are exact: when they hold, wrapping budgets of the right total around the blocks (see ``balanced``)
    gives every block ``floor(total / M) >= c_min`` clients.

    Raises:
        InfeasibleError: naming the first constraint that fails and by how much.
    """
    M, N, floor = num_blocks, len(budget_N), min_popularity
    if M > MAX_BLOCKS:
        raise InvalidInputError(f"num blocks is {M}; at most {MAX_BLOCKS} are supported")
    if M * N > MAX_CELLS:
        raise InvalidInputError(f"{M} blocks for {N} clients are {M * N} cells; at most {MAX_CELLS} are supported")
    if floor > N:
        raise InfeasibleError(
            f"min popularity {floor} asks for more clients than there are: {N} clients, {floor - N} too few"
        )
    need, budgets, usable = M * floor, int(budget_N.sum()), int(usable_N.sum())
    each = "one client" if floor == 1 else f"{floor} clients"
    if budgets < need:
        raise InfeasibleError(
            f"budgets add up to {budgets} blocks, but {M} blocks with {each} each need {need}: {need - budgets} short; "
            f"raise budgets or add clients{' or lower min popularity' if floor > 1 else ''}"
        )
    if usable < need:
        raise InfeasibleError(
            f"with at most {max_blocks_per_client} blocks per client the budgets add up to {usable}, but {M} "
            f"blocks with {each} each need {need}: {need - usable} short; raise max blocks per client"
        )
    if total is None:
        return
    if total < max(N, need):
        why = f"{N} clients with one block each" if need <= N else f"{M} blocks with {each} each"
        raise InfeasibleError(
            f"total {total} is {max(N, need) - total} short: {why} need {max(N, need)}; raise the total"
        )
    if total_mode == "eq" and total > usable:
        capped = "" if usable == budgets else f" with at most {max_blocks_per_client} per client"
        raise InfeasibleError(
            f"total {total} exceeds what the budgets{capped} allow, {usable}, by {total - usable}; lower the total or "
            "use total mode le"
        )
