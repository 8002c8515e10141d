"""Claims that compare methods: Table I, and who is faster.

They rest on runs of opt-mini, so none can confirm a printed round count; what they can do is show the same order, or
the opposite. Each row says how many runs it stands on; below three seeds there is no verdict. All methods get the same
horizon; rounds to the target are known between two evaluations; a lead over a method whose best rate lies on the edge
of the tried rates is no verdict, since twice the rate takes about half the rounds.
"""

from __future__ import annotations

import math

import numpy as np

from zorba_core.study.experiments.crossing import Crossing, crossing_text
from zorba_core.study.experiments.method_comparison import (
    CostRatio,
    compare_methods,
    cost_ratio,
    grid_edge,
    rates_of_trials,
)
from zorba_core.study.experiments.protocol import EASY_SHARE
from zorba_core.study.experiments.statistics import Mean
from zorba_core.study.experiments.store import Results
from zorba_core.study.ledger.claims import Claim
from zorba_core.study.ledger.findings import TABLE_1
from zorba_core.study.ledger.printed import DATASETS, METHOD_TITLES
from zorba_core.study.ledger.verdicts import UNDECIDED, UNTESTED, command_of, evidence_of, judge
from zorba_core.study.printed_communication import PRINTED, PrintedCell

_NEEDS = "OPT weights and a GPU: zorba experiment tables --profile paper"


def rows(tables: Results) -> list[Claim]:
    return [*_table_1(tables), *_faster(tables)]


def _table_1(tables: Results) -> list[Claim]:
    compared = compare_methods(tables)
    rows = {} if compared.empty else {(row.dataset, row.arm): row for row in compared.itertuples()}
    claims = []
    for method in METHOD_TITLES:
        for cell in PRINTED[method]:
            row = rows.get((DATASETS[cell.dataset], method))
            claims.append(
                Claim(
                    id=f"table-1/{cell.model.lower()}/{cell.dataset.lower()}/{method}",
                    claim=f"{METHOD_TITLES[method]} reaches the target in {cell.rounds} rounds "
                    f"({cell.model}, {cell.dataset})",
                    where="Table I",
                    printed=cell.rounds,
                    ours=None if row is None else _rounds_text(row),
                    unit="rounds; ours: opt-mini, another model and another target",
                    verdict=UNTESTED,
                    how=command_of("tables"),
                    evidence=evidence_of("tables"),
                    note=f"needs {cell.model} ({_NEEDS}). "
                    + (_no_run(cell) if row is None else f"On opt-mini: {_protocol_text(row)}"),
                    finding=TABLE_1,
                )
            )
    return claims


def _rounds_text(row) -> str:
    return (
        f"{crossing_text(Crossing(row.low, row.high))} (median, between two evaluations; {row.reached} of {row.seeds} "
        f"seeds reached {row.target:.3f} within {row.horizon} rounds)"
    )


def _protocol_text(row) -> str:
    directions = "exact gradient" if row.method == "fedit" else f"Q = {row.directions}"
    longer = f" (asked for {row.asked})" if row.asked > row.horizon else ""
    return (
        f"20 clients, batches of 2, {directions}, rate {row.lr:g} (best of 4 trials), target {EASY_SHARE:.0%} of the "
        f"first-order ceiling, {row.horizon} rounds for every method{longer}; accuracy at the end of them "
        f"{row.accuracy:.3f}" + (f". {row.edge}" if row.edge else "")
    )


def _no_run(cell: PrintedCell) -> str:
    return f"No run on {cell.dataset} of opt-mini yet either"


# (arm, row id, claim, is ZorBA said to be ahead: None where the paper says nothing, cost that is compared)
_COMPARISONS = (
    ("decomfl", "faster/decomfl", "ZorBA (Q = 10) needs fewer rounds than DeComFL (Q = 1)", True, "rounds"),
    ("decomfl", "faster/decomfl-equal-passes", "forward passes: ZorBA (Q = 10) beside DeComFL (Q = 1)", None, "passes"),
    ("decomfl-10", "faster/decomfl-equal-work", "rounds: ZorBA beside DeComFL, ten directions each", None, "rounds"),
    ("fedzo", "faster/fedzo", "ZorBA (Q = 10) needs fewer rounds than FedZO (Q = 1) in most cases", True, "rounds"),
    ("fedit", "faster/fedit", "FedIT needs the fewest rounds", False, "rounds"),
)
_METHOD = (
    "Reaching is known between two evaluations; geometric mean and 95 % interval by maximum likelihood over intervals, "
    "both methods within one horizon. Table I counts rounds alone: a round of ten directions is 11 forward passes, of "
    "one direction 2"
)
_ARM_TITLES = {
    "zorba": "ZorBA",
    "decomfl": "DeComFL (Q = 1)",
    "decomfl-10": "DeComFL (Q = 10)",
    "fedzo": "FedZO",
    "fedit": "FedIT",
}
_TITLES = {"sst2": "SST-2", "ag-news": "AG-News", "snli": "SNLI", "toy-reviews": "toy reviews"}


def _faster(tables: Results) -> list[Claim]:
    printed = [
        1 - ours.rounds / theirs.rounds for ours, theirs in zip(PRINTED["zorba"], PRINTED["decomfl"], strict=True)
    ]
    arithmetic = Claim(
        id="faster/percent",
        claim="ZorBA converges faster than DeComFL by up to 23.76 %",
        where="section V-B1",
        printed=23.76,
        ours=round(100 * max(printed), 2),
        unit="% fewer rounds, from Table I's cells",
        verdict="reproduced" if abs(100 * max(printed) - 23.76) < 0.01 else "contradicted",
        how="zorba report (from the cells of Table I)",
        evidence=("zorba_core.study.printed_communication.PRINTED",),
        note=f"the arithmetic only. By Table I's own numbers ZorBA (Q = 10, 11 passes a round) spends "
        f"{_passes_ratio():.1f} times DeComFL's (Q = 1, 2 passes) forward passes to the target, median of the six rows",
    )
    claims = [_versus(tables, *comparison) for comparison in _COMPARISONS]
    return [arithmetic, *claims]


def _passes_ratio() -> float:
    ratios = [
        11 * ours.rounds / (2 * theirs.rounds)
        for ours, theirs in zip(PRINTED["zorba"], PRINTED["decomfl"], strict=True)
    ]
    return float(np.median(ratios))


def ratio_text(ratio: Mean) -> str:
    """A ratio from its logarithm: ``2.5 times (0.96 to 7.7)``."""
    if ratio.count < 2:
        return "one pair"
    value, low, high = (math.exp(end) if end < math.inf else math.inf for end in ratio[:3])
    if not math.isfinite(value):
        return f"more than {low:.2f} times"
    end = f"{low:.2f} to {high:.2f}" if math.isfinite(high) else f"{low:.2f} or more"
    return f"{value:.2f} times ({end})"


def _versus(tables: Results, other: str, claim_id: str, claim: str, ahead: bool | None, cost: str) -> Claim:
    """Rounds or forward passes to the target, seed by seed: below 1 means that ZorBA is ahead."""
    unit = {"rounds": "rounds", "passes": "forward passes"}[cost]
    ratio = cost_ratio(tables, other, cost)
    edges = _edges(tables, other, ratio)
    verdict, counter, why = _verdict(ratio, ahead, edges, other)
    if verdict == "contradicted":
        counter = f"ZorBA takes {ratio_text(ratio.log)} the other's {unit} to the same accuracy"
    return Claim(
        id=claim_id,
        claim=claim,
        where="section V-B1; Table I" if ahead is not None else "not in the paper; beside section V-B1 and Table I",
        printed=None,
        ours=None if ratio.log is None else _ours(ratio),
        unit=f"ZorBA's {unit} to {EASY_SHARE:.0%} of the first-order ceiling over the other's (opt-mini)",
        verdict=verdict,
        how=command_of("tables"),
        evidence=(*evidence_of("tables"), "zorba_core.study.experiments.method_comparison.cost_ratio"),
        note=f"{why}{_pairs_text(ratio)}. {''.join(f'{text}. ' for text in edges.values())}"
        f"{_equal_rates(tables, other)}{_METHOD}",
        counter_example=counter,
    )


def _ours(ratio: CostRatio) -> str:
    return (
        f"{ratio_text(ratio.log)} on {', '.join(_TITLES[name] for name in ratio.datasets)}; of {ratio.log.count} pairs "
        f"of runs ZorBA surely needs less in {ratio.ahead} and more in {ratio.behind}"
    )


def _verdict(ratio: CostRatio, ahead: bool | None, edges: dict[str, str], other: str) -> tuple[str, str, str]:
    """(verdict, counter-example, the reason where a lead is no verdict)."""
    if ahead is None:
        return ("beyond the paper" if ratio.log is not None else UNTESTED), "", ""
    verdict, counter = judge(ratio.log, expect_negative=ahead)
    if verdict in (UNTESTED, UNDECIDED):
        return verdict, "", ""
    behind = other if ratio.log.value < 0 else "zorba"
    if behind in edges:
        return UNDECIDED, "", "No verdict while the best rate of the method that is behind lies on its grid's edge. "
    return verdict, counter, ""


def _edges(tables: Results, other: str, ratio: CostRatio) -> dict[str, str]:
    """By arm: on which data sets, of those that tell something, its best rate lies on the edge of its grid."""
    edges: dict[str, str] = {}
    for arm in ("zorba", other):
        texts = [
            f"{_ARM_TITLES[arm]} on {_TITLES[name]}: {edge}"
            for name in ratio.datasets
            if (edge := grid_edge(tables, name, arm)) is not None
        ]
        if texts:
            edges[arm] = ". ".join(texts)
    return edges


def _equal_rates(tables: Results, other: str) -> str:
    """For the arm with ZorBA's own rates: what the trials say at equal rates."""
    if other != "decomfl-10":
        return ""
    trials = rates_of_trials(tables, "sst2", ("zorba", other))
    by_rate = [
        f"{rate:g}: ZorBA {crossing_text(Crossing(*group.loc['zorba', ['low', 'high']]))}, DeComFL "
        f"{crossing_text(Crossing(*group.loc[other, ['low', 'high']]))}"
        for rate, group in ((rate, group.set_index("arm")) for rate, group in trials.groupby("lr"))
        if {"zorba", other} <= set(group.index)
    ]
    return f"In the trials (one seed), rounds by rate: {'; '.join(by_rate)}. " if by_rate else ""


def _pairs_text(ratio: CostRatio) -> str:
    count = 0 if ratio.log is None else ratio.log.count
    silent = ratio.pairs - count
    return f"{count} pairs of runs of one data set and seed" + (
        f"; {silent} more tell nothing, neither run arrives within the horizon" if silent else ""
    )
