"""A solver, a method with server state, an estimator and a task, as somebody else would write them.

What needs torch is in :mod:`.training`, which is imported when a run uses it: help and pages list these parts without.
"""

import pandas as pd

from zorba_core.allocation import Allocation, solve, solver
from zorba_core.data import MadeRows, Task
from zorba_core.engine import Estimator
from zorba_core.engine.parts import MethodFacts


@solver("dice", help="the balanced allocation with its blocks in a random order")
def dice(problem, options):
    return Allocation(solve(problem).allocation.A_MN[options.rng.permutation(problem.num_blocks)])


def made_tickets(split):
    """Each thing came in good or bad shape; the two splits differ in the things."""
    things = ["the printer", "my order"] if split == "federated" else ["your office", "the phone"]
    rows = [(f"{thing} {end}.", label) for thing in things for label, end in enumerate(("is broken", "works well"))]
    return pd.DataFrame(rows * 50, columns=["ticket", "label"])


MOMENTUM = MethodFacts(
    "momentum", "Momentum", "the size of the block scalars carries over", 2, "scalars",
    allocates=True, code=f"{__name__}.training:Momentum",
)  # fmt: skip
CENTRAL = Estimator("central", "Central", "differences to both sides", f"{__name__}.training:central")
TICKETS = Task(
    name="tickets", about="is somebody content?", label_names=("no", "yes"), label_words=("bad", "good"),
    prompt="{ticket} It was", rows=MadeRows(made_tickets, "tickets 1"),
)  # fmt: skip
