"""What the tables say, on tables made up so that the answer is known."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.study.experiments import analysis, lambda_study, store
from zorba_core.study.experiments.lambda_law import recipes_20
from zorba_core.study.experiments.measures import allocation_measures

ARMS = ("full", "balanced-4", "balanced-2", "balanced-1", "starved-3", "hub-pile", "hub-spread", "hub2-pile", "twos")


def results_of(loss_of, seeds=(0, 1), rates=(2e-2,), skip=(), failed=()) -> store.Results:
    """Results whose late loss is ``loss_of(measures, seed, rate)``."""
    rows, curves = [], []
    for arm in ARMS:
        measures = allocation_measures(recipes_20()[arm].build())
        for seed in seeds:
            for rate in rates:
                if (arm, seed) in skip:
                    continue
                sha, loss = f"{arm}/{seed}/{rate}", loss_of(measures, seed, rate)
                status = "failed" if (arm, seed) in failed else "finished"
                row = {name: measures[name] for name in ("lambda", "V", "E", "D", "N_eff", "T", "min_c")}
                rows.append({
                    **row, "sha256": sha, "engine_version": store.ENGINE_VERSION, "arm": arm, "role": "measure",
                    "status": status, "seed": seed, "dataset": "sst2", "alpha": 1.0, "method": "zorba",
                    "num_clients": 20, "lr": rate, "rounds": 30, "rounds_done": 30,
                    "late_loss": loss if status == "finished" else None, "late_accuracy": 0.7, "best_accuracy": 0.8,
                    "psi_gib": 1.0, "sent_paper": 300, "sent_needed": 60, "sent_bytes": 900, "work": 30,
                    "seconds": 3.0,
                })  # fmt: skip
                curves += [
                    {"sha256": sha, "round": t, "loss": loss, "accuracy": a, "forward_passes": 100 * t, "seconds": t}
                    for t, a in ((0, 0.5), (10, 0.6), (20, 0.8))
                ]
    frame = store.frame_of(rows, store.RUN_SCHEMA)
    return store.Results("lambda", "standard", frame, store.frame_of(curves, store.CURVE_SCHEMA), (), 0)


def test_a_law_of_v_and_e_is_found_again_and_lambda_does_not_rank_by_it():
    results = results_of(lambda m, seed, lr: 0.5 + 0.1 * m["V"] + 0.02 * m["E"] + seed)
    table = analysis.allocation_table(results)
    law = analysis.noise_law(table)
    assert law.slope_F == pytest.approx([0.1, 0.02])
    assert law.r2_left_out == pytest.approx(1)
    ranked = lambda_study.predictors(lambda_study.compared(results))
    assert ranked.loc["V", "value"] > ranked.loc["lambda", "value"]


def test_seeds_that_some_arms_lack_do_not_shift_the_others():
    whole = analysis.allocation_table(results_of(lambda m, seed, lr: m["V"] + 10 * seed))
    holes = analysis.allocation_table(
        results_of(lambda m, seed, lr: m["V"] + 10 * seed, skip=[("full", 1), ("twos", 1)])
    )
    assert holes["loss"].to_dict() == pytest.approx(whole["loss"].to_dict())
    assert holes["seeds"].to_dict()["full"] == 1


def test_an_arm_that_diverged_ranks_last_and_stays_out_of_the_law():
    results = results_of(lambda m, seed, lr: m["V"], failed=[("hub-pile", 1)])
    table = analysis.allocation_table(results)
    assert table.loc["hub-pile", "loss"] == math.inf
    assert table.loc["hub-pile", "diverged"] == 1
    assert analysis.noise_law(table).slope_F == pytest.approx([1, 0])
    assert math.isfinite(lambda_study.predictors(lambda_study.compared(results)).loc["V", "value"])


def test_a_tuned_rate_is_chosen_on_the_other_seeds():
    """Rate 0.02 is best on seeds 0 and 1; seed 2 alone would choose 0.01."""

    def loss_of(measures, seed, lr):
        return {0.01: 0.6, 0.02: 0.5}[lr] if seed < 2 else {0.01: 0.4, 0.02: 0.7}[lr]

    results = results_of(loss_of, seeds=(0, 1, 2), rates=(0.01, 0.02))
    assert analysis.allocation_table(results, lr=None)["loss"].tolist() == pytest.approx(
        [(0.6 + 0.6 + 0.7) / 3] * len(ARMS)
    )


def test_matched_pairs_differ_in_lambda_and_coupled_noise_alone():
    results = results_of(lambda m, seed, lr: m["E"] + 0.001 * seed * m["D"])
    table = analysis.allocation_table(results)
    pairs = analysis.matched_pairs(table, results.runs)
    assert pairs["pile"].tolist() == ["hub-pile"]
    (pair,) = pairs.itertuples()
    assert pair.lambda_pile < pair.lambda_spread
    assert pair.E_pile > pair.E_spread
    assert pair.value == pytest.approx(pair.E_pile - pair.E_spread, abs=0.01)


def test_costs_of_a_round_are_means_over_the_seeds_that_finished():
    costs = analysis.costs_of_arms(results_of(lambda m, seed, lr: 0.5, failed=[("twos", 0)])).set_index("arm")
    assert costs["seeds"].to_dict()["full"] == 2
    assert costs["seeds"].to_dict()["twos"] == 1
    assert costs.loc["full", "sent_paper_a_round"] == 10


def test_too_few_runs_are_said_with_the_command_that_makes_them():
    results = results_of(lambda m, seed, lr: m["V"])
    with pytest.raises(MissingDataError, match="zorba experiment lambda"):
        analysis.allocation_table(results, lr=0.5)
    with pytest.raises(InvalidInputError, match="too few to correlate"):
        lambda_study.predictors(lambda_study.compared(results).only(["full", "balanced-4", "twos"]))
    with pytest.raises(MissingDataError, match="no runs"):
        analysis.arm_effects(pd.DataFrame(columns=["arm", "seed", "status", "late_loss"]), "late_loss")


def test_a_paired_curve_leaves_out_what_seeds_share():
    """Seeds differ by 10, arms by 0.25: bands of the arms overlap, their differences by seed do not."""
    results = results_of(lambda m, seed, lr: 10 * seed + (0.25 if m["T"] == 240 else 0.0))
    paired = analysis.paired_curves(results.runs, results.curves, "balanced-4", arms=["full", "never run"])
    assert paired["arm"].tolist() == ["full"] * 3
    assert paired["round"].tolist() == [0, 10, 20]
    assert paired[["mean", "low", "high"]].to_numpy() == pytest.approx(np.full((3, 3), 0.25))
    assert paired["by_seed"].iloc[0] == pytest.approx({0: 0.25, 1: 0.25})


def test_a_seed_that_an_arm_lacks_is_no_pair():
    results = results_of(lambda m, seed, lr: m["V"], seeds=(0, 1, 2), skip=[("full", 1)], failed=[("full", 2)])
    assert set(analysis.paired_curves(results.runs, results.curves, "twos", arms=["full"])["count"]) == {1}
    assert "full" not in analysis.losses_by_seed(results.runs).index
