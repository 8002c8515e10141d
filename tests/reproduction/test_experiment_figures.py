"""Figures of the experiments say what the tables say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from notebooks.reproduction.experiment_figures import (
    arm_curves_figure,
    differences_figure,
    matrices_figure,
    predictors_figure,
)
from notebooks.reproduction.statistics import paired
from tests.reproduction.tables import table_of
from zorba_core.allocation import Allocation


def test_rows_end_with_their_popularity_scarcest_on_top():
    figure = matrices_figure({"one": Allocation([[1, 1, 1], [1, 0, 0], [1, 1, 0]])})
    assert list(figure.layout.yaxis.ticktext) == ["1", "2", "3"]
    assert np.asarray(figure.data[0].z).sum(axis=1).tolist() == [1, 2, 3]
    assert np.asarray(figure.data[0].z)[:, 0].tolist() == [1, 1, 1]  # the client with most blocks


def test_an_arm_is_the_mean_of_its_seeds_within_their_range_as_far_as_all_went():
    table = table_of({"a": {0: [1.0, 0.5, 0.2], 1: [1.0, 0.7]}, "b": {0: [1.0, 0.9, 0.8]}})
    band, mean, _, other = arm_curves_figure(table).data
    assert (mean.name, other.name) == ("a (2)", "b (1)")
    assert list(mean.x) == [0, 5]
    assert list(mean.y) == pytest.approx([1.0, 0.6])
    assert list(band.y) == [1.0, 0.7, 0.5, 1.0]


def test_a_comparison_shows_its_seeds_and_an_interval_that_one_seed_cannot_give():
    table = table_of({"a": {0: [1.0, 0.6], 1: [1.0, 0.8]}, "b": {0: [1.0, 0.5], 1: [1.0, 0.5]}, "c": {0: [1.0, 0.4]}})
    shown = {name: paired(table, name, "b") for name in ("a", "c")}
    seeds, mean, _, single = differences_figure(shown, x="d", margin=0.1).data
    assert list(seeds.x) == pytest.approx([0.1, 0.3])
    assert list(mean.x) == pytest.approx([0.2])
    assert mean.error_x.array[0] > 1  # Student's t of two seeds
    assert list(single.error_x.array) == [0]


def test_every_allocation_is_in_every_panel_with_its_error():
    table = pd.DataFrame(
        {"lambda": [0.1, 1.0], "V": [0.2, 0.3], "loss": [0.5, 0.6], "error": [0.01, 0.02]}, index=["even", "hub"]
    )
    first, second = predictors_figure(table, ["lambda", "V"]).data
    assert (list(first.x), list(second.x)) == ([0.1, 1.0], [0.2, 0.3])
    assert list(first.y) == list(second.y) == [0.5, 0.6]
    assert list(first.text) == ["even", "hub"]
    assert list(first.error_y.array) == [0.01, 0.02]
