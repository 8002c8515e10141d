"""Our own claims: what to run at equal VRAM, what each part buys. Decided by the rules of the
plans that were committed before the runs (``artifacts/experiments/*/PLAN.md``), with the same words as the paper's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from zorba_core.errors import MissingDataError
from zorba_core.study.experiments import elsewhere, lengths, parts, predictors, what_to_run
from zorba_core.study.experiments.equivalence import equivalence
from zorba_core.study.experiments.firmness import firmness
from zorba_core.study.experiments.speed import (
    CellRounds,
    Speedup,
    cells,
    outcomes,
    rounds_by_cell,
    speed_table,
    table_of,
    to_pool,
)
from zorba_core.study.experiments.store import Results
from zorba_core.study.experiments.what_to_run import CANDIDATE, DIFFERENCES, FULL, PAPER
from zorba_core.study.ledger.claims import OURS, Claim
from zorba_core.study.ledger.predictor_rows import predictor_rows
from zorba_core.study.ledger.verdicts import (
    FEWEST_SEEDS,
    PROFILE,
    UNDECIDED,
    UNTESTED,
    command_of,
    evidence_of_plan,
    judge_alike,
)

QUARTER = 0.25
GOAL, LEAST = 2.0, 1.5  # times as fast as the paper's: the estimate, and the lower end of its interval
_SPEED_UNIT = "times as fast as the paper's to a fixed loss, at equal rounds and forward passes"
_PASSES = "at equal forward passes"
_CONDITION = f"at equal VRAM of every client and {_PASSES.removeprefix('at ')}"


class SpeedClaim(NamedTuple):
    """What is compared with the paper's ZorBA: a row of the ledger."""

    id: str
    experiment: str
    arm: str
    claim: str


COMPARED = (
    SpeedClaim("speed/gain", what_to_run.NAME, "gain", f"the gain allocation is at least as fast, {_CONDITION}"),
    SpeedClaim(
        "speed/alike",
        what_to_run.NAME,
        "gain, blocks alike",
        f"the gain allocation that knows nothing of the blocks is at least as fast, {_CONDITION}",
    ),
    SpeedClaim("speed/balanced", what_to_run.NAME, "balanced", f"balanced is at least as fast, {_CONDITION}"),
    SpeedClaim(
        "speed/lambda-exact", what_to_run.NAME, "lambda-exact", f"the lowest Lambda is at least as fast, {_CONDITION}"
    ),
    SpeedClaim(
        "speed/idle", what_to_run.NAME, "gain, idle blocks", f"gain with idle blocks is at least as fast, {_CONDITION}"
    ),
    SpeedClaim(
        "speed/adaptive",
        what_to_run.NAME,
        "adaptive",
        f"gain planned from the run's own scalars is at least as fast, {_CONDITION}",
    ),
    SpeedClaim(
        "speed/full", what_to_run.NAME, FULL, "training all blocks, at four times the blocks, is at least as fast"
    ),
    SpeedClaim("part/cosine", parts.NAME, "+ cosine", f"a cosine schedule alone is at least as fast, {_CONDITION}"),
    SpeedClaim(
        "part/normalised", parts.NAME, "+ normalised", f"a normalised step alone is at least as fast, {_CONDITION}"
    ),
    SpeedClaim("part/hiso", parts.NAME, "hiso", f"HiSo, which trains all blocks, is at least as fast, {_PASSES}"),
    SpeedClaim(
        "part/fedkseed", parts.NAME, "fedkseed", f"FedKSeed, which trains all blocks, is at least as fast, {_PASSES}"
    ),
    SpeedClaim(
        "part/meerkat", parts.NAME, "meerkat", f"MEERKAT, which computes all blocks, is at least as fast, {_PASSES}"
    ),
    SpeedClaim(
        "elsewhere/gain",
        elsewhere.NAME,
        "gain",
        f"also on other tasks, with 50 clients and with dropped blocks gain is at least as fast, {_CONDITION}",
    ),
    SpeedClaim("elsewhere/balanced", elsewhere.NAME, "balanced", f"there balanced is at least as fast, {_CONDITION}"),
    SpeedClaim(
        "elsewhere/lambda-exact",
        elsewhere.NAME,
        "lambda-exact",
        f"there the lowest Lambda is at least as fast, {_CONDITION}",
    ),
    SpeedClaim(
        "elsewhere/adaptive",
        elsewhere.NAME,
        "adaptive",
        f"there gain planned from the run's own scalars is at least as fast, {_CONDITION}",
    ),
    SpeedClaim("elsewhere/full", elsewhere.NAME, FULL, "there training all blocks is at least as fast"),
    SpeedClaim(
        "lengths/alone",
        lengths.NAME,
        "lengths",
        f"block lengths on the paper's allocation are at least as fast, {_CONDITION}",
    ),
    SpeedClaim(
        "lengths/own",
        lengths.NAME,
        "own",
        f"directions of each client's own on the paper's allocation are at least as fast, {_CONDITION}",
    ),
    SpeedClaim(
        "lengths/both",
        lengths.NAME,
        "lengths + own",
        f"both on the paper's allocation are at least as fast, {_CONDITION}",
    ),
    SpeedClaim("lengths/gain", lengths.NAME, "gain", f"the gain allocation alone is at least as fast, {_CONDITION}"),
    SpeedClaim(
        "lengths/full",
        lengths.NAME,
        "full + lengths",
        "block lengths with all blocks, at more VRAM, are at least as fast",
    ),
)
GOALS = (
    SpeedClaim(
        "goal",
        what_to_run.NAME,
        CANDIDATE,
        f"gain with idle blocks, normalised step and cosine schedule is at least twice as fast, {_CONDITION}",
    ),
    SpeedClaim(
        "goal/lengths",
        lengths.NAME,
        lengths.BEST,
        f"gain, block lengths and each client's own directions are at least twice as fast, {_CONDITION}",
    ),
    SpeedClaim(
        "goal/lengths-same-bytes",
        lengths.NAME,
        lengths.SAME_BYTES,
        f"gain and block lengths, which send no other numbers, are at least twice as fast, {_CONDITION}",
    ),
)
_STRICTER = 0.9  # of what the paper's best trial lost: a second target, where evaluations are close enough to see it
_CELLS = {
    what_to_run.NAME: what_to_run.cells_of(PROFILE),
    parts.NAME: parts.STANDARD,
    elsewhere.NAME: tuple(elsewhere.PLACES),
    lengths.NAME: what_to_run.cells_of(PROFILE),
}


def rows(results: Mapping[str, Results | None]) -> list[Claim]:
    """Every claim of ours, from the results by experiment; None where nothing of an experiment has been run."""
    speeds = {
        experiment.NAME: _Speeds.of(results.get(experiment.NAME), tuple(experiment.ARMS), least)
        for experiment, least in (
            (what_to_run, None),
            (parts, None),
            (elsewhere, elsewhere.LEAST_LOST),
            (lengths, None),
        )
    }
    of_lengths = results.get(lengths.NAME)
    stricter = None if of_lengths is None else speed_table(of_lengths, tuple(lengths.ARMS), PAPER, share=_STRICTER)
    return [
        *(_goal(goal, speeds[goal.experiment], stricter) for goal in GOALS),
        *(_faster(compared, speeds[compared.experiment]) for compared in COMPARED),
        _quarter(results.get(what_to_run.NAME)),
        _differences(results.get(what_to_run.NAME)),
        *predictor_rows(results.get(predictors.NAME)),
    ]


class _Speeds(NamedTuple):
    """Of one experiment: its table, None where nothing of it was run, and what the table was made from."""

    table: pd.DataFrame | None
    rounds: Mapping[str, Mapping[tuple[str, str], CellRounds]]

    @classmethod
    def of(cls, results: Results | None, arms: Sequence[str], least: float | None, paper: str = PAPER) -> _Speeds:
        if results is None:
            return cls(None, {})
        rounds = {arm: rounds_by_cell(results, arm, paper, least_lost=least) for arm in arms if arm != paper}
        return cls(table_of(rounds, cells(results.runs)), rounds)


def judge_speed(ratio: Speedup | None) -> str:
    """ "At least as fast": shown where the interval lies above 1, contradicted where it lies below."""
    if ratio is None or ratio.seeds < FEWEST_SEEDS:
        return UNTESTED
    return "reproduced in shape" if ratio.low > 1 else "contradicted" if ratio.high < 1 else UNDECIDED


def judge_goal(ratio: Speedup | None) -> str:
    """ "At least twice as fast": an estimate of 2 with the interval above 1.5; contradicted where it lies below 1.5."""
    if ratio is None or ratio.seeds < FEWEST_SEEDS:
        return UNTESTED
    if ratio.high < LEAST:
        return "contradicted"
    return "reproduced in shape" if ratio.low > LEAST and ratio.value >= GOAL else UNDECIDED


def ratio_of(table: pd.DataFrame | None, arm: str, model: str = "all", dataset: str = "all") -> Speedup | None:
    """The arm's ratio in a cell, or pooled over all."""
    if table is None:
        return None
    row = table[(table["arm"] == arm) & (table["model"] == model) & (table["dataset"] == dataset)]
    return None if row.empty else Speedup(**{name: row[name].iloc[0] for name in Speedup._fields})


def ratio_text(ratio: Speedup) -> str:
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f}, {ratio.seeds} pairs)"


def _cells_text(table: pd.DataFrame | None, arm: str, than: str = "the paper's") -> str:
    if table is None:
        return "no complete pair of runs yet"
    own = table[(table["arm"] == arm) & (table["model"] != "all")]
    each = [
        f"{row.model} on {row.dataset} {row.value:.2f} ({row.low:.2f} to {row.high:.2f}; reached by {row.reached} of "
        f"{row.seeds}, {than} {row.reached_by_paper}; area {row.area:+.4f} nats, {row.area_low:+.4f} to "
        f"{row.area_high:+.4f})"
        for row in own.itertuples()
    ]
    return "; ".join(each) or "no complete pair of runs yet"


def _firm_text(speeds: _Speeds, arm: str) -> str:
    """What leaving each cell out makes of the pooled ratio, and what counting late runs as later still does."""
    firm = firmness(to_pool(speeds.rounds.get(arm, {})))
    if firm is None:
        return ""
    text = f". Without one cell {firm.least:.2f} to {firm.most:.2f}"
    if firm.needs:
        each = " or ".join(f"{model} on {dataset}" for model, dataset in firm.needs)
        text += f"; another verdict without {each}"
    if firm.needs_horizon:
        later = firm.later
        text += (
            f"; {later.value:.2f} ({later.low:.2f} to {later.high:.2f}) where runs that never arrive count two horizons"
        )
    return text


def _missing_cells(table: pd.DataFrame | None, arm: str, experiment: str = what_to_run.NAME) -> str:
    wanted = {f"{model} on {dataset}" for model, dataset in _CELLS[experiment]}
    there = set() if table is None else {f"{r.model} on {r.dataset}" for r in table[table["arm"] == arm].itertuples()}
    missing = sorted(wanted - there)
    return f". Not run yet: {', '.join(missing)}" if missing else ""


def _goal(goal: SpeedClaim, speeds: _Speeds, stricter: pd.DataFrame | None) -> Claim:
    table = speeds.table
    ratio, also = ratio_of(table, goal.arm), _firm_text(speeds, goal.arm)
    if goal.experiment == lengths.NAME and ratio_of(stricter, goal.arm) is not None:
        also += f". To {_STRICTER:.0%} of that loss: {ratio_text(ratio_of(stricter, goal.arm))}"
    verdict = judge_goal(ratio)
    return Claim(
        id=OURS + goal.id,
        claim=goal.claim,
        where="ours: the goal",
        printed=GOAL,
        ours=None if ratio is None else ratio_text(ratio),
        unit=_SPEED_UNIT,
        verdict=verdict,
        how=command_of(goal.experiment),
        evidence=evidence_of_plan(goal.experiment, table, "tests/study/experiments/test_speed.py"),
        note=_cells_text(table, goal.arm) + also + _missing_cells(table, goal.arm, goal.experiment),
        counter_example=_cells_text(table, goal.arm) if verdict == "contradicted" else "",
    )


def _faster(compared: SpeedClaim, speeds: _Speeds) -> Claim:
    table = speeds.table
    ratio = ratio_of(table, compared.arm)
    verdict = judge_speed(ratio)
    return Claim(
        id=OURS + compared.id,
        claim=compared.claim,
        where=f"ours: {compared.experiment}",
        printed=None,
        ours=None if ratio is None else ratio_text(ratio),
        unit=_SPEED_UNIT,
        verdict=verdict,
        how=command_of(compared.experiment),
        evidence=evidence_of_plan(compared.experiment, table, "zorba_core.study.experiments.speed"),
        note=_cells_text(table, compared.arm)
        + _firm_text(speeds, compared.arm)
        + _missing_cells(table, compared.arm, compared.experiment),
        counter_example=_cells_text(table, compared.arm) if verdict == "contradicted" else "",
    )


def _quarter(results: Results | None) -> Claim:
    """A quarter of the blocks at the loss of all: gain against ``full`` as the others against the paper's."""
    speeds = _Speeds.of(results, ("gain",), None, FULL)
    table = speeds.table
    ratio, verdict, share = ratio_of(table, "gain"), UNTESTED, math.nan
    if ratio is not None:
        runs = results.runs[(results.runs["role"] == "measure") & (results.runs["arm"].isin(("gain", FULL)))]
        blocks = runs.groupby("arm")["T"].mean()
        share = float(blocks["gain"] / blocks[FULL])
        verdict = judge_speed(ratio)
        if share > QUARTER and verdict == "reproduced in shape":
            verdict = UNDECIDED
    note = _cells_text(table, "gain", "all blocks") + _firm_text(speeds, "gain") + _missing_cells(table, "gain")
    return Claim(
        id=f"{OURS}quarter",
        claim="the gain allocation with at most a quarter of all blocks is at least as fast as training all of them",
        where="ours: the goal",
        printed=None,
        ours=None if ratio is None else f"{ratio_text(ratio)} with {share:.0%} of the blocks",
        unit="times as fast as all blocks to a fixed loss, at equal rounds and forward passes",
        verdict=verdict,
        how=command_of(what_to_run.NAME),
        evidence=evidence_of_plan(what_to_run.NAME, table, "zorba_core.study.experiments.speed"),
        note=note,
        counter_example=note if verdict == "contradicted" else "",
    )


def _differences(results: Results | None) -> Claim:
    pairs, cell = [], ("opt-mini", "toy-reviews")
    for arm in (PAPER, "gain"):
        try:
            areas = outcomes(results, *cell, (arm, f"{arm}, {DIFFERENCES}"))["area"] if results is not None else None
        except MissingDataError:
            areas = None
        if areas is not None:
            pairs += (areas[f"{arm}, {DIFFERENCES}"] - areas[arm]).tolist()
    test = equivalence(pairs) if pairs else None
    verdict = judge_alike(test)
    return Claim(
        id=f"{OURS}differences",
        claim="runs with exact scalars learn as runs with the finite differences that clients compute",
        where="ours: the experiments' estimator",
        printed=None,
        ours=None if test is None else f"{test.value:+.4f} ({test.low:+.4f} to {test.high:+.4f}, {test.count} pairs)",
        unit="nats of area under the loss curve, differences - exact (90 % interval, margin 0.01)",
        verdict=verdict,
        how=command_of(what_to_run.NAME),
        evidence=evidence_of_plan(what_to_run.NAME, results, "zorba_core.engine.estimators.exact"),
        note="opt-mini on toy-reviews, the paper's and the gain allocation" if pairs else "no pair of runs yet",
        counter_example=f"{len(pairs)} pairs differ by more than the margin" if verdict == "contradicted" else "",
    )
