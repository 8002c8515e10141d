"""The Runs page: choosing, comparing, grouping and looking into runs, and what it says about broken folders."""

from __future__ import annotations

import io
import json
import shlex
import shutil

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from app.runs.choose import table_key
from app.runs.compare import summary_of_groups
from app.runs.export import cloud_csv, curves_csv, runs_json
from app.runs.look import repeat_command
from app.runs.table import table
from zorba_core.allocation import Allocation
from zorba_core.cli import build_app
from zorba_core.comparison import cloud_of, folder_records, groups, labels, panel_of
from zorba_core.plots import COSTS
from zorba_core.training.callbacks import RoundRecord
from zorba_core.training.run_writer import RunWriter
from zorba_core.training.settings import TrainSettings

TIMEOUT_S = 60


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def app(root, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    monkeypatch.setenv("ZORBA_RUNS", str(runs))
    monkeypatch.setenv("ZORBA_EXPERIMENTS", str(tmp_path / "none"))
    return AppTest.from_file(str(root / "app" / "main.py"), default_timeout=TIMEOUT_S)


def write_run(folder, accuracy, *, dirty=False, finished=True, name="toy", vram=1.5, **config):
    allocation = Allocation(np.array([[1, 0, 1], [1, 1, 0]]))
    asked = {"dataset": "toy-reviews", "model": "opt-mini", "target": 0.7, "num_perturbations": 2, "num_seeds": 8}
    writer = RunWriter(folder, name, {**asked, **config}, {"torch": "2.13.0", "git_dirty": dirty}, allocation)
    for t, value in enumerate(accuracy):
        writer.on_round(RoundRecord(t, 0.5 if t else None, 1 - value, value, 1.5 * t, 33 * t, 6 * t, 18 * t))
    if finished:
        writer.finish({"stopped_by": "rounds", "vram_gib": {"total": vram}})
    writer.close()
    return writer.path


def three_seeds(folder):
    for lr, accuracy in ((0.01, [0.5, 0.6, 0.65]), (0.02, [0.5, 0.7, 0.8])):
        for seed in range(3):
            write_run(folder, [value + 0.01 * seed for value in accuracy], lr=lr, seed=seed)


def see(app):
    return app.switch_page("views/runs.py").run()


def texts(app) -> str:
    parts = [*app.title, *app.markdown, *app.caption, *app.warning, *app.info, *app.subheader]
    return "\n".join(part.value for part in parts)


def pick(app, *rows):
    names = list(app.dataframe[0].value["run"])
    app.session_state[table_key(names)] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return app.run()


def test_picked_runs_stand_in_the_link_and_a_link_restores_them(app, runs, root):
    three_seeds(runs)
    see(app)
    names = list(app.dataframe[0].value["run"])
    pick(app, 1, 4)
    assert app.query_params["runs"] == [names[1], names[4]]
    fresh = AppTest.from_file(app._script_path, default_timeout=TIMEOUT_S)
    fresh.query_params["runs"] = [names[1], names[4]]
    fresh.query_params["baseline"] = names[4]
    fresh.query_params["cost"], fresh.query_params["measure"] = "bytes", "eval_loss"
    see(fresh)
    assert not fresh.exception
    assert fresh.session_state["chosen_runs"] == [names[1], names[4]]
    assert fresh.selectbox(key="baseline").value == names[4]
    assert fresh.selectbox(key="cost").value == "bytes"


def test_garbage_in_a_link_is_named_and_the_newest_runs_are_shown(app, runs):
    write_run(runs, [0.5, 0.6], seed=0)
    app.query_params["runs"] = ["<script>", "../../etc/passwd"]
    app.query_params["baseline"], app.query_params["cost"], app.query_params["smoothing"] = "x", "euros", "9e9"
    app.query_params["source"] = "../..//etc"
    see(app)
    assert not app.exception
    assert "The link names runs that are not here: \\<script\\>" in texts(app)
    assert len(app.session_state["chosen_runs"]) == 1


def test_filters_keep_what_is_asked_for_and_say_so_when_nothing_is_left(app, runs):
    write_run(runs, [0.5, 0.6], lr=0.01, dataset="sst2")
    write_run(runs, [0.5, 0.6], lr=0.02)
    see(app)
    app.multiselect(key="only_dataset").set_value(["sst2"]).run()
    assert len(app.dataframe[0].value) == 1
    app.text_input(key="find").set_value("lr 0.02").run()
    assert "No run passes these filters" in texts(app)
    app.multiselect(key="only_dataset").set_value([]).run()
    assert len(app.dataframe[0].value) == 1


def test_a_pinned_baseline_puts_differences_into_the_table(app, runs):
    write_run(runs, [0.5, 0.6, 0.8], lr=0.01)
    slow = write_run(runs, [0.5, 0.55, 0.6], lr=0.02, vram=2.0)
    see(app)
    assert not [name for name in app.dataframe[0].value if name.startswith("Δ")]
    app.selectbox(key="baseline").select(slow.name).run()
    frame = app.dataframe[0].value.set_index("run")
    other = next(name for name in frame.index if name != slow.name)
    assert frame.loc[other, "Δ best"] == pytest.approx(0.2)
    assert frame.loc[other, "Δ VRAM"] == pytest.approx(-0.5)
    assert frame.loc[slow.name, "Δ best"] == 0


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


DAMAGES = {
    "empty": (lambda path: [file.unlink() for file in path.iterdir()], "no config.json"),
    "without-metrics": (lambda path: (path / "metrics.parquet").unlink(), "zorba resume"),
    "torn-json": (lambda path: (path / "config.json").write_text('{"half": '), "not JSON"),
    "binary-summary": (lambda path: (path / "summary.json").write_bytes(b"\x89PNG\x00"), "not JSON"),
    "a-list": (lambda path: (path / "config.json").write_text("[1]"), "holds a list"),
    "other-version": (
        lambda path: pd.DataFrame({"step": [1]}).to_parquet(path / "metrics.parquet"),
        "made by another version",
    ),
    "torn-matrix": (lambda path: (path / "allocation.npz").write_bytes(b"PK\x03\x04rubbish"), "not an allocation"),
}


def test_a_damaged_folder_is_named_with_the_next_step_and_hides_no_other(app, runs):
    good = write_run(runs, [0.5, 0.6], seed=1)
    for name, (damage, says) in DAMAGES.items():
        broken = write_run(runs, [0.5, 0.6], seed=2, name=name)
        damage(broken)
        see(app)
        assert not app.exception
        assert len(app.warning) == 1, name
        told = app.warning[0].value.replace("\\", "")
        assert name in told
        assert says in told, name
        assert list(app.dataframe[0].value["run"]) == [good.name]
        shutil.rmtree(broken)


def test_many_damaged_folders_are_counted_and_the_first_named(app, runs):
    for index in range(8):
        (runs / f"stray-{index}").mkdir(parents=True)
    see(app)
    assert "8 entries are no readable runs" in app.warning[0].value
    assert "and 3 more" in app.warning[0].value


def test_a_run_with_strange_settings_is_still_shown(app, runs):
    path = write_run(runs, [0.5, 0.6])
    config = json.loads((path / "config.json").read_text())
    config |= {"target": "high", "model": ["a"], "allocation": 5, "num_perturbations": None, "dataset": {"x": 1}}
    (path / "config.json").write_text(json.dumps(config))
    see(app)
    assert not app.exception
    assert len(app.dataframe[0].value) == 1


def test_a_runs_folder_that_is_a_file_or_unreadable_is_said(app, runs, monkeypatch):
    runs.write_text("")
    see(app)
    assert "The runs folder is no folder" in texts(app)
    runs.unlink()
    runs.mkdir()

    def refuse(folder):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("zorba_core.comparison.records.list_runs", refuse)
    app.run()
    assert "The runs folder cannot be read" in texts(app)
    assert "Permission denied" in texts(app)


def test_no_runs_lead_to_the_train_page_and_to_a_command(app):
    see(app)
    assert "No runs yet" in texts(app)
    assert app.code[0].value.startswith("zorba train ")


def test_a_dirty_checkout_is_pointed_out_beside_the_curves_and_at_the_run(app, runs):
    write_run(runs, [0.5, 0.6], dirty=True)
    see(app)
    assert "1 of 1 from a checkout with uncommitted changes" in texts(app)
    assert "its commit alone does not reproduce it" in texts(app)
    app.button(key="open_provenance").click().run()
    assert not app.exception
    assert "the commit below is not all that made this run" in texts(app)


def test_the_command_that_repeats_a_run_has_only_options_that_the_command_knows(runs, root):
    write_run(runs, [0.5, 0.6])
    shutil.rmtree(runs)
    real = next((root / "artifacts" / "runs").glob("*/config.json"))
    config = json.loads(real.read_text()) | {name: True for name in ("save_model", "stop_at_target")}
    settings = {name: getattr(TrainSettings(), name) for name in TrainSettings.__dataclass_fields__}
    write_run(runs, [0.5, 0.6], **{**settings, **config})
    (record,) = folder_records(runs).records
    words = shlex.split(repeat_command(record))
    train = next(command for command in build_app().registered_commands if command.name == "train")
    import inspect

    known = {name.replace("_", "-") for name in inspect.signature(train.callback).parameters}
    assert {word.removeprefix("--") for word in words if word.startswith("--")} <= known
    assert words[:2] == ["zorba", "train"]
    assert "--save-model" in words


def test_a_run_of_another_engine_version_says_what_still_holds(app, runs):
    path = write_run(runs, [0.5, 0.6])
    environment = json.loads((path / "environment.json").read_text()) | {"engine_version": 1}
    (path / "environment.json").write_text(json.dumps(environment))
    see(app)
    assert "Made by engine version 1" in texts(app)
    assert "gives other bits" in texts(app)


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
    cloud = cloud_of(records, x="lr", y="best", kind="lr", band="range")
    dots = pd.read_csv(io.BytesIO(cloud_csv(cloud))).set_index("kind")
    assert dots.loc["lr 0.02", "best"] == pytest.approx(0.81)
    assert dots.loc["lr 0.02", "best_high"] - dots.loc["lr 0.02", "best_low"] == pytest.approx(0.02)
    assert len(dots.loc["lr 0.01", "runs"].split()) == 3
    assert len(json.loads(runs_json(records))["runs"]) == 6


@pytest.fixture
def shown(monkeypatch):
    """Figures that programs show."""
    figures = []
    monkeypatch.setattr(go.Figure, "show", lambda figure: figures.append(json.loads(figure.to_json())))
    return figures


LINKS = {
    "curves": {
        "cost": "bytes",
        "measure": "eval_accuracy,eval_loss",
        "curves": "seeds",
        "log_curves": "cost",
        "smoothing": "50",
    },
    "outcomes": {
        "picture": "outcomes",
        "along": "lr",
        "outcome": "final",
        "kind": "lr",
        "curves": "seeds",
        "band": "range",
    },
}


@pytest.mark.parametrize("view", LINKS)
def test_the_copied_program_draws_the_figure_on_the_screen(app, runs, view, shown):
    three_seeds(runs)
    names = [record.name for record in folder_records(runs).records]
    app.query_params |= {**LINKS[view], "runs": names[:5], "baseline": names[5]}
    see(app)
    assert not app.exception
    program = next(code.value for code in app.code if code.value.startswith("from zorba_core.comparison"))
    exec(compile(program, "copied", "exec"), {})
    assert shown == [json.loads(app.get("plotly_chart")[0].proto.spec)]
    assert names[5] in program


def test_the_copied_command_lists_the_runs_of_the_picture(app, runs):
    three_seeds(runs)
    see(app)
    words = next(shlex.split(code.value) for code in app.code if code.value.startswith("zorba runs"))
    done = CliRunner().invoke(build_app(), words[1:])
    assert done.exit_code == 0, done.output
    assert [row["run"] for row in json.loads(done.stdout)["runs"]] == app.session_state["chosen_runs"]


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


def test_runs_picked_in_the_table_are_ringed_among_the_outcomes(app, runs):
    three_seeds(runs)
    app.query_params |= {"picture": "outcomes", "along": "lr", "curves": "seeds"}
    see(app)
    names = list(app.dataframe[0].value["run"])
    wanted = [record.name for record in groups(folder_records(runs).records)["lr 0.02"]]
    pick(app, *(names.index(name) for name in wanted))
    ring = json.loads(app.get("plotly_chart")[0].proto.spec)["data"][-1]
    assert ring["name"] == "picked in the table"
    assert ring["x"] == [0.02]


def test_runs_that_never_reached_their_target_are_counted_not_drawn(app, runs):
    three_seeds(runs)
    app.query_params |= {"picture": "outcomes", "along": "lr", "outcome": "to_target"}
    see(app)
    assert "3 of 6 never reached their target: not drawn" in texts(app)


def test_an_axis_that_runs_do_not_have_falls_back_to_the_first(app, runs):
    three_seeds(runs)
    app.query_params |= {
        "picture": "outcomes",
        "along": "<script>",
        "outcome": "money",
        "kind": "..",
        "log_outcomes": "x,zz",
    }
    see(app)
    assert not app.exception
    assert app.selectbox(key="outcome").value == "best"


def test_one_run_alone_has_curves_and_no_outcomes(app, runs):
    write_run(runs, [0.5, 0.6])
    app.query_params["picture"] = "outcomes"
    see(app)
    assert not app.exception
    assert not [group for group in app.get("button_group") if group.key == "picture"]


def test_what_all_runs_share_is_said_once(runs):
    three_seeds(runs)
    frame = table(folder_records(runs).records)
    assert "dataset" not in frame
    assert {"run", "seed", "best", "to target", "status"} <= set(frame)
