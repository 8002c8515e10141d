"""Numbers from an experiment's table, on tables whose answers are known."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from notebooks.reproduction import statistics as st
from tests.reproduction.tables import table_of
from zorba_core.errors import InvalidInputError


def test_a_target_is_reached_between_two_evaluations_or_later_than_the_last():
    table = table_of(
        {"a": {0: [0.5, 0.6, 0.8, 0.7], 1: [0.5, 0.6, 0.6, 0.6], 2: [0.9, 0.9, 0.9, 0.9]}}, column="accuracy"
    )
    reached = st.rounds_to_target(table, 0.75).set_index("seed")
    assert reached[["low", "high"]].to_numpy().tolist() == [[5, 10], [15, math.inf], [0, 0]]
    assert st.rounds_to_target(table, 0.75, "forward_passes").set_index("seed").loc[0, "high"] == 100
    median = st.median_rounds(reached.reset_index()).iloc[0]
    assert (median["low"], median["high"], median["reached"], median["seeds"]) == (5, 10, 2, 3)
    assert st.rounds_text(5, 10) == "5 to 10"
    assert st.rounds_text(15, math.inf) == "more than 15"


def test_differences_are_taken_seed_by_seed_over_the_last_third():
    table = table_of(
        {"a": {0: [9, 9, 9, 1.0], 1: [9, 9, 9, 2.0]}, "b": {0: [9, 9, 9, 0.5], 1: [9, 9, 9, 1.7], 2: [9] * 4}}
    )
    assert st.paired(table, "a", "b")["difference"].tolist() == pytest.approx([0.5, 0.3])
    assert st.paired(table, "a", "never").empty


def test_a_run_that_diverged_counts_as_its_base_model_and_as_worst_for_a_rate():
    table = table_of({"a": {0: [1.0, 1.0], 1: [1.0, 7.0]}, "b": {0: [0.9, 0.5], 1: [1.0, 0.5]}})
    table.loc[(table["arm"] == "a") & (table["seed"] == 1), "status"] = "diverged"
    assert st.paired(table, "a", "b")["difference"].tolist() == pytest.approx([0.5, 0.5])
    lost = table[(table["arm"] != "a") | (table["seed"] != 1) | (table["round"] == 0)]  # ended with an error
    assert st.paired(lost, "a", "b")["difference"].tolist() == pytest.approx([0.5, 0.5])
    trials = [table_of({"a": {0: [1.0, loss]}}, role="trial", lr=lr) for lr, loss in ((1, 0.5), (2, 0.4), (4, 0.1))]
    trials = pd.concat(trials)
    assert st.best_rates(trials).iloc[0][["lr", "on_edge"]].tolist() == [4, True]
    trials.loc[trials["lr"] == 4, "status"] = "returned"
    assert st.best_rates(trials).iloc[0][["lr", "on_edge"]].tolist() == [2, False]


def test_the_cost_of_a_loss_is_interpolated_and_a_base_model_that_has_it_is_left_out():
    table = table_of({"a": {0: [1.0, 0.8, 0.6, 0.7], 1: [1.0, 0.9, 0.9, 0.9], 2: [0.6, 0.5, 0.5, 0.5]}})
    reached = st.cost_to_loss(table, 0.7).set_index("seed")
    assert list(reached.index) == [0, 1]
    assert reached.loc[0, "low"] < 7.5 < reached.loc[0, "high"]
    assert (reached.loc[1, "low"], reached.loc[1, "high"]) == (15, math.inf)
    passes = st.cost_to_loss(table, 0.7, "forward_passes").set_index("seed")
    assert passes.loc[0, "high"] == pytest.approx(75, rel=0.01)


def test_of_an_unfinished_table_the_largest_block_of_arms_and_seeds_counts():
    table = table_of({"a": {0: [1.0, 0.5], 1: [1.0, 0.4]}, "b": {0: [1.0, 0.6], 1: [1.0, 0.7]}, "c": {0: [1.0, 0.9]}})
    losses = st.losses_by_seed(table)
    assert (sorted(losses.index), list(losses.columns)) == (["a", "b"], [0, 1])


def test_at_equal_v_a_measure_that_follows_v_has_no_correlation_left():
    rng = np.random.default_rng(3)
    v = rng.normal(size=40)
    shadow, loss = v + rng.normal(0, 0.5, 40), v[:, None] + rng.normal(0, 0.3, (40, 6))
    assert st.rank_correlation(shadow, loss).low > 0.4
    alone = st.partial_rank_correlation(shadow, v, loss)
    assert alone.low < 0 < alone.high


def test_a_pooled_claim_counts_cells_and_not_runs():
    cells = [
        table_of({"a": {s: [2.0, 1.0 + d] for s in range(5)}, "b": {s: [2.0, 1.0] for s in range(5)}}, base=base)
        for base, d in (("x", 0.1), ("y", 0.3))
    ]
    by_cell = st.by_cell(st.paired(pd.concat(cells), "a", "b"))
    assert by_cell["value"].tolist() == pytest.approx([0.1, 0.3])
    assert by_cell["count"].tolist() == [5, 5]
    mean = st.mean_interval(by_cell["value"])
    assert (mean.value, mean.count) == (pytest.approx(0.2), 2)
    assert mean.high - mean.value == pytest.approx(stats.t.ppf(0.975, 1) * 0.1)
    assert st.mean_interval(by_cell["value"][:1]).high == math.inf
    with pytest.raises(InvalidInputError, match="at least one value"):
        st.mean_interval([])


def test_a_placebo_is_compared_with_the_arm_that_it_repeats():
    table = table_of({"a": {0: [2.0, 1.0], 1: [2.0, 1.2]}, "a again": {0: [2.0, 1.1], 1: [2.0, 1.1]}})
    table["placebo_of"] = np.where(table["arm"] == "a again", "a", "")
    assert st.placebo_differences(table)["difference"].tolist() == pytest.approx([0.1, -0.1])


def test_the_ratio_of_rounds_known_exactly_has_students_interval():
    logs = np.log([2.0, 3.0, 4.0, 3.5, 1.5])
    ours, exact = st.log_ratio(logs - 1e-3, logs + 1e-3), st.mean_interval(logs)
    assert ours.value == pytest.approx(exact.value, abs=0.005)
    assert (ours.low, ours.high) == (pytest.approx(exact.low, abs=0.01), pytest.approx(exact.high, abs=0.01))


def test_runs_that_did_not_arrive_bound_a_ratio_on_one_side():
    assert st.log_ratio([-math.inf, -math.inf], [math.inf, math.inf]) is None
    bounded = st.log_ratio([math.log(2)] * 4, [math.inf] * 4)
    assert bounded.value == math.inf
    assert bounded.low > 0
    slow, fast = [0.5, 0.6, 0.7, 0.7, 0.8], [0.5, 0.8, 0.8, 0.8, 0.8]
    table = table_of({"slow": {s: slow for s in range(4)}, "fast": {s: fast for s in range(4)}}, column="accuracy")
    ratio = st.cost_ratio(st.rounds_to_target(table, 0.75), "slow", "fast").iloc[0]
    assert ratio["low"] > 2
    assert ratio["count"] == 4


@pytest.mark.parametrize(
    ("differences", "alike"),
    [([0.001, -0.001, 0.002, 0.0], True), ([0.1, 0.11, 0.09, 0.1], False), ([0.0, 0.03, -0.02, 0.01], None)],
)
def test_arms_are_alike_where_the_interval_lies_within_the_margin(differences, alike):
    assert st.is_alike(differences, 0.01) is alike


def test_a_rank_correlation_samples_arms_and_seeds():
    x = np.arange(12.0)
    loss = x[:, None] + np.random.default_rng(0).normal(0, 0.1, (12, 4))
    assert st.rank_correlation(x, loss).value == pytest.approx(1.0)
    assert st.rank_correlation(-x, loss).high < 0
    noise = st.rank_correlation(x, np.random.default_rng(1).normal(size=(12, 4)))
    assert noise.low < 0 < noise.high
    with pytest.raises(InvalidInputError):
        st.rank_correlation(np.ones(12), loss)


def test_whether_arms_differ_is_the_f_test_of_a_two_way_layout():
    rng = np.random.default_rng(0)
    alike = rng.normal(size=(1, 5)) + rng.normal(0, 0.1, (6, 5))
    assert st.arms_differ(alike) > 0.01
    assert st.arms_differ(alike + np.arange(6)[:, None]) < 1e-6
    with pytest.raises(InvalidInputError):
        st.arms_differ(np.full((3, 3), np.inf))


def test_a_summary_has_a_row_for_each_arm_with_the_cost_of_a_round():
    table = table_of({"a": {0: [1.0, 0.8, 0.6, 0.5]}, "b": {0: [1.0, 0.9, 0.8, 0.7]}})
    rows = st.summary(table, 0.75).set_index("arm")
    assert rows["loss"].tolist() == [0.5, 0.7]
    assert rows["forward_passes"].tolist() == [10, 10]
    assert rows["high"].tolist() == [math.inf] * 2
