"""Claims that training runs decide, from the tables of ``sweep.py``. Without its table a claim is undecided.

The sample is the cell, a base model with a task: every cell must show the same. A difference counts only if it exceeds
that of a placebo: an arm that repeats another in every quantity of the theory, at its own best rate. In the tables of
two removed experiments placebos had ratios of speed of 0.79 and 1.23. So a ratio between 0.75 and 1.33 is no evidence,
however narrow its interval over seeds. An effect that small models do not show is "not seen", never "contradicted".
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from notebooks.reproduction import statistics as st
from notebooks.reproduction.claims_theory import dropped_update, printed_step
from notebooks.reproduction.frames import groups, mean_by, where
from notebooks.reproduction.outcome import Decision, Verdict, claim
from notebooks.reproduction.plans import MARGIN, PROFILES, plans
from notebooks.reproduction.sweep import COMMAND, FOLDER, Arm, Cell, late_values, read_table
from zorba_core.errors import MissingDataError

NO_EVIDENCE = (0.75, 1.33)  # pooled ratios of placebos lie within this range
_FEWEST_SEEDS = 3
PILED = ("twos", "hub", "hub-2", "hub-3", "linear")


# --- tables ----------------------------------------------------------------------------------------------


def runs(checkout: Path, *names: str) -> pd.DataFrame:
    """The rows of these experiments' tables; empty if there is no table. An arm of a planned experiment counts only
    when all of its seeds have ended, so no verdict rests on half a series."""
    folder = checkout / FOLDER
    tables = [_ended(name, read_table(name, folder)) for name in names if (folder / f"{name}.parquet").is_file()]
    return pd.concat(tables, ignore_index=True) if tables else read_table("none", folder, missing_ok=True)


def _ended(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of arms whose seeds have all ended, and all trials."""
    plan = {**plans("cpu"), **plans("gpu")}.get(name)
    if plan is None:  # the placebo of removed experiments
        return table
    keys = ["base", "task", "rounds", "arm"]
    made = {key: set(rows["seed"]) for key, rows in groups(st.measured(table), keys)}
    asked = {
        (cell.base, cell.task, cell.settings["rounds"], arm.name): _own_seeds(cell, arm)
        for cell in plan.cells
        for arm in cell.arms
    }
    unfinished = {key for key, seeds in asked.items() if not made.get(key, set()) >= seeds}
    key_of_row = zip(*(table[key] for key in keys), strict=True)
    ended = np.array([key not in unfinished for key in key_of_row], bool)
    return where(table, ended | (table["role"] == "trial").to_numpy(bool))


def _own_seeds(cell: Cell, arm: Arm) -> set[int]:
    """The arm's seeds, without those for which a placebo draws the matrix of its original and uses that run."""
    originals = [other.matrix for other in cell.arms if other.name == arm.placebo_of and other.matrix]
    if arm.matrix is None or not originals:
        return set(cell.seeds)
    (own, original) = arm.matrix, originals[0]
    return {seed for seed in cell.seeds if (own(seed).A_MN != original(seed).A_MN).any()}


def _compared(checkout: Path, experiment: str, arm: str, other: str) -> tuple[pd.DataFrame, pd.DataFrame, float]:
    """Late loss of ``arm`` minus ``other`` by cell and by seed, and the floor of :func:`_floor`.

    Raises:
        MissingDataError: no cell has enough seeds.
    """
    table = runs(checkout, experiment, f"{experiment}-gpu")
    by_seed = st.paired(table, arm, other)
    cells = st.by_cell(by_seed)
    return _needed(where(cells, cells["count"] >= _FEWEST_SEEDS), experiment), by_seed, _floor(experiment, table)


def _floor(experiment: str, table: pd.DataFrame) -> float:
    """Differences of late loss below it, in nats, are no finding: the margin or, if larger, the largest mean difference
    of a placebo in a cell. For ``cases`` it is the margin alone, fixed before its runs."""
    if experiment == "cases":
        return MARGIN
    return max([MARGIN, *_placebo_sizes(table)])


def _placebo_sizes(table: pd.DataFrame) -> list[float]:
    """The size of each placebo's mean difference in each cell, in nats. Placebos of one cell are not averaged."""
    placebos = groups(st.placebo_differences(table), "placebo_of")
    return [value for _, rows in placebos for value in st.by_cell(rows)["value"].abs()]


def _needed(rows: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """The rows.

    Raises:
        MissingDataError: there are none; names the command that makes them.
    """
    if rows.empty:
        raise MissingDataError(f"{COMMAND} {experiment}")
    return rows


def _verdict(agrees: bool, opposite: bool) -> Verdict:
    return Verdict.IN_SHAPE if agrees else Verdict.NOT_SEEN if opposite else Verdict.UNDECIDED


def _listed(cells: pd.DataFrame, form: str) -> tuple[str, str]:
    """Each cell's value with its interval: (for the claim, for its note). For more than two cells the claim has only
    their range."""
    listed = "; ".join(f"{row.base} on {row.task} {_with_interval(row, form)}" for row in _rows(cells))
    if len(cells) <= 2:
        return listed, ""
    return f"{cells['value'].min():{form}} to {cells['value'].max():{form}} in {len(cells)} cells", f"{listed}."


def _rows(cells: pd.DataFrame) -> list[Any]:
    """Named tuples with a field for each column."""
    return list(cells.itertuples())


def _with_interval(row: Any, form: str) -> str:
    """``0.46 (0.33 to 0.59, 5 seeds)``; where an arm never reaches the target, the ratio is only bounded."""
    if row.value == math.inf:
        return f"above {row.low:{form}} ({row.count} seeds; ZorBA does not reach the target)"
    if row.value == 0 and row.low == 0:
        return f"below {row.high:{form}} ({row.count} seeds; the other method does not reach the target)"
    return f"{row.value:{form}} ({row.low:{form}} to {row.high:{form}}, {row.count} seeds)"


# --- who is faster ---------------------------------------------------------------------------------------


@claim("faster/fedit", "Table I", "FedIT needs the fewest rounds.", other="fedit", zorba_ahead=False)
@claim("faster/fedzo", "V-B1", "Fewer rounds than FedZO in most cases.", other="fedzo")
@claim(
    "faster/decomfl-10", "not in the paper", "Fewer rounds than DeComFL with ten directions too.", other="decomfl-10"
)
@claim("faster/decomfl-passes", "not in the paper", "Fewer forward passes than DeComFL (Q = 1).", cost="forward_passes")
@claim("faster/decomfl", "V-B1", "Fewer rounds than DeComFL (Q = 1).")
def faster(checkout: Path, other: str = "decomfl", cost: str = "round", zorba_ahead: bool = True) -> Decision:
    """ZorBA's cost to reach the plan's target accuracy over the other method's, cell by cell."""
    table = _needed(runs(checkout, "tables", "tables-gpu"), "tables")
    cells = st.cost_ratio(st.rounds_to_target(table, plans()["tables"].target, cost), "zorba", other)
    cells = _needed(where(cells, cells["count"] >= _FEWEST_SEEDS), "tables")
    trials = where(table, table["arm"].isin(["zorba", other]) & (table["role"] == "trial"))
    trials = trials.merge(cells[["base", "task"]])
    on_edge = len(trials) > 0 and any(st.best_rates(trials)["on_edge"])
    below, above = cells["high"] < 1, cells["low"] > 1
    ratio, agrees, opposite = (cells["value"], below, above) if zorba_ahead else (1 / cells["value"], above, below)
    agrees &= ratio < NO_EVIDENCE[0]
    text, listed = _listed(cells, ".2f")
    notes = [listed] if listed else []
    notes += ["A best rate lies on the edge of its grid."] if on_edge else []
    what = "rounds" if cost == "round" else "forward passes"
    verdict = _verdict(not on_edge and all(agrees), not on_edge and all(opposite))
    return verdict, f"ZorBA's {what} over the other method's: {text}", " ".join(notes)


def placebo_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Speed of ``balanced`` over that of the paper's solver, a row for each cell; one trial chose each rate. The
    matrices have the same Lambda, V and T, and nearly the same E and D. The cost is the rounds to 70 % of the decrease
    in loss of the paper's best trial, by interpolation; a run that does not reach it counts with all its rounds."""
    rows = []
    for (study, _, _), part in groups(table, ["experiment", "base", "task"], sort=False):
        trials = where(part, (part["role"] == "trial") & (part["arm"] == "paper"))
        start = float(np.mean(where(trials, trials["round"] == 0)["loss"]))
        target = start - 0.7 * (start - min(mean_by(late_values(trials), "lr", "loss")))
        made = st.measured(part)
        rounds = {key: _arrival(run, target) for key, run in groups(made, ["arm", "seed"])}
        by_arm = cast(pd.DataFrame, pd.Series(rounds).unstack(0)).dropna().mean()
        same_rate = len({rows["lr"].iloc[0] for _, rows in groups(made, "arm")}) == 1
        rows.append({"study": study, "ratio": by_arm["paper"] / by_arm["balanced"], "same_rate": same_rate})
    return pd.DataFrame(rows)


def _arrival(run: pd.DataFrame, target: float) -> float:
    """Rounds until the loss reaches the target, by interpolation; all rounds if it does not."""
    run = run.sort_values("round")
    at, loss = run["round"].to_numpy(float), run["loss"].to_numpy()
    below = np.flatnonzero(loss <= target)
    if not len(below):
        return float(run["rounds"].iloc[0])
    i = below[0]
    return at[0] if i == 0 else float(np.interp(target, loss[[i, i - 1]], at[[i, i - 1]]))


@claim("faster/placebo", "not in the paper", "A pooled ratio of speed shows which allocation is faster.")
def placebo(checkout: Path) -> Decision:
    """Two allocations with the same Lambda, V and T, in two earlier studies. So no pooled ratio between 0.75 and 1.33
    in the earlier tables is evidence."""
    cells = placebo_ratios(_needed(runs(checkout, "placebo"), "placebo"))
    pooled = cells.groupby("study", sort=False)["ratio"].agg(lambda ratio: math.exp(np.log(ratio).mean()))
    value, low, high = np.exp(st.mean_interval(np.log(cells["ratio"]))[:3])
    same, own = (cells[cells["same_rate"] == alike]["ratio"] for alike in (True, False))
    tables = [runs(checkout, name) for profile in PROFILES for name in plans(profile)]
    later = [size for table in tables for size in _placebo_sizes(table)]
    note = (
        f"If the trials chose one rate for both, the ratios are {same.min():.2f} to {same.max():.2f}, else "
        f"{own.min():.2f} to {own.max():.2f}: they depend on the rate."
    )
    return (
        Verdict.UNDECIDED,
        f"two allocations that are equal in theory have pooled ratios of {' and '.join(f'{x:.2f}' for x in pooled)}; "
        f"over cells the mean is {value:.2f} ({low:.2f} to {high:.2f}, {len(cells)} cells)",
        note + (f" Placebos of later runs differ by up to {max(later):.3f} nats." if later else ""),
    )


# --- allocations -----------------------------------------------------------------------------------------


@claim("fig-4b/sc1-sc2", "Fig. 4(b); V-B4", "SC1 converges like SC2, with less VRAM.")
def sc1_like_sc2(checkout: Path) -> Decision:
    """Two arms are alike if the 90 % interval of their difference lies within the margin."""
    cells, by_seed, margin = _compared(checkout, "cases", "SC1", "SC2")
    alike = [st.is_alike(seeds["difference"], margin) for _, seeds in groups(by_seed, st.CELL)]
    return _by_loss(_verdict(all(alike), all(one is False for one in alike)), "SC1 minus SC2", cells, margin)


@claim("fig-4b/sc3", "Fig. 4(b); V-B4", "SC3 needs more rounds than SC2.")
def sc3_slower(checkout: Path) -> Decision:
    """The verdict is "not seen" if the interval excludes a slowdown by the margin."""
    cells, _, margin = _compared(checkout, "cases", "SC3", "SC2")
    slower = all(cells["low"] > 0) and all(cells["value"] > margin)
    return _by_loss(_verdict(slower, all(cells["high"] < margin)), "SC3 minus SC2", cells, margin)


@claim("observation-1/training", "Observation 1", "Convergence is best when all clients activate all blocks.")
def all_blocks_best(checkout: Path) -> Decision:
    """Each arm has its own best rate."""
    cells, _, margin = _compared(checkout, "lambda", "all blocks", "balanced")
    verdict = _verdict(all(cells["high"] < -margin), all(cells["low"] > margin))
    return _by_loss(verdict, "all 12 blocks minus a balanced 4", cells, margin)


@claim("proposition-1/training", "Proposition 1", "Matrices with one multiset of least popularities converge alike.")
def same_lambda_same_speed(checkout: Path) -> Decision:
    """A single client trains the scarce blocks. Both matrices have Lambda 1.0475; V is 0.92 and 0.13."""
    cells, by_seed, margin = _compared(checkout, "lambda", "eleven scarce", "one scarce")
    alike = [st.is_alike(seeds["difference"], margin) for _, seeds in groups(by_seed, st.CELL)]
    return _by_loss(_verdict(all(alike), _apart(cells, margin)), "eleven scarce blocks minus one scarce", cells, margin)


@claim("proposition-1/position", "Proposition 1", "It does not matter which blocks are trained.")
def which_blocks(checkout: Path) -> Decision:
    """In each arm all clients train the same blocks. Lambda, V, E and T are equal."""
    cells, _, margin = _compared(checkout, "blocks", "last", "first")
    return _by_loss(_verdict(False, _apart(cells, margin)), "last blocks minus first", cells, margin)


@claim("blocks/covering", "not in the paper", "Covering all blocks beats the same few everywhere.")
def covering(checkout: Path) -> Decision:
    """Each client trains four blocks: in one arm they cover all blocks evenly, in the others all clients have the same
    four. T is equal."""
    arms = ("first", "last", "spread")
    compared = {arm: _compared(checkout, "blocks", arm, "frozen") for arm in arms}
    cells, margin = pd.concat([cells for cells, _, _ in compared.values()]), compared["first"][2]
    verdict = _verdict(all(cells["low"] > margin), _apart(cells, margin) and all(cells["value"] < 0))
    values = ", ".join(f"{arm} {each['value'].mean():+.3f}" for arm, (each, _, _) in compared.items())
    low, high, seeds = cells["low"].min(), cells["high"].max(), cells["count"].min()
    text = f"late loss, the same four minus covering: {values} ({low:+.3f} to {high:+.3f}, {seeds} seeds)"
    where = " and ".join(sorted({f"{row.base} on {row.task}" for row in _rows(cells)}))
    return verdict, text, f"Differences of late loss below {margin:.3g} nats are no evidence. Runs of {where}."


def _apart(cells: pd.DataFrame, margin: float) -> bool:
    """Whether every cell's difference exceeds the margin and its interval excludes 0."""
    return bool(((cells["value"].abs() > margin) & ((cells["low"] > 0) | (cells["high"] < 0))).all())


def _by_loss(verdict: Verdict, what: str, cells: pd.DataFrame, margin: float) -> Decision:
    text, listed = _listed(cells, "+.4f")
    note = f"Differences of late loss below {margin:.3g} nats are no evidence. {listed}".strip()
    return verdict, f"late loss, {what}: {text}", note


@claim("lambda/ranks", "Remark 1", "What controls convergence is Lambda, not the total of blocks.")
def lambda_ranks(checkout: Path) -> Decision:
    """Spearman's rank correlation of Lambda with late loss over allocations of one total. The interval resamples
    allocations and seeds."""
    texts, notes, verdicts = [], [], []
    for cell, part in _one_total(runs(checkout, "lambda", "lambda-gpu")):
        losses = st.losses_by_seed(part)
        losses = losses[np.isfinite(losses).all(axis=1)]
        if len(losses) < 8 or losses.shape[1] < _FEWEST_SEEDS:
            continue
        measures = part.drop_duplicates(["arm"]).set_index("arm").loc[losses.index]
        ranked, by_v = (st.rank_correlation(measures[measure], losses) for measure in ("lambda", "V"))
        verdicts.append(_verdict(ranked.low > 0, ranked.high < 0))
        texts.append(
            f"{ranked.value:+.2f} ({ranked.low:+.2f} to {ranked.high:+.2f}; {ranked.count} allocations, "
            f"{losses.shape[1]} seeds)"
        )
        total = measures["T"].iloc[0]
        notes.append(
            f"{cell}, {total:g} blocks: correlation of V {by_v.value:+.2f}; F test that all arms are equal: "
            f"p = {st.arms_differ(losses):.2g}."
        )
    if not texts:
        raise MissingDataError(f"{COMMAND} lambda")
    verdict = verdicts[0] if len(set(verdicts)) == 1 else Verdict.UNDECIDED
    return verdict, f"rank correlation with late loss {' and '.join(texts)}", " ".join(notes)


def _one_total(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """For each cell, the arms with the most frequent total, without placebos."""
    table = st.measured(table)
    parts = []
    for cell, part in groups(where(table, table["placebo_of"] == ""), st.CELL):
        total = part.drop_duplicates("arm")["T"].mode()
        parts.append((f"{cell[0]} on {cell[1]}", where(part, part["T"] == total.iloc[0])))
    return parts


@claim("lambda/matched", "Remark 1", "Of two allocations with equally popular blocks, the lower Lambda trains faster.")
def lower_lambda_at_equal_popularity(checkout: Path) -> Decision:
    """In the matrix of lower Lambda the same few clients train all scarce blocks. Totals, V and popularities are equal;
    coupled noise is higher."""
    table = runs(checkout, "lambda", "lambda-gpu")
    cells = [st.by_cell(st.paired(table, f"{name} piled", name)) for name in PILED]
    means = [float(np.mean(each["value"])) for each in cells if len(each)]
    if len(means) < 2:
        raise MissingDataError(f"{COMMAND} lambda")
    mean, margin = st.mean_interval(means), _floor("lambda", table)
    return (
        _verdict(mean.high < -margin, mean.low > margin),
        f"late loss of the lower Lambda minus that of the higher: {mean.value:+.3f} nats ({mean.low:+.3f} to "
        f"{mean.high:+.3f}) over {mean.count} pairs",
        f"Differences below {margin:.3g} nats are no evidence.",
    )


# --- the setting -----------------------------------------------------------------------------------------


@claim("setting/printed", "II; V-A", "Directions on the unit sphere, mu = 1e-4 and eta = 5e-5 train the model.")
def printed_setting(checkout: Path) -> Decision:
    """Counting decides; runs only illustrate. d is 125 million and a typical weight 0.02. Directions of norm sqrt(d)
    make the step d times larger."""
    table = runs(checkout, "setting", "setting-gpu")
    made = st.measured(where(table, table["arm"] == "printed"))
    moved = [_moved(base, task, part) for (base, task), part in groups(made, ["base", "task"])]
    verdict, text = printed_step()[:2]
    return verdict, text, " ".join(moved)


def _moved(base: str, task: str, part: pd.DataFrame) -> str:
    losses = [run.sort_values("round")["loss"].to_numpy() for _, run in groups(part, "config_sha256")]
    change = max(abs(loss[-1] - loss[0]) for loss in losses)
    text = f"{base} on {task}: the loss moved by at most {change:.1e} in {part['rounds'].max()} rounds"
    error, lost = part["difference_error"].max(), part["update_lost"].max()
    detail = f"; finite differences are off by {error:.2g} times their size, and rounding loses {lost:.0%} of a step"
    return f"{text}{detail if np.isfinite(error) else ''}."


@claim("blocks/inactive", "II, block activation", "A client's model is a_mn w_m: inactive blocks are zero.")
def frozen_or_dropped(checkout: Path) -> Decision:
    """Mathematics decides; runs only illustrate. Section II multiplies inactive blocks by 0 (dropped). The proofs
    evaluate the gradient at the full model (frozen), so the theory covers frozen blocks only."""
    texts = [
        f"{row.base} on {row.task} {row.value:+.3f} nats (seeds: {row.count})"
        for row in _rows(st.by_cell(st.paired(runs(checkout, "blocks", "blocks-gpu"), "dropped", "frozen")))
    ]
    verdict, text = dropped_update()[:2]
    return verdict, text, f"Dropped minus frozen in runs: {'; '.join(texts)}." if texts else ""
