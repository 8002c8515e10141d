"""Rows that need runs, on runs made up so that the verdict is known: none without seeds, none inside the noise."""

from __future__ import annotations

import pytest

from zorba_core.study.experiments import store
from zorba_core.study.experiments.statistics import Mean
from zorba_core.study.ledger import convergence_rows
from zorba_core.study.ledger.verdicts import judge, paired

BASE = {
    "engine_version": store.ENGINE_VERSION, "role": "measure", "status": "finished", "dataset": "sst2", "alpha": 1.0,
    "method": "zorba", "num_clients": 20, "num_blocks": 12, "rounds": 30, "rounds_done": 30, "lr": 2e-2, "lambda": 1.0,
    "V": 0.1, "E": 0.6, "D": 4.0, "N_eff": 20.0, "T": 80, "min_c": 2, "late_accuracy": 0.7, "best_accuracy": 0.8,
    "initial_loss": 0.88, "final_loss": 0.5, "psi_gib": 1.0, "sent_paper": 300, "sent_needed": 60, "sent_bytes": 900,
    "work": 30, "seconds": 3.0, "directions": 10,
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
    assert judge(Mean(-1.0, -2.1, 0.1, 9), expect_negative=True)[0] == "undecided"
    assert judge(Mean(-1.0, -1.1, -0.9, 3), expect_negative=True)[0] == "reproduced in shape"
    assert judge(Mean(-1.0, -1.1, -0.9, 3), expect_negative=False)[0] == "contradicted"


def test_pairs_are_runs_of_one_dataset_and_seed_that_both_finished():
    runs = results("tables", {"zorba": [0.5, 0.6, 0.7], "fedzo": [0.4, 0.4, 0.4]}).runs
    runs.loc[(runs["arm"] == "fedzo") & (runs["seed"] == 2), "status"] = "failed"
    found = paired(runs, "zorba", "fedzo", "late_loss")
    assert found.count == 2
    assert found.value == pytest.approx(0.15)


def test_equal_multisets_that_train_apart_contradict_proposition_1():
    apart = results("lambda", {"one-scarce": [0.50, 0.51, 0.52], "eleven-scarce": [0.90, 0.92, 0.90]})
    assert convergence_rows._same_lambda(apart).verdict == "contradicted"
    alike = results("lambda", {"one-scarce": [0.50, 0.51, 0.52], "eleven-scarce": [0.51, 0.50, 0.52]})
    assert convergence_rows._same_lambda(alike).verdict == "undecided"


def test_a_setting_whose_loss_stands_still_does_not_train():
    ablations = results("ablations", {"as printed": [0.88, 0.88], "usual": [0.5, 0.5]}, final_loss=0.88)
    assert convergence_rows._literal(ablations).verdict == "contradicted"
    moved = results("ablations", {"as printed": [0.6], "usual": [0.5]}, final_loss=0.6)
    assert convergence_rows._literal(moved).verdict == "cannot be tested here"
