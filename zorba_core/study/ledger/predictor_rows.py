"""Our own claims on which measure of an allocation predicts how fast a run learns: the cells of the experiment
``predictors``, by the rules of its plan and of its amendment (``artifacts/experiments/predictors/PLAN.md``)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from zorba_core.errors import MissingDataError
from zorba_core.study.experiments import predictors
from zorba_core.study.experiments.predictor_study import (
    Predicting,
    cells_with,
    differing,
    gain_between,
    predicting,
    within_matrices,
)
from zorba_core.study.experiments.statistics import Correlation
from zorba_core.study.experiments.store import Results
from zorba_core.study.ledger.claims import OURS, Claim
from zorba_core.study.ledger.verdicts import (
    FEWEST_SEEDS,
    UNDECIDED,
    UNTESTED,
    command_of,
    evidence_of_plan,
)


def predictor_rows(results: Results | None) -> list[Claim]:
    """The claims on Lambda and on the gain; untested without a cell of three complete seeds."""
    together = inside = between = None
    by_cell, inside_by_cell, differs_by_cell = {}, {}, {}
    if results is not None:
        with contextlib.suppress(MissingDataError):
            of = cells_with(results, FEWEST_SEEDS)
            together = predicting(results, of)
            by_cell = {cell: predicting(results, [cell]) for cell in of}
            inside = within_matrices(results, of)
            inside_by_cell = {cell: within_matrices(results, [cell]) for cell in of}
            differs_by_cell = {cell: differing(results, [cell]) for cell in of}
            between = gain_between(results, of)
    common = {
        "printed": None,
        "how": command_of(predictors.NAME),
        "evidence": evidence_of_plan(predictors.NAME, results, "zorba_core.study.experiments.design"),
    }
    verdict = _of_every_cell([judge_lambda(between) for between in by_cell.values()])
    others = "" if together is None else "; ".join(_predictor_text(together, name) for name in together.table.index)
    each = "; ".join(
        f"{of_cell.cells}, {of_cell.seeds} seeds: {_predictor_text(of_cell, 'log_lambda')}, {judge_lambda(of_cell)}"
        for of_cell in by_cell.values()
    )
    differ = ", ".join(f"{test.p_permuted:.2g}" for test in differs_by_cell.values())
    firm = "" if together is None else _left_out_text(together)
    each_inside = "; ".join(
        f"{model} on {dataset}: {_interval_text(within)}" for (model, dataset), within in inside_by_cell.items()
    )
    said = "no cell with three complete seeds yet"
    return [
        Claim(
            id=f"{OURS}predicts/lambda",
            claim="among allocations of one total whose measures are uncorrelated, a larger Lambda learns slower",
            where="ours: predictors",
            ours=None if together is None else _predictor_text(together, "log_lambda"),
            unit="Spearman's rho with the area under the loss curve, mean over seeds; the verdict is every cell's",
            verdict=verdict,
            note=said
            if together is None
            else f"{each}. That matrices differ at all: p = {differ}. {firm}. All cells: {others}",
            counter_example=others if verdict == "contradicted" else "",
            **common,
        ),
        Claim(
            id=f"{OURS}predicts/gain",
            claim="of one matrix, the order of blocks with the larger gain learns faster",
            where="ours: predictors",
            ours=None if inside is None else _interval_text(inside),
            unit="correlation of -log Phi with the area under the loss curve, within matrices and seeds",
            verdict=_of_every_cell([_judge_within(within) for within in inside_by_cell.values()]),
            note=(each_inside + _between_text(between)) if each_inside else said,
            counter_example=each_inside if any(within.high < 0 for within in inside_by_cell.values()) else "",
            **common,
        ),
    ]


def _left_out_text(between: Predicting) -> str:
    """The correlations of all cells without each matrix in turn, and the most that one matrix weighs in a line."""
    ranges = "; ".join(f"{name} {row['least']:+.2f} to {row['most']:+.2f}" for name, row in between.table.iterrows())
    return f"All cells without one matrix: {ranges}; largest leverage {between.table['heaviest'].max():.2f}"


def _between_text(between: Correlation | None) -> str:
    if between is None:
        return ""
    return (
        ". Thought of afterwards, between matrices (Spearman, blocks alike): "
        f"{between.value:+.2f} ({between.low:+.2f} to {between.high:+.2f})"
    )


def _of_every_cell(verdicts: Sequence[str]) -> str:
    """What all cells say; undecided where they differ."""
    return UNTESTED if not verdicts else verdicts[0] if len(set(verdicts)) == 1 else UNDECIDED


def _judge_within(within: Correlation) -> str:
    return "reproduced in shape" if within.low > 0 else "contradicted" if within.high < 0 else UNDECIDED


def _interval_text(within: Correlation) -> str:
    return f"{within.value:+.2f} ({within.low:+.2f} to {within.high:+.2f}, {within.count} runs)"


def judge_lambda(between: Predicting) -> str:
    if between.seeds < FEWEST_SEEDS:
        return UNTESTED
    own = between.table.loc["log_lambda"]
    if own["low"] > 0:
        return "reproduced in shape"
    others = between.table.drop(index="log_lambda")
    better = others[(others["low"] > 0) & (others["value"] > own["high"])]
    return "contradicted" if len(better) or own["high"] < 0 else UNDECIDED


def _predictor_text(between: Predicting, name: str) -> str:
    row = between.table.loc[name]
    return f"{name} {row['value']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"
