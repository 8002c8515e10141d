"""What README says of the study of allocations, recomputed from the stored tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from zorba_core.allocation import Allocation, AllocationProblem, solve
from zorba_core.study.experiments import lambda_study, read_results
from zorba_core.study.experiments.lambda_study import BUILT, RANDOM, SOLVED
from zorba_core.study.experiments.measures import allocation_measures
from zorba_core.study.experiments.recipes import fleet_budgets
from zorba_core.study.experiments.resampling import holm
from zorba_core.study.ledger import convergence_rows
from zorba_core.study.ledger.verdicts import paired

ROOT = Path(__file__).resolve().parents[3]
README = " ".join((ROOT / "artifacts/report/README.md").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def results():
    return read_results("lambda", root=ROOT / "artifacts/experiments")


@pytest.fixture(scope="module")
def main(results):
    return lambda_study.compared(results)


def ranked(found, measure, **given):
    return lambda_study.predictors(found, [measure], **given).loc[measure]


def interval(row, what=""):
    value, low, high = (
        row[name] for name in ((f"{what}", f"{what}_low", f"{what}_high") if what else ("value", "low", "high"))
    )
    return f"{value:+.2f} ({low:.2f} to {high:.2f})"


def test_solvers_allocations_and_those_built_by_hand_are_told_apart(main):
    groups = main.table["made_by"].value_counts().to_dict()
    assert groups == {SOLVED: 12, BUILT: 19, RANDOM: 2}
    assert {"full", "balanced-4", "lexicographic", "two-level-60", "exact-100"} <= set(main.made_by(SOLVED).table.index)
    assert {"hub-pile", "eleven-scarce", "scenario-120"} <= set(main.made_by(BUILT).table.index)


def test_lambda_ranks_solvers_allocations_and_not_those_built_by_hand(main):
    solved, built = (ranked(main.made_by(group), "lambda") for group in (SOLVED, BUILT))
    assert (
        f"with {interval(solved)} over the 12 that solvers return, {interval(built)} over the 19 built by hand"
        in README
    )
    assert f"{interval(ranked(main, 'lambda'))} over all; intervals resample allocations and seeds" in README
    assert solved["low"] > 0 > built["value"]
    follows = stats.spearmanr(main.made_by(SOLVED).table[["T", "lambda"]]).statistic
    assert f"T, which Λ follows there ({follows:.2f})" in README


def test_at_an_equal_number_of_blocks_nothing_is_decided(main):
    held = lambda_study.predictors(main)
    assert f"Λ has {interval(held.loc['lambda'], 'partial')} and V {interval(held.loc['V'], 'partial')}" in README
    given_v = ranked(main, "inverse_T", given="V")
    assert f"1/T with V held fixed {interval(given_v, 'partial')}" in README
    for row in (held.loc["lambda"], held.loc["V"], given_v):
        assert row["partial_low"] < 0 < row["partial_high"]
    equal = lambda_study.predictors(lambda_study.equal_total(main))
    assert (equal["count"] == 13).all()
    assert (equal["holm"] > 0.05).all()


def test_two_measures_rank_all_allocations_after_the_correction(main):
    found = lambda_study.predictors(main)
    assert sorted(found.index[found["holm"] < 0.05]) == ["V", "inverse_T"]
    told = [
        f"{found.loc[name, 'value']:+.2f}, {found.loc[name, 'low']:.2f} to {found.loc[name, 'high']:.2f}"
        for name in ("inverse_T", "V")
    ]
    assert f"only 1/T ({told[0]}) and V ({told[1]}) rank all 33" in README


def test_the_law_came_out_as_written_and_rests_on_few_allocations(main):
    steps = lambda_study.influence(main.table)
    law = steps[0].law
    written = lambda_study.WRITTEN_BEFORE
    assert (
        f"grows by {written['V']:g} V + {written['E']:g} E (an earlier test) grew by {law.slope_F[0]:.3f} V + "
        f"{law.slope_F[1]:.4f} E (standard errors {law.standard_error_F[0]:.3f} and {law.standard_error_F[1]:.4f})"
    ) in README
    assert np.abs(law.slope_F - list(written.values())) == pytest.approx(
        [0, 0], abs=0.5 * law.standard_error_F.min() + 0.005
    )
    assert steps[1].left_out == ("eleven-scarce",)
    assert (
        f"{law.r2_left_out:.0%} of the variance of those left out, {steps[1].law.r2_left_out:.0%} without "
        f"`eleven-scarce` (leverage {steps[1].leverage:.2f}), {steps[4].law.r2_left_out:.0%} without the "
        "four of most leverage"
    ).replace("%", " %") in README


def test_leaving_out_is_fitting_without(main):
    """The shortcut through leverages against fits made anew."""
    table = main.table
    law = lambda_study.influence(table, most=1)[1].law  # of all but the heaviest, which is eleven-scarce
    rest = table.drop(index="eleven-scarce")
    design = np.column_stack([np.ones(len(rest)), rest["V"], rest["E"]])
    assert [law.intercept, *law.slope_F] == pytest.approx(np.linalg.lstsq(design, rest["loss"], rcond=None)[0])
    assert law.leverage_K.sum() == pytest.approx(3)


def test_whether_allocations_differ_at_all_under_other_conditions(results):
    found = {name: lambda_study.do_arms_differ(each) for name, each in lambda_study.conditions(results).items()}
    p = {name: whole.p_value for name, (whole, _, _) in found.items()}
    assert f"tuned for each (p = {p['Dir(1.0), own η']:.2f}) or with 50 clients (p = {p['50 clients']:.2f})" in README
    iid, uneven = found["IID"], found["Dir(0.1)"]
    assert iid[1] == uneven[1] == "hub3-pile"
    assert (
        f"on IID rows (p = {iid[0].p_value:.3f}) and on very uneven ones (Dir(0.1), p = {uneven[0].p_value:.2f}) they "
        f"differ through `hub3-pile` alone (without it p = {iid[2].p_value:.2f} and {uneven[2].p_value:.2f})"
    ) in README


def test_what_still_ranks_under_other_conditions_is_named(results):
    told = {}
    for title, condition in lambda_study.CONDITIONS.items():
        found = lambda_study.predictors(lambda_study.compared(results, **condition))
        found = found[found["holm"] < 0.05]
        told[title] = (
            [f"({row.value:+.2f}, {row.low:.2f} to {row.high:.2f})" for row in found.itertuples()],
            list(found.index),
        )
    (v, total), measures = told["Dir(1.0), own η"]
    assert measures == ["V", "inverse_T"]
    assert f"at tuned rates 1/T {total} and V {v} still rank" in README
    (noise, effective), measures = told["Dir(0.1)"]
    assert measures == ["E", "inverse_N_eff"]
    assert f"on Dir(0.1) E {noise} and 1/N_eff {effective}; Λ in neither" in README
    assert told["IID"] == told["50 clients"] == ([], [])


def test_the_noise_of_seeds_is_as_large_as_most_differences(results):
    found = {name: lambda_study.do_arms_differ(each) for name, each in lambda_study.conditions(results).items()}
    p = {name: whole.p_value for name, (whole, _, _) in found.items()}
    assert p["Dir(1.0), η = 0.02"] < 1e-5
    assert found["Dir(1.0), η = 0.02"][0].standard_error == pytest.approx(0.026, abs=5e-4)
    for whole, _, without in found.values():  # the permutations need no normal noise, and agree
        assert (whole.p_value < 0.05) == (whole.p_permuted < 0.07)
        assert without.arms == whole.arms - 1


def test_balanced_has_the_papers_measures_at_equal_budgets():
    ratios = lambda_study.balanced_over_papers()
    told = [f"{ratios[name].min():.2f} to {ratios[name].max():.2f}" for name in ("V", "lambda", "E")]
    assert f"({told[0]}, {told[1]} and {told[2]} times, {len(ratios)} budgets)" in README
    assert (ratios["min_c"] == 1).all()


def test_balanced_is_faster_than_the_papers_method_and_more_clients_count_than_at_the_lowest_lambda():
    timed = json.loads((ROOT / "artifacts/benchmarks/allocation.json").read_text(encoding="utf-8"))["scaling"]
    first = next(row for row in timed if row["solver"] == "balanced" and row["num_clients"] == 50)
    assert f"{first['times_faster_than_paper']:.0f} times faster for 50 clients" in README
    problem = AllocationProblem(fleet_budgets(50, 12, 0), 12, total=120)
    even, lowest = (
        allocation_measures(Allocation(found.allocation.A_MN))["N_eff"]
        for found in (solve(problem, objective="v"), solve(problem, "exact"))
    )
    assert f"at 120 blocks {even:.0f} of 50 clients count, {lowest:.0f} at the lowest Λ" in README


def test_orders_of_blocks_are_shared_by_the_shuffled_allocations(main):
    leak = lambda_study.position_leak(main)
    assert (leak.shuffled_arms, leak.orders, len(leak.reassigned)) == (23, 3, 5)
    assert leak.correlation > max(leak.reassigned)
    assert "23 of the 33 allocations have their blocks shuffled, all by the same three orders" in README


def test_a_planted_effect_of_position_is_found_only_in_its_own_order(main):
    """A loss made of the early blocks' popularities alone: the true order of each seed explains it, others do not."""
    front = pd.DataFrame(0.0, index=main.losses.index, columns=main.losses.columns)
    for spec in lambda_study.EXPERIMENT.specs("standard", lambda_study.empty_runs()):
        if spec.settings["lr"] == 2e-2 and spec.alpha == 1.0 and spec.recipe.num_clients == 20:
            front.loc[spec.arm, spec.settings["seed"]] = (1 / spec.recipe.build().popularity_M[:4]).mean()
    leak = lambda_study.position_leak(lambda_study.TrainedAlike(main.table, front))
    assert leak.correlation == pytest.approx(1)
    assert max(leak.reassigned) < 0.9


def test_the_last_blocks_are_worse_than_the_first_in_every_seed():
    runs = read_results("ablations", root=ROOT / "artifacts/experiments").runs
    by_seed = runs.pivot_table(index="seed", columns="arm", values="late_loss")
    accuracy = runs.groupby("arm")["late_accuracy"].mean()
    apart = paired(runs, "last 4 blocks", "first 4 blocks", "late_loss")
    assert (by_seed["last 4 blocks"] > by_seed["first 4 blocks"]).all()
    assert (
        f"{apart.value:.2f} nats higher ({apart.low:.2f} to {apart.high:.2f}, three of three seeds; accuracy "
        f"{accuracy['last 4 blocks']:.2f} against {accuracy['first 4 blocks']:.2f})"
    ) in README
    first = paired(runs, "first 4 blocks", "usual", "late_loss")
    assert first.low < 0 < first.high
    assert f"({max(-first.low, first.high):.2f} nats either way are not excluded)" in README
    changes = [arm for arm in by_seed if arm != "usual"]
    p = [stats.ttest_1samp(by_seed[arm] - by_seed["usual"], 0).pvalue for arm in changes]
    direct = stats.ttest_rel(by_seed["last 4 blocks"], by_seed["first 4 blocks"]).pvalue
    corrected = holm([direct, *p])
    assert f"(p = {direct:.3f}, corrected for {len(corrected)} comparisons {corrected[0]:.3f})" in README
    dropped = paired(runs, "dropped", "usual", "late_loss")
    assert f"costs {dropped.value:.2f} ({dropped.low:.2f} to {dropped.high:.2f}; corrected, undecided)" in README
    assert corrected[1 + changes.index("dropped")] > 0.05


def test_first_and_last_blocks_have_equal_measures():
    found = read_results("ablations", root=ROOT / "artifacts/experiments").runs.groupby("arm").first()
    for measure in ("lambda", "V", "E", "D", "N_eff", "T"):
        assert found.loc["first 4 blocks", measure] == found.loc["last 4 blocks", measure]


def test_the_ledgers_row_says_for_whom_lambda_ranks_and_decides_nothing_at_equal_totals(results, main):
    row = next(
        claim
        for claim in convergence_rows.rows(
            {name: read_results(name, root=ROOT / "artifacts/experiments") for name in ("lambda", "cases", "ablations")}
        )
        if claim.id == "lambda/predicts"
    )
    solved = ranked(main.made_by(SOLVED), "lambda")
    assert row.verdict == "undecided"
    assert f"{solved['value']:+.2f} ({solved['low']:+.2f} to {solved['high']:+.2f}) over the 12 {SOLVED}" in row.ours
    assert "over the 19 built by hand" in row.ours
    assert "0.098 and 0.0136, came out as 0.104 and 0.0132" in row.note
    assert "24% without eleven-scarce (leverage 0.72), -20% without the 4 heaviest" in row.note


def test_no_text_says_that_lambda_was_refuted_or_balanced_shown_to_converge():
    assert "does not predict convergence" not in README
    assert "best for V" not in README


def test_the_ledgers_row_names_the_conditions_that_repeat_nothing(results):
    quiet, single = convergence_rows._other_conditions(results)
    assert quiet == (
        "That allocations differ beyond seeds is not shown under Dir(1.0), own η (p = 0.18), 50 clients (p = 0.39)"
    )
    assert single.count("without hub3-pile") == 2
    assert "IID (p = 0.001" in single
    assert "Dir(0.1) (p = 0.033" in single
