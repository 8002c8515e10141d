"""What the paper's Table II prints for communication, and which ways of counting could have given it. No torch.

Divided by clients and rounds, the printed totals are numbers per client and round: 2d for FedIT and FedZO (with d of
125 million and 1.3 billion), as their text says; 15 and 27 for DeComFL; 18 to 29 for ZorBA. :func:`matching` tries
every plausible way of counting the protocol's messages (which of them count, for each client or once for all, the seeds
and masks of the setup) with every number of directions up to ``MOST_DIRECTIONS``, and returns those that print every
cell of a method's column.

What comes out, and is tested:

- DeComFL: every fit amounts to M + 3 numbers a client and round, so it grows with the number of blocks, where the text
  has one seed, one scalar and one average whatever the model: 3. Nearest to the text is that, at Q = 1, and M flags
  which no client of DeComFL needs, since all activate every block.
- ZorBA: nothing fits at any single Q, not even where the number of different averages is left free in every cell. At
  the stated Q = 10, seeds and scalars alone are 20 numbers, and the first cell has 18; and the last cell, 28.9, is no
  whole number at all. Sharing P = 4096 seeds with 50 clients, as the text has it, is 204,800 numbers by itself, more
  than four of the six totals.

Shapes: M blocks, N clients, P shared seeds, Q directions, k blocks of a client on average, T rounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

NUM_CLIENTS, NUM_SEEDS = 50, 4096
MOST_DIRECTIONS = 50


@dataclass(frozen=True)
class PrintedCell:
    """One cell of Table II with its row of Table I."""

    model: str
    dataset: str
    num_blocks: int  # M
    parameters: float  # d
    rounds: int  # T, Table I
    total: str  # as printed, three digits
    total_blocks: int | None = None  # ZorBA's allocation, from its VRAM cell

    @property
    def per_client_round(self) -> tuple[float, float]:
        """The least and most that round to the printed total."""
        value, half = float(self.total), 0.005 * 10 ** int(self.total.split("e")[1])
        return (value - half) / (NUM_CLIENTS * self.rounds), (value + half) / (NUM_CLIENTS * self.rounds)


def _column(
    rounds: tuple[int, ...], totals: tuple[str, ...], blocks: tuple[int, ...] | None = None
) -> tuple[PrintedCell, ...]:
    models = (("OPT-125M", 12, 125e6), ("OPT-1.3B", 24, 1.3e9))
    rows = itertools.product(models, ("AG-News", "SST-2", "SNLI"))
    return tuple(
        PrintedCell(model, dataset, M, d, rounds[i], totals[i], None if blocks is None else blocks[i])
        for i, ((model, M, d), dataset) in enumerate(rows)
    )


PRINTED: Mapping[str, tuple[PrintedCell, ...]] = {
    "zorba": _column(
        (138, 167, 231, 61, 99, 157),
        ("1.24e5", "1.67e5", "2.43e5", "7.93e4", "1.34e5", "2.27e5"),
        (200, 300, 450, 375, 700, 850),
    ),
    "fedit": _column((49, 70, 112, 23, 48, 82), ("6.13e11", "8.75e11", "1.40e12", "2.99e12", "6.24e12", "1.07e13")),
    "fedzo": _column((155, 161, 255, 79, 104, 186), ("1.94e12", "2.01e12", "3.19e12", "1.03e13", "1.35e13", "2.42e13")),
    "decomfl": _column((181, 205, 246, 68, 104, 173), ("1.36e5", "1.54e5", "1.85e5", "9.18e4", "1.40e5", "2.34e5")),
}


class _Case(NamedTuple):
    Q: int
    M: int
    T: int
    k: float  # blocks of a client, on average


_Term = Callable[[_Case], float]  # numbers per client and round

# One of each group makes a convention. "once" means counted once for all clients.
SEEDS: Mapping[str, _Term] = {
    "no seeds": lambda c: 0,
    "Q seeds": lambda c: c.Q,
    "Q seeds, once": lambda c: c.Q / NUM_CLIENTS,
}
SCALARS: Mapping[str, _Term] = {
    "Q scalars": lambda c: c.Q,
    "Q + 1 losses": lambda c: c.Q + 1,
    "2 Q losses": lambda c: 2 * c.Q,
}
AVERAGES: Mapping[str, _Term] = {
    "no averages": lambda c: 0,
    "Q averages": lambda c: c.Q,
    "Q averages, once": lambda c: c.Q / NUM_CLIENTS,
    "Q averages a block": lambda c: c.Q * c.M,
    "Q averages a block, once": lambda c: c.Q * c.M / NUM_CLIENTS,
    "Q averages for each of the client's blocks": lambda c: c.Q * c.k,
    "all clients' Q scalars": lambda c: c.Q * NUM_CLIENTS,
}
MASKS: Mapping[str, _Term] = {
    "no mask": lambda c: 0,
    "M flags": lambda c: c.M,
    "2 M flags": lambda c: 2 * c.M,
    "the client's block numbers": lambda c: c.k,
    "M flags before the first round": lambda c: c.M / c.T,
    "all of A before the first round": lambda c: c.M * NUM_CLIENTS / c.T,
}
SETUPS: Mapping[str, _Term] = {
    "no shared seeds": lambda c: 0,
    "P seeds": lambda c: NUM_SEEDS / c.T,
    "P seeds, once": lambda c: NUM_SEEDS / (NUM_CLIENTS * c.T),
}
EXTRAS: Mapping[str, _Term] = {
    "nothing else": lambda c: 0,
    "the loss": lambda c: 1,
    "a round number each way": lambda c: 2,
}


@dataclass(frozen=True)
class Convention:
    """A way of counting that prints every cell of a column."""

    num_directions: int
    terms: tuple[str, ...]
    per_client_round: tuple[float, ...] = ()  # for each cell


def matching(method: str) -> tuple[Convention, ...]:
    """Every way of counting, with one Q for all six cells, whose totals round to all of the method's printed ones."""
    cells = PRINTED[method]
    bounds = [cell.per_client_round for cell in cells]
    matches = []
    groups = (SEEDS, SCALARS, AVERAGES, MASKS, SETUPS, EXTRAS)
    for Q in range(1, MOST_DIRECTIONS + 1):
        cases = [_case(cell, Q) for cell in cells]
        priced = [{name: [term(case) for case in cases] for name, term in group.items()} for group in groups]
        for names in itertools.product(*groups):
            columns = [prices[name] for prices, name in zip(priced, names, strict=True)]
            counts = [sum(prices) for prices in zip(*columns, strict=True)]
            if all(low <= count <= high for count, (low, high) in zip(counts, bounds, strict=True)):
                matches.append(Convention(Q, names, tuple(counts)))
    return tuple(matches)


def matching_any_kinds(method: str) -> tuple[Convention, ...]:
    """As :func:`matching`, where the averages sent are Q for each kind of block and how many kinds there are, from 1 to
    M, may be whatever suits in every cell: the paper does not tell its matrices."""
    cells = PRINTED[method]
    matches = []
    for Q in range(1, MOST_DIRECTIONS + 1):
        for names in itertools.product(SEEDS, SCALARS, MASKS, SETUPS, EXTRAS):
            suits = True
            for cell in cells:
                case, (low, high) = _case(cell, Q), cell.per_client_round
                parts = zip((SEEDS, SCALARS, MASKS, SETUPS, EXTRAS), names, strict=True)
                rest = sum(group[name](case) for group, name in parts)
                if not any(low <= rest + Q * kinds <= high for kinds in range(1, cell.num_blocks + 1)):
                    suits = False
                    break
            if suits:
                matches.append(Convention(Q, names))
    return tuple(matches)


def _case(cell: PrintedCell, Q: int) -> _Case:
    k = cell.num_blocks if cell.total_blocks is None else cell.total_blocks / NUM_CLIENTS
    return _Case(Q, cell.num_blocks, cell.rounds, k)
