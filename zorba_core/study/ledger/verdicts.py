"""How runs become verdicts: paired differences, and a verdict only where there are seeds enough to tell."""

from __future__ import annotations

import pandas as pd

from zorba_core.study.experiments.equivalence import MARGIN_NATS, Equivalence, Likeness
from zorba_core.study.experiments.statistics import Mean, count_to_decide, mean_interval
from zorba_core.study.experiments.store import results_folder

FEWEST_SEEDS = 3
PROFILE = "standard"
UNTESTED = "cannot be tested here"  # nothing to decide from: no runs, or too few
UNDECIDED = "undecided"  # runs enough, and their interval allows both answers


def evidence_of(name: str) -> tuple[str, ...]:
    folder = results_folder(name, PROFILE)
    return (str(folder / "runs.parquet"), str(folder / "curves.parquet"))


def command_of(name: str) -> str:
    return f"zorba experiment {name} --profile {PROFILE}"


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


def judge(result: Mean | None, *, expect_negative: bool) -> tuple[str, str]:
    """A verdict only with three pairs or more, and only where the interval leaves out zero."""
    if result is None or result.count < FEWEST_SEEDS:
        return UNTESTED, ""
    if result.low <= 0 <= result.high:
        return UNDECIDED, ""
    agrees = (result.value < 0) == expect_negative
    return ("reproduced in shape", "") if agrees else ("contradicted", "the interval has the other sign")


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


def what_it_takes(result: Mean | None, verdict: str) -> str:
    """For a comparison of seeds that is not decided: how many would decide it, were the difference as found."""
    if verdict not in (UNTESTED, UNDECIDED):
        return ""
    needed = None if result is None else count_to_decide(result)
    if needed is None:
        return ". Undecided: more seeds"
    seeds = max(needed, FEWEST_SEEDS)
    return f". Undecided, the interval contains zero: about {seeds} seeds would decide a difference as large"
