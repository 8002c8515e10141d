"""Our own claims: decided by intervals alone, waiting without runs, and apart from the paper's."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from tests.study.experiments.test_speed import made_results
from tests.study.ledger.test_claims import ROW
from zorba_core.report.page import render
from zorba_core.study.experiments.definitions import OWN
from zorba_core.study.experiments.design import FEATURES
from zorba_core.study.experiments.predictor_study import Predicting
from zorba_core.study.experiments.speed import Speedup
from zorba_core.study.experiments.store import Results
from zorba_core.study.ledger import own_rows, predictor_rows
from zorba_core.study.ledger.claims import OURS, Ledger


def ratio(value, low, high, seeds=6):
    return Speedup(value, low, high, seeds, seeds, seeds)


@pytest.mark.parametrize(
    ("found", "goal", "faster"),
    [
        (ratio(2.4, 1.6, 3.0), "reproduced in shape", "reproduced in shape"),
        (ratio(1.9, 1.6, 3.0), "undecided", "reproduced in shape"),
        (ratio(2.4, 1.4, 3.0), "undecided", "reproduced in shape"),
        (ratio(1.2, 1.1, 1.4), "contradicted", "reproduced in shape"),
        (ratio(1.0, 0.8, 1.3), "contradicted", "undecided"),
        (ratio(0.8, 0.7, 0.9), "contradicted", "contradicted"),
        (ratio(2.4, 1.6, 3.0, seeds=2), "cannot be tested here", "cannot be tested here"),
        (None, "cannot be tested here", "cannot be tested here"),
    ],
)
def test_the_words_follow_from_the_interval_alone(found, goal, faster):
    assert own_rows.judge_goal(found) == goal
    assert own_rows.judge_speed(found) == faster


def test_without_runs_every_claim_waits_and_says_how_to_make_them():
    claims = own_rows.rows(dict.fromkeys(OWN))
    assert {claim.verdict for claim in claims} == {"cannot be tested here"}
    assert all(claim.id.startswith(OURS) and claim.how.startswith("zorba experiment ") for claim in claims)
    assert all(any(item.endswith("PLAN.md") for item in claim.evidence) for claim in claims)
    assert len({claim.id for claim in claims}) == len(claims) >= 10


def runs_where(arm, factor, seeds=5):
    """The paper's runs reach 0.6 at round 12; the arm's at 12 / factor."""
    curves = {("paper", 1000, "tune"): [1.0, 0.8, 0.6]}
    for seed in range(seeds):
        slope = 0.4 / 12 * (1 + 0.01 * seed)
        curves["paper", seed, "measure"] = [1.0 - slope * t for t in range(0, 25, 6)]
        curves[arm, seed, "measure"] = [1.0 - slope * factor * t for t in range(0, 25, 6)]
    results = made_results(curves)
    return Results("what-to-run", "standard", results.runs, results.curves, (), 0)


def by_id(results):
    return {claim.id: claim for claim in own_rows.rows({"what-to-run": results, "parts": None, "predictors": None})}


def test_an_arm_that_is_faster_in_every_seed_is_shown_and_one_that_is_slower_contradicted():
    fast = by_id(runs_where("gain", 1.5))["ours/speed/gain"]
    assert fast.verdict == "reproduced in shape"
    assert "1.50 (1.50 to 1.50, 5 pairs)" in fast.ours
    slow = by_id(runs_where("gain", 0.7))["ours/speed/gain"]
    assert slow.verdict == "contradicted"
    assert "m on d" in slow.counter_example


def test_the_goal_takes_a_factor_of_two_and_names_the_cells_that_are_missing():
    goal = by_id(runs_where("candidate", 2.5))["ours/goal"]
    assert goal.verdict == "reproduced in shape"
    assert "llama-mini on sst2" in goal.note
    assert by_id(runs_where("candidate", 1.3))["ours/goal"].verdict == "contradicted"


@pytest.mark.parametrize(
    ("blocks", "factor", "verdict"),
    [(20, 1.5, "reproduced in shape"), (30, 1.5, "undecided"), (20, 0.7, "contradicted"), (20, 1.0, "undecided")],
)
def test_a_quarter_of_the_blocks_is_counted_and_compared_with_all_of_them(blocks, factor, verdict):
    curves = {("paper", 1000, "tune"): [1.0, 0.8, 0.6]}
    for seed in range(4):
        for arm, of_arm in (("full", 1.0), ("gain", factor)):
            curves[arm, seed, "measure"] = [1.0 - 0.4 / 12 * of_arm * t for t in range(0, 25, 6)]
    claim = by_id(made_results(curves, {"full": 100, "gain": blocks}))["ours/quarter"]
    assert claim.verdict == verdict
    assert f"with {blocks}% of the blocks" in claim.ours


def between(values, seeds=4):
    table = pd.DataFrame(
        [{"value": value, "low": low, "high": high} for value, low, high in values], index=list(FEATURES)
    )
    return Predicting(table, seeds, "m on d")


@pytest.mark.parametrize(
    ("first", "rest", "verdict"),
    [
        ((0.5, 0.2, 0.7), (0.0, -0.3, 0.3), "reproduced in shape"),
        ((0.0, -0.3, 0.3), (0.5, 0.2, 0.7), "contradicted"),
        ((0.2, -0.3, 0.6), (0.5, 0.2, 0.7), "undecided"),
        ((-0.4, -0.6, -0.1), (0.0, -0.3, 0.3), "contradicted"),
    ],
)
def test_lambda_is_judged_against_the_other_measures(first, rest, verdict):
    assert predictor_rows.judge_lambda(between([first, rest, rest, rest])) == verdict
    assert predictor_rows.judge_lambda(between([first, rest, rest, rest], seeds=2)) == "cannot be tested here"


def test_the_page_shows_ours_apart_and_does_not_count_them_among_the_papers():
    from dataclasses import replace

    mine = replace(ROW, id="ours/goal", where="ours: the goal", claim="ours is twice as fast")
    ledger = Ledger({}, (ROW, mine))
    assert ledger.ours == (mine,)
    assert ledger.papers.claims == (ROW,)
    page = render(ledger, [])
    assert "<p>1 rows, one for each claim" in page
    assert 'id="ours"' in page
    assert "Ours is twice as fast" in page
    assert 'id="ours"' not in render(Ledger({}, (ROW,)), [])


def test_runs_of_a_predictor_are_correlated_within_matrices_and_between_them(monkeypatch):
    """Areas made of one measure and of the gain of each run: both come out, and no other measure does."""
    from zorba_core.study.experiments import predictor_study, predictors
    from zorba_core.study.experiments.design import stored_design

    design, rng = stored_design(), np.random.default_rng(0)
    specs = predictors.EXPERIMENT.specs("standard", rated())
    specs = [s for s in specs if (s.model, s.dataset) == ("opt-mini", "toy-reviews") and s.role == "measure"]
    facts = predictor_study.BlockFacts.of(12, [12.0, 6, 3, *[1.0] * 9], 3.0)
    monkeypatch.setattr(predictor_study, "stored_facts", lambda *cell: (facts.energy_M, facts.noise_M))
    x_K = (design.features_KF[:, 2] - design.features_KF[:, 2].mean()) / design.features_KF[:, 2].std()
    runs, curves = [], []
    for spec in [spec for spec in specs if spec.seed < 4]:
        k = int(spec.arm.split("-")[1])
        phi = predictor_study.gain(spec.recipe.build().A_MN, facts)
        loss = 1.0 + 0.05 * x_K[k] - 0.05 * math.log(phi) + 0.005 * rng.standard_normal()
        runs.append(
            {
                "sha256": spec.sha256, "arm": spec.arm, "seed": spec.seed, "role": "measure", "status": "finished",
                "model": spec.model, "dataset": spec.dataset, "rounds": 24,
                "config": predictor_config(spec),
            }
        )  # fmt: skip
        curves += [{"sha256": spec.sha256, "round": t, "loss": loss} for t in (0, 24)]
    results = Results("predictors", "standard", pd.DataFrame(runs), pd.DataFrame(curves), (), 0)
    cell = ("opt-mini", "toy-reviews")
    found = predictor_study.predicting(results, [cell])
    assert found.seeds == 4
    assert found.table["value"].idxmax() == "E"
    assert found.table.loc["E", "least"] > 0.5
    assert predictor_study.within_matrices(results, [cell]).value > 0.75
    assert predictor_study.differing(results, [cell]).p_permuted < 0.01
    assert predictor_study.gain_between(results, [cell]).low > 0  # E is a part of it
    claims = {claim.id: claim for claim in own_rows.rows({"predictors": results})}
    assert claims["ours/predicts/gain"].verdict == "reproduced in shape"
    assert "That matrices differ at all: p = 0.0" in claims["ours/predicts/lambda"].note
    assert "All cells without one matrix: log_lambda" in claims["ours/predicts/lambda"].note

    # A second cell whose losses are ten times as large and turned round: units do not count, and cells disagree.
    other = replace_cell(results, "llama-mini", lambda loss: 20 - 10 * loss)
    both = joined(results, other)
    assert predictor_study.cells_with(both, 4) == [cell, ("llama-mini", "toy-reviews")]
    assert predictor_study.cells_with(both, 5) == []
    assert abs(predictor_study.within_matrices(both, predictor_study.cells_with(both, 4)).value) < 0.1
    same = joined(results, replace_cell(results, "llama-mini", lambda loss: 10 * loss))
    together = predictor_study.predicting(same, predictor_study.cells_with(same, 4))
    assert together.seeds == 8
    assert together.table["value"].to_dict() == pytest.approx(found.table["value"].to_dict())
    claims = {claim.id: claim for claim in own_rows.rows({"predictors": both})}
    assert claims["ours/predicts/gain"].verdict == "undecided"
    assert "llama-mini on toy-reviews" in claims["ours/predicts/gain"].counter_example
    assert claims["ours/predicts/lambda"].note.count("4 seeds") == 2


def replace_cell(results, model, change):
    """The same runs as those of another base, their losses changed."""
    curves = results.curves.assign(sha256=results.curves["sha256"] + model, loss=change(results.curves["loss"]))
    runs = results.runs.assign(model=model, sha256=results.runs["sha256"] + model)
    return dataclasses.replace(results, runs=runs, curves=curves)


def joined(*parts):
    runs, curves = (pd.concat([getattr(part, name) for part in parts]) for name in ("runs", "curves"))
    return dataclasses.replace(parts[0], runs=runs, curves=curves)


def predictor_config(spec):
    from zorba_core.files import to_json

    return to_json({"request": spec.request(), "run": {}})


def rated():
    from tests.study.experiments.test_own_experiments import with_trials

    return with_trials(OWN["predictors"])
