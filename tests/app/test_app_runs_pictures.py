"""The Runs page: curves and groups of seeds, and the files they are handed out as."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

from app.screens.runs.compare import summary_of_groups
from app.screens.runs.export import curves_csv, runs_json
from tests.app.written_runs import see, three_seeds, write_run
from zorba_core.plots import COSTS
from zorba_core.study.comparison import folder_records, groups, labels, panel_of

pytestmark = pytest.mark.usefixtures("no_experiments")


def test_seeds_become_one_group_with_mean_and_deviation(runs):
    three_seeds(runs)
    records = folder_records(runs).records
    behind = groups(records)
    assert sorted(behind) == ["lr 0.01", "lr 0.02"]
    frame = summary_of_groups(behind, baseline=behind["lr 0.01"][0]).set_index("group")
    assert frame.loc["lr 0.02", "best"] == pytest.approx(0.81)
    assert frame.loc["lr 0.02", "± best"] == pytest.approx(0.01)
    assert frame.loc["lr 0.02", "Δ best"] == pytest.approx(0.15)
    assert frame.loc["lr 0.01", "reached"] == "0 of 3"
    assert "last loss" not in frame
    with_loss = summary_of_groups(behind, behind["lr 0.01"][0], ("eval_loss",)).set_index("group")
    last = [run.evaluations["eval_loss"].iloc[-1] for run in behind["lr 0.02"]]
    assert with_loss.loc["lr 0.02", "last loss"] == pytest.approx(np.mean(last))
    assert with_loss.loc["lr 0.01", "Δ last loss"] == 0
    panel = panel_of(records, measure="eval_accuracy", cost="round", band="range")
    curve = next(curve for curve in panel.curves if curve.name == "lr 0.02")
    np.testing.assert_allclose(curve.y_P, [0.51, 0.71, 0.81])
    np.testing.assert_allclose(curve.high_P - curve.low_P, 0.02)


def test_single_runs_are_called_by_what_tells_them_apart(runs):
    three_seeds(runs)
    assert sorted(labels(folder_records(runs).records))[:2] == ["lr 0.01 · seed 0", "lr 0.01 · seed 1"]


def test_every_cost_that_the_page_offers_rises_from_round_to_round(runs):
    write_run(runs, [0.5, 0.6, 0.7])
    (record,) = folder_records(runs).records
    for cost in ("round", "work", "bytes", "seconds"):
        assert cost in COSTS
        assert (np.diff(record.metrics[cost]) > 0).all()
    assert record.outcome["bytes"] == record.metrics["bytes"].iloc[-1]


def test_exports_say_what_the_screen_says(runs):
    three_seeds(runs)
    records = folder_records(runs).records
    panels = [
        panel_of(records, measure=measure, cost="bytes", smoothing=0.5, band="deviation")
        for measure in ("eval_accuracy", "eval_loss")
    ]
    csv = pd.read_csv(io.BytesIO(curves_csv(panels)))
    assert {"curve", "round", "bytes", "measure", "value", "low", "high", "unsmoothed"} <= set(csv)
    assert csv["curve"].nunique() == 2
    assert set(csv["measure"]) == {"eval_accuracy", "eval_loss"}
    assert len(json.loads(runs_json(records))["runs"]) == 6


def test_several_measures_lie_over_each_other_and_none_means_accuracy(app, runs):
    three_seeds(runs)
    see(app)
    control = next(group for group in app.get("button_group") if group.key == "measure")
    control.set_value(["eval_accuracy", "eval_loss"]).run()
    layout = json.loads(app.get("plotly_chart")[0].proto.spec)["layout"]
    assert (layout["yaxis"]["title"]["text"], layout["yaxis2"]["title"]["text"]) == (
        "Validation accuracy",
        "Validation cross-entropy",
    )
    assert app.query_params["measure"] == "eval_accuracy,eval_loss"
    next(group for group in app.get("button_group") if group.key == "measure").set_value([]).run()
    assert not app.exception
    assert "yaxis2" not in json.loads(app.get("plotly_chart")[0].proto.spec)["layout"]
