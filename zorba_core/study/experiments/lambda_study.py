"""What the experiment ``lambda`` says and what it leaves open: each question once, for ledger, report and notebook.

The 33 allocations of 20 clients were chosen to differ, not drawn from anything, so a correlation over all of them is a
property of that choice. Those that solvers return and those built by hand are therefore looked at apart.

Shapes: K allocations (arms), S seeds, R resamples.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zorba_core.allocation import Allocation, AllocationProblem, solve
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.study.experiments.analysis import allocation_table, losses_by_seed, noise_law, runs_under
from zorba_core.study.experiments.lambda_law import EXPERIMENT, IID, recipes_20, recipes_50
from zorba_core.study.experiments.measures import PREDICTORS, allocation_measures
from zorba_core.study.experiments.recipes import fleet_budgets
from zorba_core.study.experiments.resampling import ArmsTest, arms_differ, holm, percentile_interval, two_way_resamples
from zorba_core.study.experiments.specs import RunSpec
from zorba_core.study.experiments.statistics import Law, left_of, partial_spearman, rank_correlation, spearman
from zorba_core.study.experiments.store import Results, empty_runs

SOLVED, BUILT, RANDOM = "returned by a solver", "built by hand", "drawn at random"
# A matrix made for a printed (ratio, Lambda) is built to that Lambda: nobody's solver would return it.
_MADE_BY = {"uniform": SOLVED, "solver": SOLVED, "popularity": BUILT, "scenario": BUILT, "random": RANDOM}
CONDITIONS: Mapping[str, Mapping[str, float | None]] = {
    "Dir(1.0), η = 0.02": {},
    "Dir(1.0), own η": {"lr": None},
    "IID": {"alpha": IID},
    "Dir(0.1)": {"alpha": 0.1},
    "50 clients": {"num_clients": 50},
}
# Slopes of V and E from an earlier test, written down before these runs: eight allocations of 24 clients on SST-2,
# another base model (H = 64), eta = 1e-2, 60 rounds, six seeds.
WRITTEN_BEFORE = {"V": 0.098, "E": 0.0136}
_FRONT_BLOCKS = 4  # the ablations train the first four blocks, or the last four
_FEWEST = 4  # allocations that a correlation needs
FEWEST_ARMS = 2  # and seeds, that a test whether arms differ needs


@dataclass(frozen=True, eq=False)
class TrainedAlike:
    """Allocations that were trained alike."""

    table: pd.DataFrame  # allocation_table, with a column made_by
    losses: pd.DataFrame  # arm x seed, late loss

    def only(self, arms: Sequence[str]) -> TrainedAlike:
        return TrainedAlike(self.table.loc[list(arms)], self.losses.loc[list(arms)])

    def made_by(self, group: str) -> TrainedAlike:
        return self.only(self.table.index[self.table["made_by"] == group])

    def without(self, arms: Sequence[str]) -> TrainedAlike:
        return self.only([arm for arm in self.table.index if arm not in set(arms)])


class Influence(NamedTuple):
    """A law without the allocations that weigh most in it, the heaviest first, each time fitted anew."""

    left_out: tuple[str, ...]
    leverage: float  # of the allocation left out last, in the fit that still had it; NaN for the whole
    law: Law


def compared(results: Results, **condition: float | None) -> TrainedAlike:
    """Arms with every seed under a condition (arguments of :func:`allocation_table`).

    Raises:
        MissingDataError: no such runs.
    """
    table = allocation_table(results, **condition)
    losses = losses_by_seed(runs_under(results, **condition))
    kinds = {name: recipe.kind for name, recipe in {**recipes_50(), **recipes_20()}.items()}
    table["made_by"] = [_MADE_BY.get(kinds.get(arm, ""), BUILT) for arm in table.index]
    arms = [arm for arm in table.index if arm in losses.index]
    return TrainedAlike(table.loc[arms], losses.loc[arms])


def predictors(
    comparison: TrainedAlike,
    measures: Sequence[str] = PREDICTORS,
    *,
    values: pd.DataFrame | None = None,
    over: Callable[..., NDArray] = np.mean,
    given: str | Mapping[str, str] = "T",
) -> pd.DataFrame:
    """How well each measure ranks the allocations. Index: measure. Columns: Spearman's rho ``value``, its 95 % interval
    ``low, high`` over arms and seeds, ``p_value`` by permutation and ``holm`` (the measures of this table), the partial
    rho with ``given`` held fixed and its interval, ``count``. A partial rho that most resamples do not define (among
    allocations where Lambda follows T) has no interval.

    ``values`` ranks by something else than the late loss (arm x seed), taken over seeds by ``over``. ``given`` names
    what is held fixed, for all measures or for each; a measure that is held fixed itself has no partial rho.

    Raises:
        InvalidInputError: too few allocations.
    """
    values = comparison.losses if values is None else values.loc[comparison.losses.index]
    if len(values) < _FEWEST:
        raise InvalidInputError(f"{len(values)} allocations are too few to correlate; at least {_FEWEST} are needed")
    y_K = over(values.to_numpy(), axis=-1)
    arm_RK, y_RK = two_way_resamples(values.to_numpy(), over=over)
    rows = {}
    for measure in measures:
        x_K = comparison.table[measure].to_numpy(float)
        if len(set(x_K)) == 1:  # as T among allocations of one total
            continue
        rank = rank_correlation(x_K, y_K, resamples=9999)
        low, high = percentile_interval(spearman(x_K[arm_RK], y_RK))
        row = {"value": rank.value, "low": low, "high": high, "p_value": rank.p_value}
        held = given if isinstance(given, str) else given.get(measure, "")
        row |= _partial(comparison.table, x_K, y_K, arm_RK, y_RK, held)
        rows[measure] = row | {"count": len(values)}
    ranked = pd.DataFrame.from_dict(rows, orient="index")
    ranked.insert(4, "holm", holm(ranked["p_value"]))
    return ranked


def _partial(table: pd.DataFrame, x_K, y_K, arm_RK, y_RK, held: str) -> dict[str, float]:
    fixed_K = table[held].to_numpy(float) if held else np.zeros(len(x_K))
    nothing = {"partial": np.nan, "partial_low": np.nan, "partial_high": np.nan}
    # 1/T is T to a rank correlation: nothing is left of a measure that is held fixed itself.
    if len(set(fixed_K)) == 1 or abs(float(spearman(x_K, fixed_K))) > 1 - 1e-9:
        return nothing
    low, high = percentile_interval(partial_spearman(x_K[arm_RK], y_RK, fixed_K[arm_RK]))
    value = float(partial_spearman(x_K, y_K, fixed_K))
    return {"partial": value, "partial_low": low, "partial_high": high}


def do_arms_differ(comparison: TrainedAlike) -> tuple[ArmsTest, str, ArmsTest]:
    """The test of all arms; the arm without which they differ least clearly, and the test without it."""
    finite = comparison.losses[np.isfinite(comparison.losses).all(axis=1)]
    whole = arms_differ(finite)
    quick = {arm: arms_differ(finite.drop(index=arm), resamples=1).p_value for arm in finite.index}
    telling = max(quick, key=quick.get)
    return whole, telling, arms_differ(finite.drop(index=telling))


def influence(table: pd.DataFrame, features: Sequence[str] = ("V", "E"), most: int = 4) -> list[Influence]:
    """The law of all allocations, then without the one of most leverage, and so on ``most`` times."""
    ended, left_out = table[np.isfinite(table["loss"])], []
    steps = [Influence((), np.nan, noise_law(ended, features))]
    for _ in range(most):
        leverage_K = steps[-1].law.leverage_K
        heaviest = int(np.argmax(leverage_K))
        left_out.append(ended.index[heaviest])
        ended = ended.drop(index=left_out[-1])
        steps.append(Influence(tuple(left_out), float(leverage_K[heaviest]), noise_law(ended, features)))
    return steps


def explained_as_written(table: pd.DataFrame) -> float:
    """Share of the losses' variance that slopes written down before the runs explain; only the level is fitted."""
    ended = table[np.isfinite(table["loss"])]
    left = ended["loss"] - sum(slope * ended[name] for name, slope in WRITTEN_BEFORE.items())
    return 1 - float(left.var(ddof=0) / ended["loss"].var(ddof=0))


class PositionLeak(NamedTuple):
    """Does where the scarce blocks stand in the model show in what arm + seed leave of the loss?"""

    correlation: float
    reassigned: tuple[float, ...]  # the same with the seeds' orders exchanged among the seeds, every other way
    shuffled_arms: int  # arms whose blocks are permuted by seed; all of them share one order a seed
    orders: int


def position_leak(comparison: TrainedAlike, specs: Sequence[RunSpec] | None = None) -> PositionLeak:
    """Correlation of the mean of 1/c over the first four blocks with the loss, both within arm and seed. Exploratory:
    with three orders there are six ways to exchange them, so no p-value below 1/6 can come of it."""
    specs = EXPERIMENT.specs("standard", empty_runs()) if specs is None else specs
    seeds = list(comparison.losses.columns)
    front = pd.DataFrame(np.nan, index=comparison.losses.index, columns=seeds)
    shuffled = set()
    for spec in specs:
        settings = spec.settings
        usual = settings["lr"] == 2e-2 and spec.alpha == 1.0 and spec.recipe.num_clients == 20
        if usual and spec.arm in front.index and settings["seed"] in seeds:
            popularity_M = spec.recipe.build().popularity_M
            front.loc[spec.arm, settings["seed"]] = float((1 / popularity_M[:_FRONT_BLOCKS]).mean())
            shuffled |= {spec.arm} if spec.recipe.shuffle is not None else set()
    left_KS = left_of(comparison.losses.to_numpy())
    by_order = [
        float(np.corrcoef(left_of(front.to_numpy()[:, list(order)]).ravel(), left_KS.ravel())[0, 1])
        for order in itertools.permutations(range(len(seeds)))
    ]
    return PositionLeak(by_order[0], tuple(by_order[1:]), len(shuffled), len(seeds))


def conditions(results: Results) -> dict[str, TrainedAlike]:
    """Every condition that has runs."""
    there = {}
    for title, condition in CONDITIONS.items():
        try:
            there[title] = compared(results, **condition)
        except MissingDataError:
            continue
    return there


def equal_total(comparison: TrainedAlike, total: int = 80) -> TrainedAlike:
    """The allocations of one total, where the amount of VRAM explains nothing."""
    return comparison.only(comparison.table.index[comparison.table["T"] == total])


def balanced_over_papers(fleets: int = 20, num_clients: Sequence[int] = (20, 50), num_blocks: int = 12) -> pd.DataFrame:
    """Measures of ``balanced`` over those of the paper's method at equal budgets: each fleet as drawn, and with up to
    two and up to four blocks a client held back (the paper's reductions). One row a budget vector."""
    rng = np.random.default_rng(0)
    rows = []
    for count, draw, most in itertools.product(num_clients, range(fleets), (0, 2, 4)):
        budget_N = np.maximum(1, fleet_budgets(count, num_blocks, draw) - rng.integers(0, most + 1, count))
        problem = AllocationProblem(budget_N, num_blocks)
        ours, papers = (
            allocation_measures(Allocation(solve(problem, solver).allocation.A_MN))
            for solver in ("balanced", "lexicographic")
        )
        rows.append({name: ours[name] / papers[name] for name in ("lambda", "V", "E", "D", "N_eff", "T", "min_c")})
    return pd.DataFrame(rows)
