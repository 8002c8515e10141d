"""The 3 x 3 toy of the paper's Fig. 3 in full: every feasible matrix, their classes up to the order of blocks and
clients, and the paper's observations on them, with exact fractions.

The paper's text does not contain the figure's matrices; enumeration does not need them. Permuting rows (blocks) or
columns (clients) changes neither Lambda nor V nor VRAM, so one matrix represents its class. The classes have the
letters a to q, by total of activated blocks, then Lambda.

Shapes: M blocks, N clients. ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

import functools
import itertools
import string
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import Allocation
from zorba_core.errors import InvalidInputError

MAX_CELLS = 16
Pairs = list[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class MatrixClass:
    """Matrices that differ only in the order of blocks and clients: one of them, and how many there are."""

    representative: Allocation
    count: int

    @property
    def total_blocks(self) -> int:
        return self.representative.total_blocks

    @property
    def bias_lambda(self) -> float:
        return self.representative.bias_lambda


def enumerate_classes(num_blocks: int = 3, num_clients: int = 3) -> list[MatrixClass]:
    """Every class of matrices in which each block and each client has at least one 1, ordered by total blocks, then
    Lambda. The default gives 17 classes of 265 matrices. O(2^(MN) N! M log M).

    Raises:
        InvalidInputError: more than 16 cells.
    """
    counts: dict[tuple[bool, ...], int] = {}
    for A_MN in feasible_matrices(num_blocks, num_clients):
        form = canonical_form(A_MN)
        counts[form] = counts.get(form, 0) + 1
    classes = [
        MatrixClass(Allocation(np.array(form).reshape(num_blocks, num_clients)), count)
        for form, count in counts.items()
    ]
    return sorted(classes, key=lambda c: (c.total_blocks, c.bias_lambda, c.representative.A_MN.ravel().tolist()))


def feasible_matrices(num_blocks: int, num_clients: int) -> Iterable[NDArray[np.bool_]]:
    """Every matrix in which each block and each client has at least one 1.

    Raises:
        InvalidInputError: more than 16 cells.
    """
    if num_blocks * num_clients > MAX_CELLS:
        raise InvalidInputError(f"{num_blocks} x {num_clients} has more than {MAX_CELLS} cells to enumerate")
    for cells in itertools.product((False, True), repeat=num_blocks * num_clients):
        A_MN = np.array(cells).reshape(num_blocks, num_clients)
        if A_MN.any(axis=0).all() and A_MN.any(axis=1).all():
            yield A_MN


def canonical_form(A_MN: NDArray[np.bool_]) -> tuple[bool, ...]:
    """The same cells for two matrices exactly if they differ only in the order of blocks and clients: the largest
    matrix, read row by row, over all orders of clients, with its rows in falling order. O(N! M log M)."""
    forms = []
    for order in itertools.permutations(range(A_MN.shape[1])):
        rows = sorted((tuple(row) for row in A_MN[:, order].tolist()), reverse=True)
        forms.append(tuple(itertools.chain.from_iterable(rows)))
    return max(forms)


def exact_lambda(allocation: Allocation) -> Fraction:
    """Lambda as a fraction, for an allocation in which every client has a block."""
    return sum((Fraction(1, int(c) ** 2) for c in allocation.least_popularity_N), Fraction(0))


@functools.cache
def lettered_classes() -> dict[str, MatrixClass]:
    """The 17 classes of the 3 x 3 toy, a to q."""
    classes = enumerate_classes(3, 3)
    return dict(zip(string.ascii_lowercase[: len(classes)], classes, strict=True))


@functools.cache
def class_lambdas() -> dict[str, Fraction]:
    """Lambda of each class, by letter."""
    return {letter: exact_lambda(each.representative) for letter, each in lettered_classes().items()}


@functools.cache
def single_steps() -> tuple[tuple[str, str, int], ...]:
    """All 936 ways to activate one more block in a feasible matrix: (class before, class after, sign of Lambda's
    change)."""
    value = class_lambdas()
    letter_of = {canonical_form(each.representative.A_MN): x for x, each in lettered_classes().items()}
    steps = []
    for A_MN in feasible_matrices(3, 3):
        before = letter_of[canonical_form(A_MN)]
        for m, n in np.argwhere(~A_MN):
            more_MN = A_MN.copy()
            more_MN[m, n] = True
            after = letter_of[canonical_form(more_MN)]
            steps.append((before, after, (value[after] > value[before]) - (value[after] < value[before])))
    return tuple(steps)


def uneven_pairs() -> tuple[Pairs, Pairs]:
    """Pairs (lower Lambda, higher Lambda) of classes with equal totals: those whose first class is more uneven, and
    those whose second is. A class is more uneven if it majorises the other in the blocks' popularities and in the
    clients' numbers of blocks, and the other does not."""
    classes, value = lettered_classes(), class_lambdas()
    uneven_is_lower, uneven_is_higher = [], []
    for low, high in itertools.permutations(classes, 2):
        a, b = classes[low].representative, classes[high].representative
        if a.total_blocks == b.total_blocks and value[low] < value[high] and (sign := _more_uneven(a, b)):
            (uneven_is_lower if sign > 0 else uneven_is_higher).append((low, high))
    return uneven_is_lower, uneven_is_higher


def majorises(x: Iterable[int], y: Iterable[int]) -> bool:
    """Whether x is at least as uneven as y: equal sums, and for every k the k largest of x add up to at least as
    much."""
    a, b = np.sort(list(x))[::-1].cumsum(), np.sort(list(y))[::-1].cumsum()
    return bool(a[-1] == b[-1] and (a >= b).all())


def counter_example() -> tuple[Allocation, Allocation]:
    """The smallest counter-example to Theorem 3, budgets (3, 2, 1, 1, 1, 1) and three blocks: the matrix of its rule,
    and the matrix of lowest Lambda."""
    flat = Allocation([[1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], [1, 0, 0, 0, 1, 1]])
    hub = Allocation([[1, 0, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]])
    return flat, hub


def _more_uneven(a: Allocation, b: Allocation) -> int:
    """1 if the first is more uneven, -1 if the second is, 0 if neither."""

    def over(x: Allocation, y: Allocation) -> bool:
        return majorises(x.popularity_M, y.popularity_M) and majorises(x.blocks_held_N, y.blocks_held_N)

    return over(a, b) - over(b, a)
