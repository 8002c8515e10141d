"""Who takes part: N seats, each with its own rows, and the plan for the occupied ones.

A seat is a place for one client, fixed when the run is set up; its number decides which rows and which random batches
are its own. Clients come and go, so a seat may be empty: its column of the plan has no blocks and it gets no task.
An address is the transport's name for a connection; a client that restarts comes back under another one.

Shapes: M blocks, N seats.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from zorba_core.allocation import Allocation, Problem, solve
from zorba_core.errors import InfeasibleError

Address = Hashable


@dataclass(frozen=True)
class Member:
    """A client that registered."""

    address: Address
    seat: int
    budget: int  # whole blocks, 1..M
    round: int  # the last known round of its replica
    missed: int = 0  # rounds in a row without a usable answer


class Members:
    """The members by address; at most one to a seat."""

    def __init__(self, num_seats: int) -> None:
        self.num_seats = num_seats
        self._by_address: dict[Address, Member] = {}

    def __iter__(self):
        return iter(sorted(self._by_address.values(), key=lambda member: member.seat))

    def __len__(self) -> int:
        return len(self._by_address)

    def __contains__(self, address: Address) -> bool:
        return address in self._by_address

    def __getitem__(self, address: Address) -> Member:
        return self._by_address[address]

    def at(self, seat: int) -> Member | None:
        return next((member for member in self._by_address.values() if member.seat == seat), None)

    def add(self, member: Member) -> None:
        self._by_address[member.address] = member

    def remove(self, address: Address) -> Member:
        return self._by_address.pop(address)

    def update(self, address: Address, **changes: int) -> None:
        self._by_address[address] = replace(self._by_address[address], **changes)

    @property
    def budget_by_seat(self) -> dict[int, int]:
        return {member.seat: member.budget for member in self}


@dataclass(frozen=True, eq=False)
class Plan:
    """Who trains what. ``reason`` says why it was made, ``shortage`` what it could not do (empty: nothing)."""

    allocation: Allocation  # N columns; those of empty seats have no block
    budget_by_seat: Mapping[int, int]
    reason: str
    shortage: str = ""

    def blocks(self, seat: int) -> tuple[int, ...]:
        return tuple(self.allocation.blocks_per_client[seat])

    def describe(self) -> dict:
        """Plain JSON for the log."""
        return {
            "budgets": {str(seat): budget for seat, budget in self.budget_by_seat.items()},
            "blocks_per_client": self.allocation.blocks_per_client,
            "reason": self.reason,
            "shortage": self.shortage,
        }


def make_plan(
    budget_by_seat: Mapping[int, int],
    num_blocks: int,
    num_seats: int,
    solver: str,
    reason: str,
    before: Plan | None,
    allocates: bool = True,
) -> Plan:
    """Solve the allocation for the registered clients; with a method that does not allocate, each gets every block.

    Where they cannot cover every block between them, a run that has a plan continues with a partial one: the old
    columns of the clients still present, and full budgets, wrapped around, for the others. Blocks that nobody holds
    keep their weights.

    Raises:
        InfeasibleError: they cannot cover every block and there is no plan to fall back on, or no client is registered.
    """
    seats = sorted(budget_by_seat)
    if not seats:
        raise InfeasibleError("no client is registered, so there is nothing to plan")
    A_MN, shortage = np.zeros((num_blocks, num_seats), dtype=bool), ""
    budgets = [budget_by_seat[seat] for seat in seats]
    if not allocates:
        A_MN[:, seats] = True
        return Plan(Allocation(A_MN), dict(zip(seats, budgets, strict=True)), reason)
    try:
        problem = Problem(budgets, num_blocks)
        A_MN[:, seats] = solve(problem, solver).allocation.A_MN
    except InfeasibleError as error:
        if before is None:
            raise
        shortage = str(error)
        free = 0
        for seat, budget in zip(seats, budgets, strict=True):
            kept_M = before.allocation.A_MN[:, seat]
            if kept_M.any() and kept_M.sum() <= budget:
                A_MN[:, seat] = kept_M
            else:
                A_MN[(free + np.arange(budget)) % num_blocks, seat] = True
                free += budget
    return Plan(Allocation(A_MN), dict(zip(seats, budgets, strict=True)), reason, shortage)


def plan_from_note(content: Mapping, num_blocks: int) -> Plan:
    """The plan that :meth:`Plan.describe` wrote down."""
    budgets = {int(seat): int(budget) for seat, budget in content["budgets"].items()}
    allocation = Allocation.from_blocks(content["blocks_per_client"], num_blocks)
    return Plan(allocation, budgets, content["reason"], content["shortage"])
