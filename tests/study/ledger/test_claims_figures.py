"""The report's figures show every allocation, pair and arm that they are given, and what diverged is not drawn at a
number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zorba_core.plots import DARK, LIGHT
from zorba_core.plots.claims import arms_figure, lines_figure, pairs_figure, predictor_figure
from zorba_core.plots.methods import seeds_by_method


@pytest.fixture
def table():
    names = ["full", "balanced-4", "hub-pile", "twos", "eleven-scarce"]
    makers = ["returned by a solver"] * 2 + ["built by hand"] * 3
    return pd.DataFrame(
        {"lambda": [0.1, 0.5, 0.3, 2.0, 1.0], "loss": [0.5, 0.6, 0.6, 0.55, np.inf], "made_by": makers}, index=names
    )


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_each_allocation_is_one_point_of_one_group(table, palette):
    figure = predictor_figure(table, "lambda", palette)
    drawn = [name for trace in figure.data for name in trace.text]
    assert sorted(drawn) == sorted(table.index.drop("eleven-scarce"))
    assert figure.layout.xaxis.type == "log"
    assert [trace.name for trace in figure.data] == ["returned by a solver", "built by hand"]


def test_points_carry_the_noise_of_their_seeds(table):
    assert {trace.error_y.value for trace in predictor_figure(table, "lambda", LIGHT, 0.026).data} == {0.026}
    assert {trace.error_y.value for trace in predictor_figure(table, "lambda", LIGHT).data} == {None}


def test_a_pair_of_one_seed_has_no_bar():
    pairs = pd.DataFrame({"pile": ["a", "b"], "value": [0.1, 0.2], "high": [0.15, np.inf]})
    (trace,) = pairs_figure(pairs, LIGHT).data
    assert list(trace.error_x.array) == pytest.approx([0.05, 0.0])


def test_arms_have_a_band_only_where_seeds_give_an_interval():
    curves = pd.DataFrame({
        "arm": ["a", "a", "b"], "round": [0.0, 5.0, 0.0], "mean": [0.9, 0.6, 0.9],
        "low": [0.8, 0.5, -np.inf], "high": [1.0, 0.7, np.inf],
    })  # fmt: skip
    figure = arms_figure(curves, LIGHT, titles={"a": "A", "b": "B", "c": "never run"}, x="Rounds", y="Loss")
    assert [trace.name for trace in figure.data if trace.name] == ["A", "B"]
    assert sum(trace.fill == "toself" for trace in figure.data) == 1


def test_named_points_keep_their_names():
    figure = lines_figure({"line": ([1, 2], [3, 4])}, LIGHT, x="x", y="y", points={"SC1": (0.7, 0.5)}, log_y=True)
    assert list(figure.data[-1].text) == ["SC1"]
    assert figure.layout.yaxis.type == "log"


def test_a_methods_mean_ends_where_its_first_seed_stopped():
    curves = pd.DataFrame({
        "arm": ["a"] * 5, "seed": [0, 0, 1, 1, 1], "cost": [0, 5, 0, 5, 10], "value": [0.5, 0.8, 0.5, 0.6, 0.7],
        "stopped": [True, True, False, False, False],
    })  # fmt: skip
    figure = seeds_by_method(curves, LIGHT, titles={"a": "A", "b": "never run"}, x="Rounds", y="Accuracy",
                             targets={"95 %": 0.78})  # fmt: skip
    mean = next(trace for trace in figure.data if trace.name == "A")
    assert list(mean.x) == [0, 5]
    assert list(mean.y) == pytest.approx([0.5, 0.7])
    star = next(trace for trace in figure.data if trace.marker.symbol == "star")
    assert (list(star.x), list(star.y)) == ([5], [0.8])
    assert [note.text for note in figure.layout.annotations] == ["95 %"]
