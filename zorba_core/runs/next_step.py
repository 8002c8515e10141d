"""What a run that missed its target suggests to try next, from its own evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from zorba_core.runs.folder import Run

_FEWEST = 4  # evaluations, the one before the first round included
_PART = 0.1  # of all that the loss fell by: less than that is called nothing


def next_step(run: Run) -> str | None:
    """One sentence; None where the target was reached, or where there is too little to tell from.

    Only what the losses show is said: a loss that ends above its start or well above its lowest value asks for a
    smaller rate, one that still falls in the last third for more rounds, and few blocks are named as what may be added.
    """
    summary = run.summary
    losses = run.evaluations["eval_loss"].to_numpy(float)
    if summary["rounds_to_target"] is not None or len(losses) < _FEWEST or not np.isfinite(losses).all():
        return None
    fell, least = losses[0] - losses.min(), _PART * (losses[0] - losses.min())
    constant = run.config.get("schedule", "constant") == "constant"
    if losses[-1] >= losses[0]:
        return "the loss did not fall: zorba tune finds a rate"
    if losses[-1] - losses.min() > 2 * least:
        remedy = "--schedule cosine, or zorba tune for a rate" if constant else "zorba tune for a smaller rate"
        return f"the loss rose again after round {_round_of_lowest(run)}: {remedy}"
    advice = []
    if losses[-max(2, len(losses) // 3) - 1] - losses[-1] > 2 * least and fell > 0:
        advice.append(f"the loss was still falling: more rounds (--rounds {2 * summary['rounds_done']})")
    of_all = run.config["num_clients"] * run.config["num_blocks"]
    if 2 * summary["total_blocks"] < of_all:
        advice.append(
            f"{summary['total_blocks']} of {of_all} blocks are activated: where memory allows, more (--budgets)"
        )
    if advice:
        return "; ".join(advice)
    if not constant:  # at the end of such a run every loss settles
        return (
            f"the loss settled as the {run.config['schedule']} schedule took the rate to zero: more rounds (--rounds "
            f"{2 * summary['rounds_done']}), or zorba tune for a larger rate"
        )
    return "the loss has settled: zorba tune for another rate, or other words to answer with"


def _round_of_lowest(run: Run) -> int:
    evaluations = run.evaluations
    return int(evaluations["round"].iloc[int(evaluations["eval_loss"].to_numpy(float).argmin())])
