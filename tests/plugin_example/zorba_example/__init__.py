"""A method with server state, an estimator and a task, as somebody else would write them. A solver: :mod:`.solvers`.

What needs torch is in :mod:`.training`, which is imported when a run uses it: help and pages list these parts without.
"""

import numpy as np
import pandas as pd

from zorba_core.data import MadeRows, Task
from zorba_core.engine import Estimator
from zorba_core.engine.methods.registry import MethodFacts


def made_tickets(split):
    rng = np.random.default_rng([1, len(split)])
    label = rng.integers(2, size=200)
    first = rng.choice(["the printer", "my order", "the new phone", "your office"], size=200)
    last = np.where(label, rng.choice(["works well", "came early"], 200), rng.choice(["is broken", "came late"], 200))
    return pd.DataFrame({"ticket": [f"{a} {b}." for a, b in zip(first, last, strict=True)], "label": label})


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
