"""What the experiments' figures draw is what their tables hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zorba_core.allocation import Allocation
from zorba_core.plots.experiments import matrices_figure, predictors_figure, seeds_figure
from zorba_core.plots.paired import paired_curves_figure

TABLE = pd.DataFrame(
    {
        "lambda": [0.05, 0.26, 0.8, 3.0],
        "V": [0.05, 0.17, 0.17, 0.3],
        "loss": [0.5, 0.55, 0.53, np.inf],
        "made_by": ["returned by a solver", "built by hand", "built by hand", "built by hand"],
    },
    index=["full", "hub-pile", "hub-spread", "starved-3"],
)


def test_rows_end_with_their_popularity_scarcest_on_top():
    figure = matrices_figure({"one": Allocation([[1, 1, 1], [1, 0, 0], [1, 1, 0]])})
    assert list(figure.layout.yaxis.ticktext) == ["1", "2", "3"]
    assert np.asarray(figure.data[0].z).sum(axis=1).tolist() == [1, 2, 3]
    assert np.asarray(figure.data[0].z)[:, 0].tolist() == [1, 1, 1]  # the client with most blocks


def test_each_seed_is_a_line_and_an_interval_that_one_seed_cannot_give_is_not_drawn():
    table = pd.DataFrame({"SC1": [0.5, 0.6], "SC2": [0.4, 0.5]}, index=[0, 7])
    figure = seeds_figure(table, {"SC1": (0.55, 0.5, 0.6), "SC2": (0.45, -np.inf, np.inf)}, y="loss")
    assert [trace.name for trace in figure.data] == ["seed 0", "seed 7", "mean, 95 % interval"]
    assert list(figure.data[1].y) == [0.6, 0.5]
    assert list(figure.data[2].error_y.array) == pytest.approx([0.05, 0.0])
    assert list(figure.data[2].error_y.arrayminus) == pytest.approx([0.05, 0.0])


def test_every_allocation_that_did_not_diverge_is_in_every_panel_once():
    figure = predictors_figure(TABLE, ["lambda", "V"], y="loss")
    for axis, measure in (("x", "lambda"), ("x2", "V")):
        drawn = {
            name: (x, y)
            for trace in figure.data
            if trace.xaxis == axis
            for name, x, y in zip(trace.text, trace.x, trace.y, strict=True)
        }
        ended = TABLE.drop(index="starved-3")
        assert drawn == {name: (row[measure], row["loss"]) for name, row in ended.iterrows()}
    assert [trace.name for trace in figure.data if trace.showlegend] == ["returned by a solver", "built by hand"]


def test_points_carry_the_noise_of_their_seeds():
    figure = predictors_figure(TABLE, ["lambda"], y="loss", standard_error=0.026)
    assert {trace.error_y.value for trace in figure.data} == {0.026}


def test_a_paired_curve_shows_each_seed_and_an_interval_only_where_seeds_give_one():
    curves = pd.DataFrame(
        {"arm": ["first", "first", "last"], "round": [0, 5, 5], "mean": [0.0, 0.1, 0.2], "low": [0.0, 0.05, -np.inf],
         "high": [0.0, 0.15, np.inf], "count": [2, 2, 1], "by_seed": [{0: 0.0, 7: 0.0}, {0: 0.08, 7: 0.12}, {7: 0.2}]}
    )  # fmt: skip
    figure = paired_curves_figure(curves, {"first": "First", "last": "Last", "never": "Never run"}, x="Rounds", y="d")
    assert [note.text for note in figure.layout.annotations] == ["First", "Last"]
    assert [trace.name for trace in figure.data] == [
        "seed 0", "seed 7", "mean, 95 % interval", "seed 7", "mean, 95 % interval",
    ]  # fmt: skip
    assert list(figure.data[1].y) == [0.0, 0.12]
    assert list(figure.data[2].error_y.array) == pytest.approx([0.0, 0.05])
    assert list(figure.data[4].error_y.array) == [0.0]
    assert len([shape for shape in figure.layout.shapes if shape.y0 == shape.y1 == 0]) == 2
