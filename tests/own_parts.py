"""Parts from outside, as somebody else would write them."""

from __future__ import annotations

import numpy as np

from zorba_core.allocation import Allocation, AllocationProblem, Measure, Solver, SolverOptions, solve


def shuffled(problem: AllocationProblem, options: SolverOptions) -> Allocation:
    """The balanced matrix, with a few activated cells moved within their client at random."""
    A_MN = solve(problem).allocation.A_MN.copy()
    for client in options.rng.permutation(problem.num_clients)[: problem.num_clients // 2]:
        held, free = A_MN[:, client].nonzero()[0], (~A_MN[:, client]).nonzero()[0]
        if len(free):
            source, target = options.rng.choice(held), options.rng.choice(free)
            if A_MN[source].sum() > problem.min_popularity:
                A_MN[[source, target], client] = False, True
    return Allocation(A_MN)


DICE = Solver("dice", "Dice", "moves some blocks of the balanced allocation at random", shuffled, random=True)
ENTROPY = Measure(
    "entropy", "H", "entropy of the influence",
    lambda found: float(-(found.influence_N * np.log(found.influence_N)).sum()),
    ".2f", r"H = -\sum_n I_n \ln I_n", "how evenly clients weigh on the result", better="higher",
)  # fmt: skip
