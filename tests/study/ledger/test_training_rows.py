"""Rows that need runs, on runs made up so that the verdict is known: none without seeds, none inside the noise."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.study.experiments import store
from zorba_core.study.experiments.protocol import EASY_SHARE, target_of
from zorba_core.study.experiments.statistics import Mean
from zorba_core.study.ledger import convergence_rows, method_rows
from zorba_core.study.ledger.verdicts import judge, paired

BASE = {
    "engine_version": store.ENGINE_VERSION, "role": "measure", "status": "finished", "dataset": "sst2", "alpha": 1.0,
    "method": "zorba", "num_clients": 20, "num_blocks": 12, "rounds": 30, "rounds_done": 30, "lr": 2e-2, "lambda": 1.0,
    "V": 0.1, "E": 0.6, "D": 4.0, "N_eff": 20.0, "T": 80, "min_c": 2, "late_accuracy": 0.7, "best_accuracy": 0.8,
    "initial_loss": 0.88, "final_loss": 0.5, "psi_gib": 1.0, "sent_paper": 300, "sent_needed": 60, "sent_bytes": 900,
    "work": 30, "seconds": 3.0, "num_perturbations": 10,
}  # fmt: skip


def results(name: str, losses: dict[str, list[float]], **changes) -> store.Results:
    """One run for each arm and loss; curves fall from 0.9 to the loss, accuracies rise from 0.5 to 0.8."""
    rows, curves = [], []
    for arm, values in losses.items():
        for seed, loss in enumerate(values):
            sha = f"{arm}/{seed}"
            rows.append({**BASE, **changes, "sha256": sha, "arm": arm, "seed": seed, "late_loss": loss})
            curves += [
                {"sha256": sha, "round": 0, "loss": 0.9, "accuracy": 0.5, "forward_passes": 0, "seconds": 0.0},
                {"sha256": sha, "round": 30, "loss": loss, "accuracy": 0.8, "forward_passes": 330, "seconds": 3.0},
            ]
    frame, curve = store.frame_of(rows, store.RUN_SCHEMA), store.frame_of(curves, store.CURVE_SCHEMA)
    return store.Results(name, "standard", frame, curve, (), 0)


def claim_of(claims, name):
    return next(claim for claim in claims if claim.id == name)


def test_no_verdict_below_three_pairs_or_inside_the_noise():
    assert judge(None, expect_negative=True) == ("cannot be tested here", "")
    assert judge(Mean(-1.0, -1.1, -0.9, 2), expect_negative=True)[0] == "cannot be tested here"
    assert judge(Mean(-1.0, -2.1, 0.1, 9), expect_negative=True)[0] == "cannot be tested here"
    assert judge(Mean(-1.0, -1.1, -0.9, 3), expect_negative=True)[0] == "reproduced in shape"
    assert judge(Mean(-1.0, -1.1, -0.9, 3), expect_negative=False)[0] == "contradicted"


def test_pairs_are_runs_of_one_dataset_and_seed_that_both_finished():
    runs = results("tables", {"zorba": [0.5, 0.6, 0.7], "fedzo": [0.4, 0.4, 0.4]}).runs
    runs.loc[(runs["arm"] == "fedzo") & (runs["seed"] == 2), "status"] = "failed"
    found = paired(runs, "zorba", "fedzo", "late_loss")
    assert found.count == 2
    assert found.value == pytest.approx(0.15)


def test_table_i_has_24_cells_none_of_which_another_model_can_confirm():
    tables = results("tables", {"zorba": [0.5, 0.5, 0.5], "fedit": [0.4, 0.4, 0.4]})
    cells = [claim for claim in method_rows.rows(tables) if claim.id.startswith("table-1/")]
    assert len(cells) == 24
    assert {claim.verdict for claim in cells} == {"cannot be tested here"}
    assert claim_of(cells, "table-1/opt-125m/sst-2/zorba").ours.startswith("20 (median; 3 of 3 seeds")
    assert claim_of(cells, "table-1/opt-125m/snli/zorba").ours is None


def reaching(rounds: dict[str, list[float]], passes_a_round: dict[str, int], asked: int = 60) -> store.Results:
    """Runs whose accuracy gets from 0.5 to the target in the rounds given, and stays there; None: it never does."""
    rows, curves = [], []
    for arm, values in rounds.items():
        for seed, at in enumerate(values):
            sha, cost = f"{arm}/{seed}", passes_a_round[arm]
            rows.append({**BASE, "sha256": sha, "arm": arm, "seed": seed, "late_loss": 0.5, "rounds_done": asked})
            points = (
                [(0, 0.5), (asked, 0.6)]
                if at is None
                else [(0, 0.5), (at, target_of("sst2", EASY_SHARE)), (asked, 0.8)]
            )
            curves += [
                {
                    "sha256": sha,
                    "round": t,
                    "loss": 0.6,
                    "accuracy": accuracy,
                    "forward_passes": t * cost,
                    "seconds": 1.0,
                }
                for t, accuracy in points
            ]
    frame, curve = store.frame_of(rows, store.RUN_SCHEMA), store.frame_of(curves, store.CURVE_SCHEMA)
    return store.Results("tables", "standard", frame, curve, (), 0)


PASSES = {"zorba": 220, "decomfl": 40, "fedit": 20, "fedzo": 40}


def test_who_is_faster_is_judged_by_the_rounds_to_the_target():
    tables = reaching({"zorba": [20, 22, 24], "decomfl": [40, 44, 49], "fedit": [5, 6, 6]}, PASSES)
    claims = method_rows.rows(tables)
    assert claim_of(claims, "faster/decomfl").verdict == "reproduced in shape"
    assert claim_of(claims, "faster/decomfl").ours.startswith("0.50 times (0.4")
    assert claim_of(claims, "faster/fedit").verdict == "reproduced in shape"
    assert claim_of(claims, "faster/fedzo").verdict == "cannot be tested here"
    assert claim_of(claims, "faster/percent").ours == 23.76


def test_in_forward_passes_a_cheaper_round_counts_for_more():
    """DeComFL's rounds cost a fifth and a half of ZorBA's: behind in rounds, ahead in passes."""
    claims = method_rows.rows(reaching({"zorba": [20, 22, 24], "decomfl": [40, 44, 49]}, PASSES))
    found = claim_of(claims, "faster/decomfl-equal-passes")
    assert found.verdict == "contradicted"
    assert found.ours.startswith("2.7")
    assert "2.7" in found.counter_example


def test_a_run_that_never_reaches_the_target_counts_with_what_it_spent_if_that_tells():
    slower = method_rows._cost_ratio(
        reaching({"zorba": [20, 22, 24], "decomfl": [None, 44, None]}, PASSES), "decomfl", "rounds"
    )
    assert (slower.log.count, slower.bounds, slower.neither) == (3, 2, 0)
    assert slower.log.value == pytest.approx(np.log([20 / 60, 22 / 44, 24 / 60]).mean())
    # 60 rounds of DeComFL are 2400 passes, and ZorBA took more: which would have got there first is not known.
    passes = method_rows._cost_ratio(
        reaching({"zorba": [20, 22, 24], "decomfl": [None, 44, None]}, PASSES), "decomfl", "passes"
    )
    assert (passes.log.count, passes.neither) == (1, 2)
    nobody = method_rows._cost_ratio(reaching({"zorba": [None], "decomfl": [None]}, PASSES), "decomfl", "rounds")
    assert (nobody.log, nobody.neither) == (None, 1)


def test_the_case_study_is_contradicted_when_sc3_is_ahead_beyond_the_noise():
    arms = {"SC1": [0.52, 0.53, 0.52], "SC2": [0.52, 0.52, 0.53], "SC3": [0.42, 0.42, 0.43]}
    found = convergence_rows._cases(results("cases", arms))
    assert claim_of(found, "fig-4b/sc1-sc2").verdict == "reproduced in shape"
    assert claim_of(found, "fig-4b/sc3").verdict == "contradicted"
    assert "SC3's late loss minus SC2's" in claim_of(found, "fig-4b/sc3").counter_example


def test_equal_multisets_that_train_apart_contradict_proposition_1():
    apart = results("lambda", {"one-scarce": [0.50, 0.51, 0.52], "eleven-scarce": [0.90, 0.92, 0.90]})
    assert convergence_rows._same_lambda(apart).verdict == "contradicted"
    alike = results("lambda", {"one-scarce": [0.50, 0.51, 0.52], "eleven-scarce": [0.51, 0.50, 0.52]})
    assert convergence_rows._same_lambda(alike).verdict == "cannot be tested here"


def test_a_setting_whose_loss_stands_still_does_not_train():
    ablations = results("ablations", {"as printed": [0.88, 0.88], "usual": [0.5, 0.5]}, final_loss=0.88)
    assert convergence_rows._literal(ablations).verdict == "contradicted"
    moved = results("ablations", {"as printed": [0.6], "usual": [0.5]}, final_loss=0.6)
    assert convergence_rows._literal(moved).verdict == "cannot be tested here"
