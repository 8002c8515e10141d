"""Claims that training runs decide, from the tables of ``sweep.py``, by the rule of ``artifacts/experiments/PLAN.md``
(:mod:`notebooks.reproduction.readings`). Without its table a claim is undecided.

A claim reads as the cells (a base model with a task) that decide; the others stand in the note, with the seeds and
hours that would decide them. If deciding cells disagree, it is "not seen". An effect that small models do not show is
"not seen", never "contradicted".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy import stats

from notebooks.reproduction import statistics as st
from notebooks.reproduction.claims_theory import dropped_update, printed_step
from notebooks.reproduction.frames import groups, where
from notebooks.reproduction.matrices import family
from notebooks.reproduction.outcome import Decision, Verdict, claim
from notebooks.reproduction.plans import MARGIN
from notebooks.reproduction.readings import (
    FEWEST_SEEDS,
    Reading,
    all_runs,
    by_cost,
    by_loss,
    cell_name,
    lowest_lambda,
    needed,
    placebo_cells,
    runs,
)
from notebooks.reproduction.sweep import COMMAND
from zorba_core.errors import MissingDataError

CONTROLS = 0.5  # a rank correlation below it is no control of convergence


def _decided(readings: list[Reading], wanted: int, what: str) -> Decision:
    """The verdict of cells by the sign that the claim asks for; the text has the first deciding cell, the note the
    others."""
    deciding = [each for each in readings if each.sign is not None]
    first = (deciding or readings)[0]
    agree = sum(each.sign == wanted for each in deciding)
    verdict = Verdict.UNDECIDED
    if deciding:
        verdict = Verdict.IN_SHAPE if agree == len(deciding) else Verdict.NOT_SEEN
    text = "; ".join(filter(None, [f"{what}: {first}", first.conclusion if deciding else ""]))
    others = [_in_note(each) for each in readings if each is not first]
    open_cells = [each.wanted for each in readings if each.sign is None]
    notes = [f"Other cells: {'; '.join(others)}."] if others else []
    notes += [f"What would decide: {'; '.join(open_cells)}."] if open_cells else []
    return verdict, text, " ".join(notes)


def _in_note(reading: Reading) -> str:
    return f"{reading}{f', {reading.conclusion}' if reading.conclusion else ''}"


# --- who is faster ---------------------------------------------------------------------------------------


@claim("faster/fedit", "Table I", "FedIT needs the fewest rounds.", other="fedit", wanted=1)
@claim("faster/fedzo", "V-B1", "Fewer rounds than FedZO in most cases.", other="fedzo")
@claim(
    "faster/decomfl-10", "not in the paper", "Fewer rounds than DeComFL with ten directions too.", other="decomfl-10"
)
@claim("faster/decomfl-passes", "not in the paper", "Fewer forward passes than DeComFL (Q = 1).", cost="forward_passes")
@claim("faster/decomfl", "V-B1", "Fewer rounds than DeComFL (Q = 1).")
def faster(checkout: Path, other: str = "decomfl", cost: str = "round", wanted: int = -1) -> Decision:
    """ZorBA's cost to reach the plan's target loss over the other method's; ratios within 1.2 count as alike."""
    readings = needed(by_cost(runs(checkout, "methods"), "zorba", other, cost), "methods")
    return _decided(readings, wanted, f"ZorBA's {'rounds' if cost == 'round' else 'forward passes'} over the other's")


@claim("placebo/coverage", "not in the paper", "Placebos differ from their originals by chance alone.")
def placebo(checkout: Path) -> Decision:
    """95 % intervals of the late loss of each placebo minus that of the arm that it repeats, one for each cell with at
    least three seeds. Binomial test that 95 % of them contain 0."""
    cells = placebo_cells(all_runs(checkout))
    if len(cells) < 3:
        raise MissingDataError(COMMAND)
    inside = sum(cell.low <= 0 <= cell.high for cell in cells)
    largest = max(abs(cell.value) for cell in cells)
    chance = float(stats.binom.cdf(inside, len(cells), 0.95))
    return (
        Verdict.REPRODUCED if chance > 0.05 else Verdict.CONTRADICTED,
        f"{inside} of {len(cells)} intervals contain 0; largest mean difference {largest:.3f} nats",
        f"So few or fewer have a probability of {chance:.2f} if 95 % are right.",
    )


# --- allocations -----------------------------------------------------------------------------------------


@claim("fig-4b/sc1-sc2", "Fig. 4(b); V-B4", "SC1 converges like SC2, with less VRAM.", arm="SC1", wanted=0)
@claim("fig-4b/sc3", "Fig. 4(b); V-B4", "SC3 needs more rounds than SC2.", arm="SC3", wanted=1)
def scenarios_apart(checkout: Path, arm: str, wanted: int) -> Decision:
    """Late loss; differences within 0.02 nats count as alike. Each arm has its own rate."""
    table = runs(checkout, "scenarios")
    decision = _decided(needed(by_loss(table, arm, "SC2"), "scenarios"), wanted, f"late loss, {arm} minus SC2")
    rounds = "; ".join(map(_in_note, by_cost(table, arm, "SC2")))
    return *decision[:2], " ".join(filter(None, [*decision[2:], f"Ratio of rounds: {rounds}." if rounds else ""]))


@claim("observation-1/training", "Observation 1", "Convergence is best when all clients activate all blocks.")
def all_blocks_best(checkout: Path) -> Decision:
    """All 12 blocks on every client against a balanced 4. Each arm has its own rate."""
    readings = by_loss(runs(checkout, "shares"), "all blocks", "a third")
    return _decided(needed(readings, "shares"), -1, "late loss, all blocks minus a third")


@claim("proposition-1/training", "Proposition 1", "Matrices with one multiset of least popularities converge alike.")
def same_lambda_same_speed(checkout: Path) -> Decision:
    """A single client trains the scarce blocks. Both matrices have Lambda 1.0475; V is 0.92 and 0.13."""
    readings = by_loss(runs(checkout, "allocations"), "eleven scarce", "one scarce")
    return _decided(needed(readings, "allocations"), 0, "late loss, eleven scarce blocks minus one")


@claim("proposition-1/position", "Proposition 1", "It does not matter which blocks are trained.")
def which_blocks(checkout: Path) -> Decision:
    """In each arm all clients train the same blocks. Lambda, V, E and T are equal. Each arm has its own rate."""
    readings = by_loss(runs(checkout, "shares"), "last", "first")
    return _decided(needed(readings, "shares"), 0, "late loss, last blocks minus first")


@claim("blocks/covering", "not in the paper", "Covering all blocks beats the same few everywhere.")
def covering(checkout: Path) -> Decision:
    """Each client trains four blocks: in one arm they cover all blocks evenly, in the others all clients have the same
    four (first, last, spread). T is equal. Each arm has its own rate."""
    table = runs(checkout, "shares")
    readings = {arm: by_loss(table, arm, "a third") for arm in ("last", "first", "spread")}
    every = needed([each for cells in readings.values() for each in cells], "shares")
    verdict, text, *notes = _decided(every, 1, "late loss, the same four (last) minus covering")
    means = "; ".join(f"{arm} {each}" for arm, cells in readings.items() for each in cells)
    return verdict, text, f"{means}. {notes[0].partition('What would')[1]}{notes[0].partition('What would')[2]}".strip()


@claim("lambda/lowest", "(P1)", "The allocation of the lowest Lambda trains best.")
def lowest_is_best(checkout: Path) -> Decision:
    """Against the even one of the same total, at one rate."""
    return _decided(needed(lowest_lambda(checkout), "allocations"), -1, "late loss, lowest Lambda minus even")


@claim("lambda/ranks", "Remark 1", "What controls convergence is Lambda, not the total of blocks.")
def lambda_ranks(checkout: Path) -> Decision:
    """Spearman's rank correlation of Lambda with late loss over allocations of one total. The interval resamples
    allocations and seeds. All have one rate. An interval below 0.5 counts as "not seen"."""
    texts, notes, verdicts = [], [], []
    for cell, part in _one_total(runs(checkout, "allocations")):
        losses = st.losses_by_seed(part)
        if len(losses) < 8:
            continue
        measures = part.drop_duplicates(["arm"]).set_index("arm").loc[losses.index]
        by = {name: st.rank_correlation(measures[name], losses) for name in ("lambda", "V", "min_c", "E")}
        alone = st.partial_rank_correlation(measures["lambda"], measures["V"], losses)
        ranked, seeds = by.pop("lambda"), losses.shape[1]
        verdicts.append(
            Verdict.IN_SHAPE if ranked.low > 0 else Verdict.NOT_SEEN if ranked.high < CONTROLS else Verdict.UNDECIDED
        )
        texts.append(f"{_correlation(ranked)[:-1]}; {ranked.count} allocations, {seeds} seeds)")
        listed = ", ".join(f"{name} {_correlation(rho)}" for name, rho in by.items())
        equal = f" F test that all arms are equal: p = {st.arms_differ(losses):.2g}." if seeds > 1 else ""
        notes.append(
            f"{cell}, {measures['T'].iloc[0]:g} blocks: correlation of {listed}; of Lambda at equal V "
            f"{_correlation(alone)}.{equal}"
        )
    if not texts:
        raise MissingDataError(f"{COMMAND} allocations-sst2")
    verdict = verdicts[0] if len(set(verdicts)) == 1 else Verdict.UNDECIDED
    return verdict, f"rank correlation with late loss {' and '.join(texts)}", " ".join(notes)


def _correlation(rho: st.Mean) -> str:
    return f"{rho.value:+.2f} ({rho.low:+.2f} to {rho.high:+.2f})"


def _one_total(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """For each cell, the arms with the most frequent total, without placebos."""
    table = st.measured(table)
    parts = []
    for cell, part in groups(where(table, table["placebo_of"] == ""), st.CELL):
        total = part.drop_duplicates("arm")["T"].mode()
        parts.append((cell_name(*cell[:2]), where(part, part["T"] == total.iloc[0])))
    return parts


# The first plan's pairs of one V: the lower Lambda has the scarce blocks piled on few clients.
_EARLIER_PAIRS = tuple((f"{name} piled", name) for name in ("twos", "hub", "hub-2", "hub-3", "linear"))


@claim(
    "lambda/matched",
    "Remark 1",
    "Of two allocations with equally popular blocks, the lower Lambda trains faster.",
    pairs="same_v",
    wanted=-1,
)
@claim("lambda/same-lambda", "Proposition 1", "Two allocations of one Lambda train alike, whatever V is.", wanted=0)
def pairs_apart(checkout: Path, pairs: str = "same_lambda", wanted: int = 0) -> Decision:
    """Mean over pairs of one total: the allocation with the lower Lambda minus the other at one V, or with the lower V
    minus the other at one Lambda. The pair is the sample. One rate."""
    table = runs(checkout, "allocations")
    named = [(low.name, high.name) for low, high in getattr(family(), pairs)]
    cells = {pair: st.by_cell(st.paired(table, *pair)) for pair in named + list(_EARLIER_PAIRS) * (pairs == "same_v")}
    means = [float(np.mean(each["value"])) for each in cells.values() if len(each)]
    if len(means) < FEWEST_SEEDS:
        raise MissingDataError(f"{COMMAND} allocations-sst2")
    mean = st.mean_interval(means)
    floors = [abs(cell.value) for cell in placebo_cells(table)]
    reading = Reading("pairs", mean, _pair_sign(mean, max(floors, default=0.0)))
    verdict = Verdict.UNDECIDED
    if reading.sign is not None:
        verdict = Verdict.IN_SHAPE if reading.sign == wanted else Verdict.NOT_SEEN
    seeds = max(int(each["count"].to_numpy().max()) for each in cells.values() if len(each))
    which = "lower minus higher Lambda" if pairs == "same_v" else "lower minus higher V"
    interval = f"{mean.low:+.3f} to {mean.high:+.3f}; {mean.count} pairs, {seeds} seeds"
    text = f"late loss, {which}: {mean.value:+.3f} ({interval})"
    listed = ", ".join(f"{low} {float(np.mean(each['value'])):+.3f}" for (low, _), each in cells.items() if len(each))
    return verdict, "; ".join(filter(None, [text, reading.conclusion])), f"By pair: {listed}."


def _pair_sign(mean: st.Mean, floor: float) -> int | None:
    if mean.low > -MARGIN and mean.high < MARGIN:
        return 0
    return 1 if mean.low > floor else -1 if mean.high < -floor else None


# --- the setting -----------------------------------------------------------------------------------------


@claim("setting/printed", "II; V-A", "Directions on the unit sphere, mu = 1e-4 and eta = 5e-5 train the model.")
def printed_setting(checkout: Path) -> Decision:
    """Counting decides; runs only illustrate. d is 125 million and a typical weight 0.02. Directions of norm sqrt(d)
    make the step d times larger."""
    table = runs(checkout, "setting")
    made = st.measured(where(table, table["arm"] == "printed"))
    moved = [_moved(base, task, part) for (base, task), part in groups(made, ["base", "task"])]
    verdict, text = printed_step()[:2]
    return verdict, text, " ".join(moved)


def _moved(base: str, task: str, part: pd.DataFrame) -> str:
    losses = [run.sort_values("round")["loss"].to_numpy() for _, run in groups(part, "config_sha256")]
    change = max(abs(loss[-1] - loss[0]) for loss in losses)
    text = f"{cell_name(base, task)}: the loss moved by at most {change:.1e} in {part['rounds'].max()} rounds"
    error, lost = part["difference_error"].max(), part["update_lost"].max()
    detail = f"; finite differences are off by {error:.2g} times their size, and rounding loses {lost:.0%} of a step"
    return f"{text}{detail if np.isfinite(error) else ''}."


@claim("blocks/inactive", "II, block activation", "A client's model is a_mn w_m: inactive blocks are zero.")
def frozen_or_dropped(checkout: Path) -> Decision:
    """Mathematics decides; runs only illustrate. Section II multiplies inactive blocks by 0 (dropped). The proofs
    evaluate the gradient at the full model (frozen), so the theory covers frozen blocks only."""
    texts = [
        f"{cell_name(row.base, row.task)} {row.value:+.3f} nats (seeds: {row.count})"
        for row in cast(Any, st.by_cell(st.paired(runs(checkout, "blocks"), "dropped", "frozen"))).itertuples()
    ]
    verdict, text = dropped_update()[:2]
    return verdict, text, f"Dropped minus frozen in runs: {'; '.join(texts)}." if texts else ""
