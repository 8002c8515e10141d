"""The Runs page: choosing runs, looking into one, and what it says about broken folders."""

from __future__ import annotations

import shutil
from dataclasses import asdict

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.screens.runs import choose
from app.screens.train.jobs import JOB, JOBS, LOG, Job
from tests.app.shown import TRADE_OFF
from tests.app.written_runs import pick, picked, see, texts, three_seeds, write_run
from zorba_core.files import write_json
from zorba_core.study.comparison import folder_records

pytestmark = pytest.mark.usefixtures("no_experiments")
TIMEOUT_S = 60


def test_picked_runs_stand_in_the_link_and_a_link_restores_them(app, runs, root):
    three_seeds(runs)
    see(app)
    names = list(app.dataframe[0].value["run"])
    pick(app, 1, 4)
    assert app.query_params["runs"] == [names[1], names[4]]
    fresh = AppTest.from_file(app._script_path, default_timeout=TIMEOUT_S).switch_page(TRADE_OFF)
    fresh.query_params["runs"] = [names[1], names[4]]
    fresh.query_params["baseline"] = names[4]
    fresh.query_params["cost"], fresh.query_params["measure"] = "bytes", "eval_loss"
    see(fresh)
    assert not fresh.exception
    assert picked(fresh) == [names[1], names[4]]
    assert fresh.selectbox(key="baseline").value == names[4]
    assert fresh.selectbox(key="cost").value == "bytes"


def test_garbage_in_a_link_is_named_and_nothing_is_drawn_instead(app, runs):
    write_run(runs, [0.5, 0.6], seed=0)
    app.query_params["runs"] = ["<script>", "../../etc/passwd"]
    app.query_params["baseline"], app.query_params["cost"], app.query_params["smoothing"] = "x", "euros", "9e9"
    app.query_params["source"] = "../..//etc"
    see(app)
    assert not app.exception
    assert "These picked runs are not here any more: \\<script\\>" in texts(app)
    assert "hidden by the filters" not in texts(app)
    assert picked(app) == []
    assert "Against: `euros` is not offered here; instead: rounds." in [toast.value for toast in app.toast]


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


def test_settings_that_differ_have_columns_of_their_own(app, runs, root):
    write_run(runs, [0.5, 0.6], lr=0.01, seed=0)
    see(app)
    assert "lr" not in app.dataframe[0].value
    write_run(runs, [0.5, 0.6], lr=0.02, seed=0)
    fresh = AppTest.from_file(str(root / "app" / "main.py"), default_timeout=60)
    see(fresh)
    assert sorted(fresh.dataframe[0].value["lr"]) == [0.01, 0.02]
    assert "B" not in fresh.dataframe[0].value


def test_runs_that_a_filter_hides_stay_picked_and_the_others_are_a_press_away(app, runs):
    names = [write_run(runs, [0.5, 0.6], lr=lr, seed=0).name for lr in (0.01, 0.02)]
    app.query_params["runs"] = [names[0]]
    see(app)
    app.text_input(key="find").set_value("lr=0.02").run()
    assert "1 picked run is hidden by the filters" in texts(app)
    app.button(key="draw_what_passes").click().run()
    assert picked(app) == [names[1]]
    assert "hidden by the filters" not in texts(app)
    app.text_input(key="find").set_value("").run()
    assert sorted(picked(app)) == sorted(names)


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ("lr=0.01", [0.01]),
        ("LR=1e-2", [0.01]),
        ("--batch-size=8", [0.01, 0.02]),
        ("directions=2 lr=0.02", [0.02]),
        ("method=zorba status=finished", [0.01, 0.02]),
        ("solver=exact", [0.02]),
        ("lr=0.0", []),
        ("size=8", []),
        ("lr=", []),
    ],
)
def test_runs_are_looked_for_by_a_setting_and_its_value(runs, asked, rows):
    write_run(runs, [0.5, 0.6], lr=0.01, batch_size=8)
    write_run(runs, [0.5, 0.6], lr=0.02, batch_size=8, allocation={"solver": "exact"})
    matching = [record.config["lr"] for record in folder_records(runs).records if choose._has(record, asked)]
    assert sorted(matching) == rows


def test_a_run_is_found_under_the_title_with_which_it_was_started(app, runs):
    other = write_run(runs, [0.5, 0.6], seed=0)
    run = write_run(runs, [0.5, 0.6], seed=1)
    title = "For the talk, 2 clients"
    folder = runs / JOBS / "20260101-000000-abcdef"
    folder.mkdir(parents=True)
    write_json(folder / JOB, asdict(Job(folder.name, "train", ("zorba", "train"), 1, "ended", 0.0, 1, title)))
    (folder / LOG).write_text(f"loading\nrun {run}\n")
    see(app)
    started = app.dataframe[0].value.set_index("run")["started as"]
    assert started[run.name] == title
    assert pd.isna(started[other.name])
    app.text_input(key="find").set_value("the talk").run()
    assert list(app.dataframe[0].value["run"]) == [run.name]


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


DAMAGES = {
    "without-metrics": (lambda path: (path / "metrics.parquet").unlink(), "zorba resume"),
    "torn-json": (lambda path: (path / "config.json").write_text('{"half": '), "not JSON"),
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
