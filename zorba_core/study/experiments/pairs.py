"""Paired differences of the first series of runs, and a verdict only where there are seeds enough."""

from __future__ import annotations

import math

import pandas as pd

from zorba_core.study.experiments.equivalence import MARGIN_NATS, Equivalence, Likeness
from zorba_core.study.experiments.statistics import Mean, mean_interval

FEWEST_SEEDS = 3
UNTESTED = "cannot be tested here"  # nothing to decide from: no runs, or too few
UNDECIDED = "undecided"  # runs enough, and their interval allows both answers


def paired(runs: pd.DataFrame, first: str, second: str, column: str) -> Mean | None:
    """Mean of first - second over the seeds and datasets that both have finished; None when there is none."""
    difference = paired_differences(runs, first, second, column)
    return mean_interval(difference) if len(difference) else None


def paired_differences(runs: pd.DataFrame, first: str, second: str, column: str) -> pd.Series:
    """first - second of each dataset and seed that both arms have finished."""
    pivot = runs[runs["status"] == "finished"].pivot_table(
        index=["dataset", "seed"], columns="arm", values=column, aggfunc="first"
    )
    if not {first, second} <= set(pivot.columns):
        return pd.Series(dtype=float)
    return (pivot[first] - pivot[second]).dropna()


def judge_slower(result: Mean | None, margin: float = MARGIN_NATS) -> str:
    """Verdict on "the first is slower": reproduced where the interval shows it, contradicted where it excludes a
    slowdown as large as the margin."""
    if result is None or result.count < FEWEST_SEEDS:
        return UNTESTED
    if result.low > 0:
        return "reproduced in shape"
    return "contradicted" if result.high < margin else UNDECIDED


def judge_alike(result: Equivalence | None) -> str:
    """Verdict on "they are alike": an interval that contains zero is not enough, it must lie within the margin."""
    if result is None or result.count < FEWEST_SEEDS:
        return UNTESTED
    return {Likeness.ALIKE: "reproduced in shape", Likeness.APART: "contradicted"}.get(result.likeness, UNDECIDED)


def interval_text(result: Mean) -> str:
    if result.count < 2:
        return f"{result.value:+.4f} (one seed)"
    return f"{result.value:+.4f} ({result.low:+.4f} to {result.high:+.4f}, {result.count} pairs)"


def ratio_text(ratio: Mean) -> str:
    """A ratio from its logarithm: ``2.5 times (0.96 to 7.7)``."""
    if ratio.count < 2:
        return "one pair"
    value, low, high = (math.exp(end) if end < math.inf else math.inf for end in ratio[:3])
    if not math.isfinite(value):
        return f"more than {low:.2f} times"
    end = f"{low:.2f} to {high:.2f}" if math.isfinite(high) else f"{low:.2f} or more"
    return f"{value:.2f} times ({end})"
