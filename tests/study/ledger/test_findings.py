"""Findings are counted beside rows, and a row for something that the paper does not claim is no contradiction."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from zorba_core.allocation.gain import BlockFacts, gain
from zorba_core.report.page import render
from zorba_core.study.experiments import what_to_run
from zorba_core.study.experiments.energies import stored_facts
from zorba_core.study.experiments.method_comparison import cost_ratio
from zorba_core.study.experiments.speed import best_trial, pooled_speed, rounds_by_cell, speed_table
from zorba_core.study.experiments.store import read_results, read_tables, results_folder
from zorba_core.study.ledger import DEFAULT_LEDGER, bound_rows, communication_rows, front_rows, read_ledger
from zorba_core.study.ledger.method_rows import ratio_text
from zorba_core.study.ledger.verdicts import paired, paired_differences


@pytest.fixture(scope="module")
def ledger(root):
    return read_ledger(root / DEFAULT_LEDGER)


def test_the_communication_cells_are_one_finding():
    wrong = [claim for claim in communication_rows.rows() if claim.verdict == "contradicted"]
    assert sum(claim.id.startswith("table-2/") for claim in wrong) == 12
    assert len({claim.finding for claim in wrong}) == 1


def test_the_committed_ledger_has_fewer_findings_than_contradicted_rows(ledger):
    found = ledger.findings("contradicted")
    assert sum(map(len, found.values())) == ledger.count()["contradicted"]
    assert len(found) == ledger.count_findings()["contradicted"] < ledger.count()["contradicted"]
    assert max(map(len, found.values())) >= 12


def test_nothing_that_the_paper_does_not_claim_is_contradicted(ledger):
    beyond = [claim for claim in ledger.claims if claim.where.startswith("not in the paper")]
    assert len(beyond) >= 4
    assert {claim.verdict for claim in beyond} == {"beyond the paper"}


def test_the_page_says_both_counts(ledger):
    page = render(ledger, [])
    counts, findings = ledger.papers.count(), ledger.papers.count_findings()
    assert f"{counts['contradicted']} contradicted rows are {findings['contradicted']} findings" in page


def test_readme_says_both_counts(ledger, root):
    text = (root / "artifacts" / "report" / "README.md").read_text(encoding="utf-8")
    counts, findings = ledger.papers.count(), ledger.papers.count_findings()
    assert f"{counts['contradicted']} rows are contradicted" in text
    assert f"{findings['contradicted']} distinct findings" in text


def test_readme_has_the_ledgers_numbers_for_methods_and_scenarios(ledger, root):
    text = " ".join((root / "artifacts" / "report" / "README.md").read_text(encoding="utf-8").split())
    by_id = {claim.id: claim for claim in ledger.claims}
    for name in ("faster/decomfl", "faster/decomfl-equal-passes", "faster/decomfl-equal-work"):
        value, interval = by_id[name].ours.split(" on ")[0].split(" times ")
        assert f"{value} times" in text, name
        assert interval.strip("()") in text, name
    assert "-0.0064 to +0.0152" in by_id["fig-4b/sc1-sc2"].ours
    assert "-0.0064 to 0.0152" in text
    assert "-0.0130 to +0.0008" in by_id["fig-4b/sc3"].ours
    assert "-0.0130 to +0.0008" in text
    assert "on SST-2" in text


def test_readme_has_the_numbers_of_the_runs_on_a_card(root):
    text = " ".join((root / "artifacts" / "report" / "README.md").read_text(encoding="utf-8").split())
    folder = root / "artifacts" / "experiments"
    cases, tables = (read_results(name, "gpu", folder) for name in ("cases", "tables"))
    assert (len(cases.finished), len(tables.finished), cases.missing, tables.missing) == (15, 39, 0, 0)
    for arm in ("SC3", "SC1"):
        apart = paired(cases.runs, arm, "SC2", "late_loss")
        assert f"{apart.low:+.4f} to {apart.high:+.4f}" in text, arm
        assert f"{apart.value:+.4f}".removeprefix("+") in text, arm
    differences = paired_differences(cases.runs, "SC1", "SC2", "late_loss")
    assert (differences > 0).all()
    for other, cost in (("decomfl", "rounds"), ("decomfl", "passes"), ("decomfl-10", "rounds"), ("fedzo", "rounds")):
        value, interval = ratio_text(cost_ratio(tables, other, cost).log).split(" times ")
        assert value in text, other
        assert interval.strip("()") in text, other
    fedit = cost_ratio(tables, "fedit", "rounds")
    assert f"in {fedit.behind} of {fedit.pairs} pairs" in text


def test_a_bound_that_a_run_without_any_step_keeps_is_not_reproduced():
    problem, _ = bound_rows._quadratic()
    still = float(np.square(problem.gradient(np.zeros(24))).sum())
    for version, theorem in (("proof", 1), ("statement", 2)):
        found = bound_rows._measured_against_bound(version, theorem)
        assert found.first == pytest.approx(still)
        assert found.last < found.average < found.first < found.bound
        assert found.verdict == "not contradicted"
    assert bound_rows._Against(2.7, 2.3, 2.5, 2.6).verdict == "reproduced"
    assert bound_rows._Against(2.7, 2.3, 2.5, 2.4).verdict == "contradicted"


def test_the_gap_to_the_optimum_is_told_in_two_steps_that_notebook_readme_and_ledger_share(ledger, root):
    claim = next(claim for claim in ledger.claims if claim.id == "fig-4a/optimum")
    readme = (root / "artifacts" / "report" / "README.md").read_text(encoding="utf-8")
    notebook = (root / "notebooks" / "03_pareto_front.ipynb").read_text(encoding="utf-8")
    for number in ("0.472", "0.364", "0.179"):
        assert number in claim.ours
        assert number in readme
        assert number in notebook


def test_the_front_of_one_fleet_is_the_methods_own_best():
    """The shortcut (the method runs only on vectors with the largest gamma*) loses nothing."""
    from zorba_core.allocation import sweep
    from zorba_core.planning.fleets import uniform_fleet
    from zorba_core.planning.memory import Workload
    from zorba_core.planning.models import model_spec

    model, workload = model_spec("opt-125m"), Workload(batch_size=8, seq_len=128)
    capacity = uniform_fleet(model, workload, 50, seed=1).capacity_N_bytes
    whole = sweep(capacity, model, workload, 60, "lexicographic", "vector", 1)
    short = sweep(capacity, model, workload, 60, "balanced", "vector", 1)
    for ratio in (0.5, 0.7, 0.9):
        expected = whole.bias_lambda_E[whole.vram_ratio_E <= ratio].min()
        assert front_rows.best_of_method(short, ratio)[0] == pytest.approx(expected, rel=0.02)


def test_readme_has_the_numbers_of_our_own_claims(ledger, root):
    text = " ".join((root / "artifacts" / "report" / "README.md").read_text(encoding="utf-8").split())
    ours = {claim.id.removeprefix("ours/"): claim for claim in ledger.ours}
    for name in ("gain", "idle", "alike", "adaptive", "full", "balanced", "lambda-exact"):
        value, interval = ours[f"speed/{name}"].ours.removesuffix(" pairs)").rsplit(", ", 1)[0].split(" (")
        assert f"{value} ({interval})" in text, name
    for name in ("goal", "part/cosine", "part/normalised", "part/hiso", "part/fedkseed", "part/meerkat"):
        assert ours[name].ours.rsplit(", ", 1)[0] + ")" in text, name
    for name in (
        "goal/lengths",
        "goal/lengths-same-bytes",
        *(f"lengths/{arm}" for arm in ("alone", "own", "both", "gain", "full")),
    ):
        assert ours[name].ours.rsplit(", ", 1)[0] + ")" in text, name
        stricter = ours[name].note.split("of that loss: ")
        assert len(stricter) == 1 or stricter[1].split(", ")[0] + ")" in text, name
    for arm in ("gain", "balanced", "full", "adaptive", "lambda-exact"):
        value, interval = ours[f"elsewhere/{arm}"].ours.removesuffix(" pairs)").rsplit(", ", 1)[0].split(" (")
        assert f"{value} ({interval})" in text, arm
    assert ours["quarter"].ours == "1.19 (1.11 to 1.26, 80 pairs) with 8% of the blocks"
    assert "with 8 % of them is 1.19 times as fast as all (1.11 to 1.26, 80 pairs)" in text
    together = ours["predicts/lambda"].note.split("All cells: ")[1]
    assert "E +0.63 (+0.13 to +0.83); D +0.39 (-0.18 to +0.69)" in together
    for measure in together.split("; "):
        assert measure.split(" ", 1)[1].removesuffix(")") in text, measure
    cells = re.findall(r"log_lambda (\S+) \(\S+ to \S+\), (\w+)", ours["predicts/lambda"].note)
    assert cells == [("+0.02", "contradicted"), ("-0.08", "undecided"), ("+0.30", "undecided"), ("+0.19", "undecided")]
    assert "cell by cell +0.02, -0.08, +0.30, +0.19: contradicted on the first" in text
    assert f"together {ours['predicts/gain'].ours}" in text
    differ = re.search(r"differ at all: (p = [^;]*?)\. All cells without", ours["predicts/lambda"].note)[1]
    assert f"in one cell alone ({differ})" in text
    without = re.search(r"; E (\S+ to \S+); D", ours["predicts/lambda"].note)[1]
    assert f"without one matrix {without}; cell by cell" in text
    between = ours["predicts/gain"].note.rsplit("alike): ", 1)[1].removesuffix(")")
    assert f"has {between.replace(' (', ' between matrices (')}; thought of afterwards" in text
    assert [value for value in re.findall(r": (\S+) \([^)]*runs\)", ours["predicts/gain"].note)] == [
        "+0.37",
        "+0.27",
        "-0.13",
        "-0.19",
    ]
    assert "-0.0007 nats of area (-0.0012 to -0.0002" in text
    assert ours["differences"].ours.startswith("-0.0007 (-0.0012 to -0.0002")


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("speed/gain", "`gain`, told each block's energy and noise"),
        ("speed/idle", "the same, blocks may stay idle"),
        ("speed/alike", "`gain` that takes all blocks as alike"),
        ("speed/adaptive", "`gain` planned again from the run's own scalars"),
        ("speed/full", "all blocks of all clients |"),
        ("speed/balanced", "`balanced`"),
        ("speed/lambda-exact", "lowest Λ"),
        ("goal", "`gain` with idle blocks, normalised step, cosine"),
        ("part/cosine", "cosine schedule alone"),
        ("part/normalised", "cosine schedule alone"),
        ("part/hiso", "HiSo; FedKSeed"),
        ("part/fedkseed", "HiSo; FedKSeed"),
        ("part/meerkat", "MEERKAT"),
    ],
)
def test_readme_says_how_firm_each_ratio_is(ledger, root, name, row):
    """Without each cell in turn; and which pooled verdicts of four cells another cell would turn."""
    claim = next(claim for claim in ledger.ours if claim.id == f"ours/{name}")
    firm = re.search(r"Without one cell (\S+ to \S+?)[;.]", claim.note + ".")[1]
    text = (root / "artifacts" / "report" / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {row}")]
    last = line.rstrip("| ").rsplit(" | ", 1)[1]
    assert firm in last
    if name.startswith("speed/"):
        assert ("without opt-mini" in last or "without either cell of opt-mini" in last) == (
            "another verdict" in claim.note
        )


def test_readme_says_what_speed_goes_with_and_what_the_first_seeds_gave(root):
    text = " ".join((root / "artifacts" / "report" / "README.md").read_text(encoding="utf-8").split())
    own = {name: read_results(name) for name in ("what-to-run", "elsewhere", "lengths")}
    arms = ("gain", "gain, blocks alike", "gain, idle blocks", "balanced", "adaptive", "lambda-exact", "full")
    rates, speeds, of_gain = [], [], []
    for name in ("what-to-run", "elsewhere"):
        for row in speed_table(own[name], arms).itertuples():
            if row.model == "all":
                continue
            best, paper = (best_trial(own[name], row.model, row.dataset, arm)["lr"] for arm in (row.arm, "paper"))
            rates.append(best / paper)
            speeds.append(row.value)
            if (name, row.arm) == ("what-to-run", "gain"):
                of_gain.append(math.log(row.value))
    assert f"{len(rates)} pairs of an arm and a cell" in text
    assert f"rank correlation of {stats.spearmanr(rates, speeds).statistic:+.2f}" in text
    half = stats.t.ppf(0.975, len(of_gain) - 1) * np.std(of_gain, ddof=1) / math.sqrt(len(of_gain))
    low, high = np.exp(np.mean(of_gain) + np.array([-half, half]))
    assert f"the interval of `gain` is {low:.2f} to {high:.2f} (t, three" in text

    shown, every_round = rounds_by_cell(own["what-to-run"], "gain"), rounds_by_cell(own["lengths"], "gain")
    first = {cell: every_round[cell].paper_S.index for cell in shown}
    for pick, said in (
        (lambda values, seeds: values.loc[seeds], "give {0:.2f} here ({1:.2f} to {2:.2f})"),
        (lambda values, seeds: values.drop(seeds), "the others {0:.2f} ({1:.2f} to {2:.2f})"),
    ):
        ratio = pooled_speed(
            {
                cell: (pick(rounds.paper_S, first[cell]), pick(rounds.arm_S, first[cell]), rounds.horizon)
                for cell, rounds in shown.items()
            }
        )
        assert said.format(*ratio) in text

    full = speed_table(own["what-to-run"], ("full",), share=0.9).iloc[-1]
    assert f"to 90 % of the loss {full.value:.2f}, {full.low:.2f} to {full.high:.2f}" in text
    llama = ("llama-mini", "toy-reviews")
    at_90 = speed_table(own["lengths"], ("gain", "lengths"), share=0.9).set_index(["model", "dataset", "arm"])
    for arm, words in (
        ("gain", "is at {0:.2f}, {1:.2f} to {2:.2f}"),
        ("lengths", "lengths too ({0:.2f}, {1:.2f} to {2:.2f})"),
    ):
        assert words.format(*at_90.loc[(*llama, arm), ["value", "low", "high"]]) in text
    directions = speed_table(own["lengths"], ("own",)).set_index(["model", "dataset"]).loc[llama]
    assert f"directions are ({directions.value:.2f}, {directions.low:.2f} to {directions.high:.2f})" in text
    less = np.mean([cell.area_S.mean() for cell in rounds_by_cell(own["what-to-run"], "full").values()])
    assert f"lower by {-less:.3f} nats" in text
    areas = [cell.area_S.to_numpy() for cell in rounds_by_cell(own["elsewhere"], "gain").values()]
    rng = np.random.default_rng(0)
    resampled = np.mean([of[rng.integers(len(of), size=(10_000, len(of)))].mean(axis=1) for of in areas], axis=0)
    low, high = np.percentile(resampled, [2.5, 97.5])
    assert f"the areas differ by {np.mean([of.mean() for of in areas]):+.3f} nats ({low:+.3f} to {high:+.3f})" in text


def test_readme_counts_the_runs_once(root):
    text = " ".join((root / "artifacts" / "report" / "README.md").read_text(encoding="utf-8").split())
    folders = [
        results_folder(name, "standard") for name in ("what-to-run", "parts", "predictors", "elsewhere", "lengths")
    ]
    runs = pd.concat([read_tables(folder)[0] for folder in folders])
    once = runs.drop_duplicates("sha256")
    assert f"{len(once):,} runs of the five experiments ({len(runs) - len(once)} serve two of them)" in text
    assert f"{once['seconds'].sum() / 3600:.1f} hours of one core" in text
    assert (runs["status"] == "finished").all()


def test_readme_says_what_fewer_evaluations_make_of_the_same_runs(root):
    text = " ".join((root / "artifacts" / "report" / "README.md").read_text(encoding="utf-8").split())
    results = read_results("lengths")
    every_third = replace(results, curves=results.curves[results.curves["round"] % 3 == 0])
    (row,) = [row for row in speed_table(every_third, ("gain",)).itertuples() if row.model == "all"]
    assert f"left out give {row.value:.2f} ({row.low:.2f} to {row.high:.2f})" in text


def test_readme_has_what_the_gain_says_of_the_arms(root):
    text = " ".join((root / "artifacts" / "report" / "README.md").read_text(encoding="utf-8").split())
    ratios = {}
    for cell in what_to_run.cells_of("standard"):
        facts = BlockFacts.of(12, *stored_facts(*cell))
        means = {}
        for arm in ("paper", "gain", "balanced", "lambda-exact", "gain, blocks alike", "full"):
            plans = [what_to_run.recipe_of_arm(arm, "standard", cell, seed).build() for seed in range(4)]
            means[arm] = np.mean([gain(plan.A_MN, facts) for plan in plans])
        for arm, mean in means.items():
            ratios.setdefault(arm, []).append(mean / means["paper"])
    said = {arm: f"{min(each):.2f} to {max(each):.2f}" for arm, each in ratios.items()}
    assert f"`gain` {said['gain']} times, `balanced` {said['balanced']} and the lowest Λ {said['lambda-exact']}" in text
    assert f"with blocks alike {said['gain, blocks alike']} and all blocks {said['full']}" in text
