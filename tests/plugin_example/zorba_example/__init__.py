"""A solver, a measure, a method with server state, an estimator and a task, as somebody else would write them.

What needs torch is in :mod:`.training`, which is imported when a run uses it: help and pages list these parts without.
"""

import numpy as np
import pandas as pd

from zorba_core.allocation import Allocation, Measure, Solver, solve
from zorba_core.data import MadeRows, Task
from zorba_core.engine import Estimator
from zorba_core.planning.methods import MethodFacts


def shuffled(problem, options):
    """The balanced matrix, with a few activated cells moved within their client at random."""
    A_MN = solve(problem).allocation.A_MN.copy()
    for client in options.rng.permutation(problem.num_clients)[: problem.num_clients // 2]:
        held, free = A_MN[:, client].nonzero()[0], (~A_MN[:, client]).nonzero()[0]
        if len(free):
            source, target = options.rng.choice(held), options.rng.choice(free)
            if A_MN[source].sum() > problem.min_popularity:
                A_MN[[source, target], client] = False, True
    return Allocation(A_MN)


def made_tickets(split):
    rng = np.random.default_rng([1, len(split)])
    label = rng.integers(2, size=200)
    first = rng.choice(["the printer", "my order", "the new phone", "your office"], size=200)
    last = np.where(label, rng.choice(["works well", "came early"], 200), rng.choice(["is broken", "came late"], 200))
    return pd.DataFrame({"ticket": [f"{a} {b}." for a, b in zip(first, last, strict=True)], "label": label})


DICE = Solver("dice", "Dice", "moves some blocks of the balanced allocation at random", shuffled, random=True)
ENTROPY = Measure(
    "entropy", "H", "entropy of the influence", lambda matrix: float(-np.log(matrix.influence_N) @ matrix.influence_N),
    ".2f", r"H = -\sum_n I_n \ln I_n", "how evenly clients weigh on the result", better="higher",
)  # fmt: skip
MOMENTUM = MethodFacts(
    "momentum", "Momentum", "the size of the block scalars carries over", 2, "scalars",
    allocates=True, keeps_state=True, code=f"{__name__}.training:Momentum",
)  # fmt: skip
CENTRAL = Estimator("central", "Central", "differences to both sides", f"{__name__}.training:central")
TICKETS = Task(
    name="tickets", title="Tickets", about="is somebody content?", label_names=("no", "yes"),
    label_words=("bad", "good"), prompt="{ticket} It was",
    rows=MadeRows(made_tickets, "tickets 1"),
)  # fmt: skip
