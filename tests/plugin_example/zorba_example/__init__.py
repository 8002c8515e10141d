"""A solver, a method with server state, an average, an estimator and a task, as somebody else would write them."""

import pandas as pd

from zorba_core.allocation import Allocation, solve, solver
from zorba_core.data import MadeRows, Task
from zorba_core.engine import Average, Estimator, per_block

from .momentum import Momentum


@solver("dice", help="the balanced allocation with its blocks in a random order")
def dice(problem, options):
    return Allocation(solve(problem).allocation.A_MN[options.rng.permutation(problem.num_blocks)])


def made_tickets(split):
    """Each thing came in good or bad shape; the two splits differ in the things."""
    things = ["the printer", "my order"] if split == "federated" else ["your office", "the phone"]
    rows = [(f"{thing} {end}.", label) for thing in things for label, end in enumerate(("is broken", "works well"))]
    return pd.DataFrame(rows * 50, columns=["ticket", "label"])


def midway(rho_KQ, trim):
    return (rho_KQ.min(axis=0) + rho_KQ.max(axis=0)) / 2


MOMENTUM = Momentum()
MIDWAY = Average("midway", "Midway", "between the smallest and the largest", per_block(midway))
CENTRAL = Estimator("central", "Central", "differences to both sides", f"{__name__}.central:central")
TICKETS = Task(
    name="tickets", about="is somebody content?", label_names=("no", "yes"), label_words=("bad", "good"),
    prompt="{ticket} It was", rows=MadeRows(made_tickets, "tickets 1"),
)  # fmt: skip
