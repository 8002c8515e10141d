"""The 3 x 3 toy of the paper's Fig. 3, in full: every feasible matrix, and the classes that differ in more than order.

The figure's matrices are not in the text; enumeration needs none of them. Permuting rows (blocks) or columns
(clients) changes neither Lambda, V nor VRAM, so one representative stands for a class.

Shapes: M blocks, N clients, C classes. ``A_MN`` bool.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import Allocation
from zorba_core.errors import InvalidInputError

MAX_CELLS = 16


@dataclass(frozen=True, eq=False)
class MatrixClass:
    """Matrices equal up to the order of blocks and clients: one of them, and how many there are."""

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
    Lambda. The default gives 17 classes of 265 matrices. O(2^(MN) M! N!).

    Raises:
        InvalidInputError: more than 16 cells.
    """
    if num_blocks * num_clients > MAX_CELLS:
        raise InvalidInputError(f"{num_blocks} x {num_clients} has more than {MAX_CELLS} cells to enumerate")
    counts: dict[tuple[bool, ...], int] = {}
    for cells in itertools.product((False, True), repeat=num_blocks * num_clients):
        A_MN = np.array(cells).reshape(num_blocks, num_clients)
        if A_MN.any(axis=0).all() and A_MN.any(axis=1).all():
            form = canonical_form(A_MN)
            counts[form] = counts.get(form, 0) + 1
    classes = [
        MatrixClass(Allocation(np.array(form).reshape(num_blocks, num_clients)), count)
        for form, count in counts.items()
    ]
    return sorted(classes, key=lambda c: (c.total_blocks, c.bias_lambda, c.representative.A_MN.ravel().tolist()))


def canonical_form(A_MN: NDArray[np.bool_]) -> tuple[bool, ...]:
    """What two matrices share exactly if they differ only in order: the largest matrix, read row by row, over all
    orders of clients, with its rows sorted falling. O(M! N!)."""
    forms = []
    for order in itertools.permutations(range(A_MN.shape[1])):
        rows = sorted((tuple(row) for row in A_MN[:, order].tolist()), reverse=True)
        forms.append(tuple(itertools.chain.from_iterable(rows)))
    return max(forms)
