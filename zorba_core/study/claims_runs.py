"""What runs decide, from the tables of :mod:`zorba_core.study.sweep`. A table that is not there decides nothing.

How a verdict is reached. The sample is the cell, a base model with a task: every cell must show the same, and each
sentence says how many there are. No difference counts that a placebo shows as well: an arm that repeats another in all
that the theory reads, with a rate of its own. In the tables of two removed experiments such ratios of speed came out as
0.79 and 1.23, so a ratio between 0.75 and 1.33 is no evidence, whatever its interval over seeds. What small models do
not show is "not seen", never "contradicted".
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

from zorba_core.study.claims_theory import dropped_update, printed_step
from zorba_core.study.outcome import NOT_RUN, Outcome, Verdict, claim
from zorba_core.study.plans import PROFILES, plans
from zorba_core.study.statistics import (
    CELL,
    arms_differ,
    best_rates,
    by_cell,
    cost_ratio,
    is_alike,
    losses_by_seed,
    mean_interval,
    measured,
    paired,
    placebo_differences,
    rank_correlation,
    rounds_to_target,
)
from zorba_core.study.sweep import FOLDER, late_values, read_table

NO_EVIDENCE = (0.75, 1.33)  # a pooled ratio in here is what placebos show
PILOT = 0.5  # and a single cell's ratio above this, where one trial chose the rate
MARGIN = plans()["cases"].margin  # nats of late loss below which two arms count as alike, fixed before the runs
_FEWEST_SEEDS = 3


def runs(checkout: Path, *names: str) -> pd.DataFrame:
    """The tables of these experiments that are there, one below the other; empty where there is none. Of a planned
    experiment an arm counts once all of its seeds have ended: no verdict stops a series that is still running."""
    folder = checkout / FOLDER
    tables = [_ended(name, read_table(name, folder)) for name in names if (folder / f"{name}.parquet").is_file()]
    return pd.concat(tables, ignore_index=True) if tables else read_table("none", folder, missing_ok=True)


def _ended(name: str, table: pd.DataFrame) -> pd.DataFrame:
    plan = {**plans("cpu"), **plans("gpu")}.get(name)
    if plan is None:  # a first series, or a placebo of removed experiments
        return table
    made = {key: set(rows["seed"]) for key, rows in measured(table).groupby(["base", "task", "rounds", "arm"])}
    asked = {
        (cell.base, cell.task, cell.settings["rounds"], arm.name): set(cell.seeds)
        for cell in plan.cells
        for arm in cell.arms
    }
    unfinished = {key for key, seeds in asked.items() if not made.get(key, set()) >= seeds}
    keys = zip(table["base"], table["task"], table["rounds"], table["arm"], strict=True)
    ended = np.array([key not in unfinished for key in keys], bool)
    return table[ended | (table["role"] == "trial").to_numpy(bool)]


def _with_first_look(checkout: Path, name: str) -> pd.DataFrame:
    """An experiment, and of the first look at the real model those cells that the experiment has not yet."""
    table, first = runs(checkout, name, f"{name}-gpu"), runs(checkout, "real", "real-gpu")
    there = set(zip(measured(table)["base"], measured(table)["task"], strict=True))
    new = [cell not in there for cell in zip(first["base"], first["task"], strict=True)]
    return pd.concat([table, first[new]], ignore_index=True) if any(new) else table


def not_run(*names: str) -> Outcome:
    return Outcome(Verdict.UNDECIDED, NOT_RUN, f"zorba reproduce {' '.join(names)}")


def cell_names(cells: pd.DataFrame) -> str:
    """``2 cells: opt-mini on sst2, smollm2-135m on sst2``."""
    names = list(dict.fromkeys(f"{row.base} on {row.task}" for row in cells.itertuples()))
    return f"{len(names)} cell{'s' if len(names) > 1 else ''}: {', '.join(names)}"


# --- who is faster ---------------------------------------------------------------------------------------


def _faster(checkout: Path, other: str, cost: str, *, zorba_ahead: bool) -> Outcome:
    """ZorBA's rounds or passes to the target over the other's, cell by cell."""
    table = _with_first_look(checkout, "tables")
    if table.empty:
        return not_run("tables")
    target = plans()["tables"].target
    cells = cost_ratio(rounds_to_target(table, target, cost), "zorba", other)
    cells = cells[cells["count"] >= _FEWEST_SEEDS]
    if cells.empty:
        return not_run("tables")
    made = measured(table)
    tuned = set(zip(made["base"], made["task"], made["experiment"].str.startswith("tables"), strict=True))
    cells["tuned"] = [(row.base, row.task, True) in tuned for row in cells.itertuples()]
    listed = "; ".join(
        f"{row.base} on {row.task} {row.value:.2f} ({row.low:.2f} to {row.high:.2f}, {row.count} seeds)"
        for row in cells.itertuples()
    )
    if len(cells) > 2:
        mean, low, high, count = mean_interval(np.log(cells["value"]))
        listed += f"; over {count} cells {math.exp(mean):.2f} ({math.exp(low):.2f} to {math.exp(high):.2f})"
    trials = table[table["arm"].isin(["zorba", other]) & (table["role"] == "trial")]
    on_edge = len(trials) > 0 and best_rates(trials)["on_edge"].any()
    below, above = cells["high"] < 1, cells["low"] > 1
    value, agrees, opposite = (cells["value"], below, above) if zorba_ahead else (1 / cells["value"], above, below)
    verdict = Verdict.UNDECIDED
    if not on_edge and (agrees & (value < np.where(cells["tuned"], NO_EVIDENCE[0], PILOT))).all():
        verdict = Verdict.IN_SHAPE
    elif not on_edge and opposite.all():
        verdict = Verdict.NOT_SEEN
    what = {"round": "rounds", "forward_passes": "forward passes"}[cost]
    notes = [f"to accuracy {target:g}", cell_names(cells)]
    notes += [] if cells["tuned"].all() else ["rates of a pilot where the experiment has no trials"]
    notes += ["a best rate lies on its grid's edge"] if on_edge else []
    return Outcome(verdict, f"{what} over the other's: {listed}", "; ".join(notes))


@claim("faster/decomfl", "V-B1", "Fewer rounds than DeComFL (Q = 1).")
def faster_than_decomfl(checkout: Path) -> Outcome:
    return _faster(checkout, "decomfl", "round", zorba_ahead=True)


@claim("faster/decomfl-passes", "not in the paper", "Fewer forward passes than DeComFL (Q = 1).")
def faster_than_decomfl_by_passes(checkout: Path) -> Outcome:
    return _faster(checkout, "decomfl", "forward_passes", zorba_ahead=True)


@claim("faster/decomfl-10", "not in the paper", "Fewer rounds than DeComFL with ten directions too.")
def faster_than_decomfl_10(checkout: Path) -> Outcome:
    return _faster(checkout, "decomfl-10", "round", zorba_ahead=True)


@claim("faster/fedzo", "V-B1", "Fewer rounds than FedZO in most cases.")
def faster_than_fedzo(checkout: Path) -> Outcome:
    return _faster(checkout, "fedzo", "round", zorba_ahead=True)


@claim("faster/fedit", "Table I", "FedIT needs the fewest rounds.")
def slower_than_fedit(checkout: Path) -> Outcome:
    return _faster(checkout, "fedit", "round", zorba_ahead=False)


# --- placebos --------------------------------------------------------------------------------------------


def placebo_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """How many times as fast ``balanced`` came out as the paper's solver, whose matrices have the same Lambda, V and T
    (E and D nearly so): a row for each cell, with the rates that one trial chose. Speed is rounds to the loss after
    70 % of what the paper's best trial lost, by interpolation; a run that does not arrive counts its whole horizon."""
    rows = []
    for (study, *cell), part in table.groupby(["experiment", "base", "task"], sort=False):
        trials = part[(part["role"] == "trial") & (part["arm"] == "paper")]
        start = float(trials[trials["round"] == 0]["loss"].mean())
        target = start - 0.7 * (start - float(late_values(trials).groupby("lr")["loss"].mean().min()))
        made = measured(part)
        rounds = {key: _arrival(run, target) for key, run in made.groupby(["arm", "seed"])}
        by_arm = pd.Series(rounds).unstack(0).dropna()
        rows.append(
            {
                "study": study,
                "base": cell[0],
                "task": cell[1],
                "ratio": by_arm["paper"].mean() / by_arm["balanced"].mean(),
                "seeds": len(by_arm),
                "same_rate": made.groupby("arm")["lr"].first().nunique() == 1,
            }
        )
    return pd.DataFrame(rows)


def _arrival(run: pd.DataFrame, target: float) -> float:
    run = run.sort_values("round")
    at, loss = run["round"].to_numpy(float), run["loss"].to_numpy()
    below = np.flatnonzero(loss <= target)
    if not len(below):
        return float(run["rounds"].iloc[0])
    i = int(below[0])
    return at[i] if i == 0 else at[i - 1] + (loss[i - 1] - target) / (loss[i - 1] - loss[i]) * (at[i] - at[i - 1])


@claim("faster/placebo", "not in the paper", "A pooled ratio of speed shows which allocation is faster.")
def placebo(checkout: Path) -> Outcome:
    table = runs(checkout, "placebo")
    if table.empty:
        return not_run("placebo")
    cells = placebo_ratios(table)
    pooled = cells.groupby("study", sort=False)["ratio"].agg(lambda ratio: math.exp(np.log(ratio).mean()))
    over_cells = mean_interval(np.log(cells["ratio"]))
    same, own = (cells[cells["same_rate"] == alike]["ratio"] for alike in (True, False))
    tables = [runs(checkout, name) for profile in PROFILES for name in plans(profile)]
    later = [shift for table in tables for shift in by_cell(placebo_differences(table))["value"].abs()]
    note = f". Since then placebos differ by up to {max(later):.3f} nats, {len(later)} pairs" if later else ""
    return Outcome(
        Verdict.UNDECIDED,
        f"two allocations alike in Lambda, V and T came out {' and '.join(f'{value:.2f}' for value in pooled)} times "
        f"as fast in two studies; with the cell as the sample {math.exp(over_cells.value):.2f} "
        f"({math.exp(over_cells.low):.2f} to {math.exp(over_cells.high):.2f}, {len(cells)} cells)",
        f"where one trial chose the same rate for both the ratios are {same.min():.2f} to {same.max():.2f}, else "
        f"{own.min():.2f} to {own.max():.2f}: a rate moves them. No pooled ratio between {NO_EVIDENCE[0]} and "
        f"{NO_EVIDENCE[1]} of the earlier tables is evidence{note}",
    )


def floor_of(table: pd.DataFrame) -> float:
    """Nats of late loss below which a difference is no finding: the margin, or what this table's placebos show in the
    mean of a cell, whichever is larger."""
    shown = by_cell(placebo_differences(table))["value"].abs()
    return max(MARGIN, float(shown.max()) if len(shown) else 0.0)


# --- allocations -----------------------------------------------------------------------------------------


def _difference(table: pd.DataFrame, arm: str, other: str) -> tuple[pd.DataFrame, str]:
    """(late loss of ``arm`` minus ``other`` by cell, in words)."""
    cells = by_cell(paired(table, arm, other))
    cells = cells[cells["count"] >= _FEWEST_SEEDS]
    listed = "; ".join(
        f"{row.base} on {row.task} {row.value:+.4f} ({row.low:+.4f} to {row.high:+.4f}, {row.count} seeds)"
        for row in cells.itertuples()
    )
    return cells, f"late loss, nats: {listed}"


def _cases(checkout: Path) -> tuple[pd.DataFrame, float]:
    """The case study and its margin; of the first series until the planned one is there."""
    table = runs(checkout, "cases", "cases-gpu")
    return (table, MARGIN) if len(table) else (runs(checkout, "cases-first"), 0.01)


@claim("fig-4b/sc1-sc2", "Fig. 4(b); V-B4", "SC1 converges like SC2, with less VRAM.")
def sc1_like_sc2(checkout: Path) -> Outcome:
    table, margin = _cases(checkout)
    cells, text = _difference(table, "SC1", "SC2")
    if cells.empty:
        return not_run("cases")
    differences = paired(table, "SC1", "SC2")
    alike = [is_alike(seeds["difference"], margin) for _, seeds in differences.groupby(CELL)]
    verdict = Verdict.UNDECIDED
    if all(alike):
        verdict = Verdict.IN_SHAPE
    elif all(one is False for one in alike):
        verdict = Verdict.NOT_SEEN
    return Outcome(
        verdict, text, f"SC1 minus SC2; alike: the 90 % interval within {margin:g} nats; {cell_names(cells)}"
    )


@claim("fig-4b/sc3", "Fig. 4(b); V-B4", "SC3 needs more rounds than SC2.")
def sc3_slower(checkout: Path) -> Outcome:
    table, margin = _cases(checkout)
    cells, text = _difference(table, "SC3", "SC2")
    if cells.empty:
        return not_run("cases")
    verdict = Verdict.UNDECIDED
    if (cells["low"] > 0).all() and (cells["value"] > margin).all():
        verdict = Verdict.IN_SHAPE
    elif (cells["high"] < margin).all():
        verdict = Verdict.NOT_SEEN
    note = f"SC3 minus SC2; not seen: a slowdown of {margin:g} nats is excluded; {cell_names(cells)}"
    return Outcome(verdict, text, note)


@claim("lambda/ranks", "Remark 1", "What controls convergence is Lambda, not the total of blocks.")
def lambda_ranks(checkout: Path) -> Outcome:
    """Lambda against late loss over allocations of one total, of the planned series and of the first."""
    texts, verdicts = [], []
    for name in ("lambda", "lambda-gpu", "lambda-first"):
        for cell, part in _one_total(runs(checkout, name)):
            losses = losses_by_seed(part)
            losses = losses[np.isfinite(losses).all(axis=1)]
            if len(losses) < 8 or losses.shape[1] < _FEWEST_SEEDS:
                continue
            measures = part.drop_duplicates("arm").set_index("arm").loc[losses.index]
            ranked, by_v = (rank_correlation(measures[measure], losses) for measure in ("lambda", "V"))
            verdicts.append(Verdict.IN_SHAPE if ranked.low > 0 else Verdict.NOT_SEEN if ranked.high < 0 else None)
            texts.append(
                f"{ranked.value:+.2f} ({ranked.low:+.2f} to {ranked.high:+.2f}) over {ranked.count} allocations of "
                f"{measures['T'].iloc[0]:g} blocks, {losses.shape[1]} seeds, {cell}; V {by_v.value:+.2f}; that they "
                f"differ at all: p = {arms_differ(losses):.2g}"
            )
    if not texts:
        return not_run("lambda")
    first = verdicts[0]
    verdict = first if first and all(one == first for one in verdicts) else Verdict.UNDECIDED
    return Outcome(
        verdict, f"rank correlation with late loss: {'; '.join(texts)}", "intervals over allocations and seeds"
    )


def _one_total(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """By cell and rate group, the arms of the total that most arms have, without placebos."""
    parts = []
    table = measured(table)
    table = table[(table["placebo_of"] == "") & (table["alpha"] == 1.0)]
    for cell, part in table.groupby(CELL):
        if part["experiment"].iloc[0] == "lambda-first":
            part = part[part["lr"] == 2e-2]
        total = part.drop_duplicates("arm")["T"].mode()
        if len(total):
            parts.append((f"{cell[0]} on {cell[1]}", part[part["T"] == total.iloc[0]]))
    return parts


_PAIRS = tuple((f"{name} piled", name) for name in ("twos", "hub", "hub-2", "hub-3", "linear"))
_FIRST_PAIRS = (
    ("hub-pile", "hub-spread"),
    ("hub2-pile", "hub2-spread"),
    ("twos-pile", "twos"),
    ("linear-pile", "linear"),
)


@claim("lambda/matched", "Remark 1", "Of two allocations with equally popular blocks, the lower Lambda trains faster.")
def lower_lambda_at_equal_popularity(checkout: Path) -> Outcome:
    """Scarce blocks piled on the same clients: equal T, V and popularities, lower Lambda, higher coupled noise."""
    table, pairs = runs(checkout, "lambda", "lambda-gpu"), _PAIRS
    if not _all_pairs(table, pairs)[0]:
        first = runs(checkout, "lambda-first")
        table, pairs = first[(first["lr"] == 2e-2) & (first["alpha"] == 1.0)], _FIRST_PAIRS
    means, names = _all_pairs(table, pairs)
    if len(means) < 2:
        return not_run("lambda")
    over_pairs, floor = mean_interval(means), floor_of(table)
    verdict = Verdict.UNDECIDED
    if over_pairs.high < -floor:
        verdict = Verdict.IN_SHAPE
    elif over_pairs.low > floor:
        verdict = Verdict.NOT_SEEN
    return Outcome(
        verdict,
        f"late loss of the lower Lambda minus the higher: {over_pairs.value:+.3f} nats ({over_pairs.low:+.3f} to "
        f"{over_pairs.high:+.3f}) over {over_pairs.count} pairs",
        f"equal totals, V and popularities; below {floor:.3f} nats nothing is said; {names}",
    )


def _all_pairs(table: pd.DataFrame, pairs: tuple[tuple[str, str], ...]) -> tuple[list[float], str]:
    means, names = [], ""
    for piled, spread in pairs:
        cells = by_cell(paired(table, piled, spread)) if len(table) else pd.DataFrame()
        if len(cells):
            means.append(float(cells["value"].mean()))
            names = cell_names(cells)
    return means, names


@claim("proposition-1/training", "Proposition 1", "Matrices with one multiset of least popularities converge alike.")
def same_lambda_same_speed(checkout: Path) -> Outcome:
    """Eleven blocks left to one client against one block left to one client: one multiset of least popularities."""
    table = runs(checkout, "lambda", "lambda-gpu")
    pairs = paired(table, "eleven scarce", "one scarce")
    if len(pairs) < _FEWEST_SEEDS:  # the first series, which left it open
        first = runs(checkout, "lambda-first")
        first = first[(first["lr"] == 2e-2) & (first["alpha"] == 1.0) & (first["num_clients"] == 20)]
        pairs = paired(first, "eleven-scarce", "one-scarce")
    if len(pairs) < _FEWEST_SEEDS:
        return not_run("lambda")
    mean, floor = mean_interval(pairs["difference"]), floor_of(table)
    alike = is_alike(pairs["difference"], floor)
    apart = abs(mean.value) > floor and not mean.low <= 0 <= mean.high
    verdict = Verdict.IN_SHAPE if alike else Verdict.NOT_SEEN if apart else Verdict.UNDECIDED
    return Outcome(
        verdict,
        f"late loss {mean.value:+.3f} nats ({mean.low:+.3f} to {mean.high:+.3f}, {mean.count} seeds) with eleven "
        "scarce blocks, against one scarce block",
        f"both have Lambda 1.0475; V is 0.92 and 0.13. Below {floor:.3f} nats nothing is said; {cell_names(pairs)}",
    )


@claim("observation-1/training", "Observation 1", "Convergence is best when all clients activate all blocks.")
def all_blocks_best(checkout: Path) -> Outcome:
    first = runs(checkout, "lambda-first")
    first = first[(first["lr"] == 2e-2) & (first["alpha"] == 1.0) & (first["num_clients"] == 20)]
    cells, text = _difference(first, "full", "balanced-4")
    if cells.empty:
        return not_run("lambda")
    seen = (cells["high"] < -MARGIN).all()
    opposite = (cells["low"] > MARGIN).all()
    verdict = Verdict.IN_SHAPE if seen else Verdict.NOT_SEEN if opposite else Verdict.UNDECIDED
    return Outcome(verdict, text, f"all 12 blocks minus a balanced 4 of 12, one rate for both; {cell_names(cells)}")


@claim("proposition-1/position", "Proposition 1", "So it does not matter which blocks are trained.")
def which_blocks(checkout: Path) -> Outcome:
    """The first blocks of all clients against the last: equal in Lambda and in every measure."""
    table, first, last = _with_first_look(checkout, "blocks"), "first", "last"
    if table.empty or by_cell(paired(table, last, first)).empty:
        table, first, last = runs(checkout, "ablations"), "first 4 blocks", "last 4 blocks"
    cells, text = _difference(table, last, first)
    if cells.empty:
        return not_run("blocks")
    floor = floor_of(table)
    apart = (cells["value"].abs() > floor) & ((cells["low"] > 0) | (cells["high"] < 0))
    return Outcome(
        Verdict.NOT_SEEN if apart.all() else Verdict.UNDECIDED,
        text,
        f"last blocks minus first; one Lambda, V, E and T. Below {floor:.3f} nats nothing is said; {cell_names(cells)}",
    )


# --- the setting -----------------------------------------------------------------------------------------


@claim("setting/printed", "II; V-A", "Directions on the unit sphere, mu = 1e-4 and eta = 5e-5 train the model.")
def printed_setting(checkout: Path) -> Outcome:
    """Counting decides (:func:`~zorba_core.study.claims_theory.printed_step`); runs stand beside it."""
    counted = printed_step()
    table, arm = runs(checkout, "setting", "setting-gpu"), "printed"
    if table.empty:
        table, arm = runs(checkout, "ablations"), "as printed"
    moved = [_moved(cell, part) for cell, part in measured(table[table["arm"] == arm]).groupby(["base", "task"])]
    return counted._replace(note="; ".join([counted.note, *moved]))


def _moved(cell: tuple[str, str], part: pd.DataFrame) -> str:
    ends = part.sort_values("round").groupby("config_sha256")["loss"].agg(["first", "last"])
    change = (ends["last"] - ends["first"]).abs().max()
    text = f"{cell[0]} on {cell[1]}: the loss moved by at most {change:.1e} in {part['rounds'].max()} rounds"
    error, lost = part["difference_error"].max(), part["update_lost"].max()
    return text + (f", finite differences {error:.0%} off, {lost:.0%} of a step lost" if np.isfinite(error) else "")


@claim("blocks/inactive", "II, block activation", "A client's model is a_mn w_m: inactive blocks are zero.")
def frozen_or_dropped(checkout: Path) -> Outcome:
    """Mathematics decides (:func:`~zorba_core.study.claims_theory.dropped_update`); runs stand beside it."""
    counted = dropped_update()
    texts = [
        f"{row.base} on {row.task} {row.value:+.3f} nats ({row.count} seeds)"
        for name, usual in (("blocks", "frozen"), ("ablations", "usual"))
        for row in by_cell(paired(runs(checkout, name), "dropped", usual)).itertuples()
    ]
    added = [f"dropped minus frozen in runs: {'; '.join(texts)}"] if texts else []
    return counted._replace(note=". ".join([counted.note, *added]))
