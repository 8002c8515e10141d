"""How much faster: each number against a case done by hand, and the stored tables computed again with other code."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from types import MappingProxyType

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.study.experiments import read_results
from zorba_core.study.experiments.definitions import OWN
from zorba_core.study.experiments.speed import (
    area,
    outcomes,
    pooled_speed,
    speed,
    speed_table,
    target_loss,
)
from zorba_core.study.experiments.store import Results
from zorba_core.study.experiments.what_to_run import ARMS, PAPER


def test_the_area_is_the_mean_height_of_the_polygon():
    assert area([0, 10, 20], [1.0, 0.5, 0.5], 20) == pytest.approx((7.5 + 5.0) / 20)
    assert area([20, 0, 10], [0.5, 1.0, 0.5], 20) == area([0, 10, 20], [1.0, 0.5, 0.5], 20)


def test_a_run_that_diverges_keeps_the_worse_of_its_first_and_last_loss():
    assert area([0, 10], [1.0, 3.0], 20, diverged=True) == pytest.approx((20 + 30) / 20)
    assert area([0, 10], [1.0, 0.5], 20, diverged=True) == pytest.approx((7.5 + 10) / 20)
    assert area([0, 10], [1.0, math.nan], 20, diverged=True) == pytest.approx(1.0)


def test_a_curve_that_was_cut_short_has_no_area():
    with pytest.raises(InvalidInputError, match="ends at round 10, before 20"):
        area([0, 10], [1.0, 0.5], 20)


def test_twice_as_fast_in_every_seed_is_two_without_doubt():
    ratio = speed([10, 14, 20], [5, 7, 10], 24)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2, 2, 2))
    assert (ratio.seeds, ratio.reached, ratio.reached_by_paper) == (3, 3, 3)


def test_a_run_that_never_arrives_counts_the_horizon():
    ratio = speed([math.inf, 20], [12, 10], 24)
    assert ratio.value == pytest.approx(44 / 22)
    assert (ratio.reached, ratio.reached_by_paper) == (2, 1)
    assert speed([20, 12], [math.inf, math.inf], 24).value == pytest.approx(32 / 48)


def test_one_seed_gives_no_interval_and_none_no_ratio():
    assert speed([10], [5], 24)[1:3] == (0.0, math.inf)
    with pytest.raises(InvalidInputError, match="paired seeds"):
        speed([], [], 24)


def test_the_interval_draws_seeds_in_pairs():
    """Seeds differ tenfold and arms by a constant factor: unpaired resamples would spread widely."""
    paper = np.array([2.0, 20, 4, 18, 3, 22])
    ratio = speed(paper, paper / 1.5 * np.array([1, 1.02, 0.98, 1, 1.01, 0.99]), 24)
    assert 1.45 < ratio.low < ratio.value < ratio.high < 1.55


def test_pooling_takes_the_geometric_mean_of_the_cells():
    pooled = pooled_speed({("a", "x"): ([10, 10], [5, 5], 24), ("b", "x"): ([12, 12], [24, 24], 24)})
    assert pooled.value == pytest.approx(1.0)
    assert (pooled.seeds, pooled.reached) == (4, 4)


def made_results(curves_by_run, blocks=MappingProxyType({})):
    """Results of runs given as (arm, seed, role) -> losses at rounds 0, 6, 12, ...; activated blocks by arm, or 40."""
    runs, curves = [], []
    for (arm, seed, role), losses in curves_by_run.items():
        sha = f"{arm}/{seed}/{role}"
        rounds = 6 * (len(losses) - 1)
        runs.append(
            {
                "sha256": sha, "arm": arm, "seed": seed, "role": role, "status": "finished", "model": "m",
                "dataset": "d", "rounds": rounds, "initial_loss": losses[0], "late_loss": losses[-1],
                "T": blocks.get(arm, 40),
            }
        )  # fmt: skip
        curves += [{"sha256": sha, "round": 6 * place, "loss": loss} for place, loss in enumerate(losses)]
    return Results("made", "standard", pd.DataFrame(runs), pd.DataFrame(curves), (), 0)


def test_the_target_is_what_the_papers_best_trial_reached_and_only_complete_pairs_count():
    results = made_results(
        {
            ("paper", 1000, "tune"): [1.0, 0.8, 0.6],
            ("paper", 1001, "tune"): [1.0, 0.9, 0.7],
            ("paper", 0, "measure"): [1.0, 0.8, 0.6, 0.5, 0.4],
            ("gain", 0, "measure"): [1.0, 0.6, 0.5, 0.4, 0.3],
            ("paper", 1, "measure"): [1.0, 0.8, 0.6, 0.5, 0.4],
        }
    )
    assert target_loss(results, "m", "d") == pytest.approx(1.0 - 0.7 * 0.4)
    tables = outcomes(results, "m", "d", ("paper", "gain"))
    assert tables["rounds_to"].to_dict() == {"paper": {0: pytest.approx(8.4)}, "gain": {0: pytest.approx(4.2)}}
    with pytest.raises(MissingDataError, match="no complete seed"):
        outcomes(results, "m", "d", ("paper", "balanced"))
    table = speed_table(results, ("gain", "balanced"))
    assert table[["model", "arm"]].to_numpy().tolist() == [["m", "gain"], ["all", "gain"]]
    assert table["value"].to_numpy() == pytest.approx(2.0)


@pytest.mark.parametrize("name", [name for name in OWN if name != "predictors"])
def test_the_stored_tables_give_the_same_ratios_with_other_code(name, root):
    """From the Parquet files alone, in plain Python: crossings, means cut off at the horizon, and t intervals."""
    folder = root / "artifacts" / "experiments" / name / "standard"
    if not (folder / "runs.parquet").is_file():
        pytest.skip(f"nothing of {name} has been run")
    rows = pq.read_table(folder / "runs.parquet").to_pylist()
    curves = {}
    for point in pq.read_table(folder / "curves.parquet").to_pylist():
        curves.setdefault(point["sha256"], []).append((point["round"], point["loss"]))
    table = speed_table(read_results(name, "standard", root / "artifacts" / "experiments"), tuple(ARMS))
    for expected in table[table["model"] != "all"].itertuples():
        cell = [row for row in rows if (row["model"], row["dataset"]) == (expected.model, expected.dataset)]
        trials = [row for row in cell if row["role"] == "tune" and row["arm"] == PAPER and row["status"] == "finished"]
        best = min(trials, key=lambda row: row["late_loss"])
        target = 0.3 * best["initial_loss"] + 0.7 * best["late_loss"]
        by_seed = {}
        for row in cell:
            if row["role"] == "measure" and row["arm"] in (PAPER, expected.arm):
                by_seed.setdefault(row["seed"], {})[row["arm"]] = plain_outcome(
                    row, sorted(curves[row["sha256"]]), target
                )
        pairs = [(pair[PAPER], pair[expected.arm]) for pair in by_seed.values() if len(pair) == 2]
        assert expected.seeds == len(pairs)
        ratio = sum(paper[0] for paper, _ in pairs) / sum(arm[0] for _, arm in pairs)
        assert expected.value == pytest.approx(ratio)
        differences = [arm[1] - paper[1] for paper, arm in pairs]
        assert expected.area == pytest.approx(statistics.fmean(differences))
        if len(pairs) > 1:
            half = stats.t.ppf(0.975, len(pairs) - 1) * statistics.stdev(differences) / math.sqrt(len(pairs))
            assert expected.area_high - expected.area == pytest.approx(half)


def plain_outcome(row, points, target):
    """(rounds to the target cut off at the horizon, area) of one run."""
    horizon = json.loads(row["config"])["request"]["settings"]["rounds"]
    if row["status"] != "finished":
        points = [point for point in points if math.isfinite(point[1])]
        worst = max(points[0][1], points[-1][1])
        points = [*points, (points[-1][0], worst), (horizon, worst)]
    crossed, total = horizon, 0.0
    for (before, high), (after, low) in itertools.pairwise(points):
        total += (after - before) * (high + low) / 2
        if row["status"] == "finished" and crossed == horizon and low <= target:
            crossed = before + (after - before) * (high - target) / (high - low) if high > target else before
    return crossed, total / horizon
