"""Each measure against its formula, written out here."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.allocation import Allocation, solve
from zorba_core.allocation.problem import Problem

MATRICES = {
    "by hand": [[1, 1, 0, 1], [0, 1, 1, 0], [0, 0, 1, 1]],
    "full": np.ones((4, 6)),
    "starved": [[1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]],
    "balanced": solve(Problem([5, 4, 3, 2, 2, 1], 6)).allocation.A_MN,
}


def counts(A_MN):
    """(block, client) of each activated cell, clients per block, blocks per client."""
    cells = [(m, n) for m in range(len(A_MN)) for n in range(len(A_MN[0])) if A_MN[m][n]]
    return cells, [sum(row) for row in A_MN], [sum(column) for column in zip(*A_MN, strict=True)]


def scarcest(A_MN):
    cells, c, _ = counts(A_MN)
    return [min(c[m] for m, other in cells if other == n) for n in range(len(A_MN[0]))]


def weights(A_MN):
    cells, c, _ = counts(A_MN)
    return [sum(1 / c[m] for m, other in cells if other == n) / len(A_MN) for n in range(len(A_MN[0]))]


FORMULAS = {
    "bias_lambda": lambda A: sum(1 / least**2 for least in scarcest(A)),
    "mean_inverse_popularity": lambda A: sum(1 / count for count in counts(A)[1]) / len(A),
    "effective_clients": lambda A: 1 / sum(weight**2 for weight in weights(A)),
    "largest_influence": lambda A: max(weights(A)),
    "min_popularity": lambda A: min(counts(A)[1]),
    "total_blocks": lambda A: len(counts(A)[0]),
}


def test_a_measure_is_its_formula(subtests):
    for name in FORMULAS:
        for matrix in MATRICES:
            with subtests.test(name=name, matrix=matrix):
                A_MN = np.array(MATRICES[matrix], bool)
                expected = FORMULAS[name](A_MN.astype(int).tolist())
                assert getattr(Allocation(A_MN), name) == pytest.approx(expected, rel=1e-12)
