"""Curves and outcomes of runs as numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from zorba_core.study.comparison import Curve, Record, group_of, smoothed


def test_smoothing_leaves_a_constant_curve_alone_and_keeps_the_raw_one():
    rounds = np.arange(5.0)
    flat = smoothed(Curve("a", rounds, np.full(5, 0.3), rounds), 0.9)
    np.testing.assert_allclose(flat.y_P, 0.3)
    jump = smoothed(Curve("a", rounds, np.array([0.0, 0, 1, 1, 1]), rounds), 0.5)
    # Debiased: weights 1/2^k of the past, divided by their sum.
    np.testing.assert_allclose(jump.y_P, [0, 0, 4 / 7, 12 / 15, 28 / 31])
    np.testing.assert_array_equal(jump.raw_P, [0, 0, 1, 1, 1])


def test_the_interval_of_a_mean_is_students():
    rounds = np.arange(2.0)
    group = group_of("g", [Curve("a", rounds, np.full(2, value), rounds) for value in (1.0, 2.0, 3.0)], "interval")
    # t(0.975, 2) = 4.302653, standard error 1 / sqrt(3)
    np.testing.assert_allclose(group.high_P - group.y_P, 4.302652729 / np.sqrt(3))


def test_a_run_of_a_group_that_has_ended_counts_with_its_last_value():
    short = Curve("a", np.array([0.0, 2.0]), np.array([0.0, 2.0]), np.array([0.0, 2.0]))
    long = Curve("b", np.array([1.0, 4.0]), np.array([3.0, 6.0]), np.array([1.0, 4.0]))
    group = group_of("g", [short, long], "range")
    np.testing.assert_array_equal(group.x_P, [1.0, 2.0, 4.0])
    np.testing.assert_allclose(group.y_P, [2.0, 3.0, 4.0])
    assert group.held_from == 2.0
    assert [x_P.tolist() for x_P, _ in group.seeds] == [[0.0, 2.0], [1.0, 4.0]]
    assert group_of("g", [long, long], "range").held_from is None


def record(name, accuracy, *, arm=None, bias=1.0, **config):
    metrics = pd.DataFrame(
        {
            "round": np.arange(len(accuracy)),
            "train_loss": np.nan,
            "eval_loss": 1 - np.asarray(accuracy),
            "eval_accuracy": accuracy,
            "seconds": 1.0 * np.arange(len(accuracy)),
            "work": 10.0 * np.arange(len(accuracy)),
            "bytes": 100.0 * np.arange(len(accuracy)),
        }
    )
    summary = {"allocation": {"lambda": bias}, "vram_gib": {"total": 1.0}}
    return Record(name, config, {}, metrics, summary, "finished", arm=arm)


FOUR = [
    record("a0", [0.5, 0.6], arm="a", bias=0.5, lr=0.01, seed=0, target=0.7),
    record("a1", [0.5, 0.8], arm="a", bias=0.5, lr=0.01, seed=1, target=0.7),
    record("b0", [0.5, 0.7], arm="b", bias=2.0, lr=0.02, seed=0, target=0.7),
    record("b1", [0.5, 0.9], arm="b", bias=2.0, lr=0.02, seed=1, target=0.7),
]
