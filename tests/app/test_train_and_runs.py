"""The pages Train and Runs: a real training in the background, from Start to the deleted folder."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from app.parts import jobs
from app.parts import runs as run_folders
from tests.app.conftest import texts
from zorba_core.allocation import Allocation
from zorba_core.errors import RunError

STORED = "sst2-opt-mini-3a199a00"


@pytest.fixture
def train(app):
    app.query_params["clients"] = "6"
    return app.run().switch_page("views/train.py")


@pytest.fixture
def stored(root, runs):
    """The committed run in the runs folder under test."""
    shutil.copytree(root / "artifacts" / "runs" / STORED, runs / STORED)
    return runs / STORED


def wait_for(job, *names, seconds=90):
    deadline = time.monotonic() + seconds
    while (state := jobs.state_of(job)).name not in names:
        assert time.monotonic() < deadline, (state, jobs.log_lines(job))
        time.sleep(0.1)
    return state


def test_the_page_shows_what_would_be_trained(train):
    said = texts(train.run())
    assert "6 clients" in said
    assert "A short check before the first round" in said
    command = next(block.value for block in train.code)
    assert command.startswith("zorba train --allocation allocation.npz --dataset toy-reviews")


@pytest.mark.parametrize(
    ("name", "value", "says"), [("rounds", 0, "Rounds is 0"), ("lr", -1.0, "Lr is"), ("batch_size", 10**9, "Batch")]
)
def test_a_setting_out_of_range_is_named_and_start_is_off(train, name, value, says):
    train.run().number_input(key=f"set_{name}").set_value(value).run()
    assert says in texts(train)
    assert train.button(key="start").disabled


def test_an_allocation_that_does_not_fit_the_vram_cannot_be_started(app):
    app.query_params["clients"], app.query_params["shape"], app.query_params["span"] = "20", "uniform", "0.59,0.7"
    app.query_params["flips"] = "_".join(f"{block}.0" for block in range(12))
    app.run().switch_page("views/train.py").run()
    assert "Too many blocks for the VRAM" in texts(app)
    assert not [button for button in app.button if button.key == "start"]


def test_a_model_of_another_depth_gets_the_same_shares(train, tiny_opt_folder):
    train.session_state["train_model"] = str(tiny_opt_folder)
    train.run()
    assert "so each client trains the same share" in texts(train)


@pytest.mark.slow
def test_a_training_runs_in_the_background_and_a_second_click_starts_no_second(train, runs):
    train.run().number_input(key="set_rounds").set_value(3).run()
    train.button(key="start").click().run()
    (job,) = jobs.list_jobs(runs)
    assert jobs.why_not_now(runs) == "A run is starting: wait for its first round."
    with pytest.raises(RunError, match="A run is starting"):
        jobs.start_training(runs, Allocation([[1]]), {"rounds": 3}, "again")
    assert train.button(key="start").disabled
    assert wait_for(job, "finished", "failed", "refused").name == "finished"
    said = texts(train.run())
    assert "Accuracy now" in [metric.label for metric in train.metric]
    assert "finished" in said
    assert not train.button(key="start").disabled
    state = jobs.state_of(job)
    shutil.rmtree(state.run)  # deleted elsewhere: the open page says so and does not blame the memory
    said = texts(train.run())
    assert "Its folder was deleted" in said
    assert "memory" not in said


@pytest.mark.slow
def test_a_stopped_training_resumes(train, runs):
    train.run().number_input(key="set_rounds").set_value(400).run()
    train.button(key="start").click().run()
    (job,) = jobs.list_jobs(runs)
    wait_for(job, "running")
    time.sleep(1)
    jobs.stop(job)
    state = wait_for(job, "stopped", "finished")
    assert state.name == "stopped"
    resumed = jobs.start_resume(runs, state.run, 400, job.title)
    wait_for(resumed, "running")
    jobs.stop(resumed)
    wait_for(resumed, "stopped")
    assert "stopped" in texts(train.run())


def test_without_runs_the_page_says_how_to_make_one(app):
    assert "There is no run yet" in texts(app.switch_page("views/runs.py").run())


def test_the_table_has_what_was_measured(app, stored):
    app.switch_page("views/runs.py").run()
    texts(app)
    row = app.dataframe[0].value.iloc[0]
    summary = json.loads((stored / "summary.json").read_text())
    assert (row["run"], row["rounds"], row["state"]) == (STORED, 150, "finished")
    assert row["best accuracy"] == pytest.approx(summary["best_accuracy"])


def test_an_unreadable_folder_hides_no_run(app, stored, runs):
    (runs / "broken").mkdir()
    said = texts(app.switch_page("views/runs.py").run())
    assert "broken" in said
    assert STORED in list(app.dataframe[0].value["run"])


@pytest.mark.slow
def test_a_run_answers_and_is_evaluated(app, stored):
    app.switch_page("views/runs.py").run()
    app.text_input[0].set_value("a wonderful film")
    next(button for button in app.button if button.label == "Predict").click().run()
    assert "after training" in texts(app)


def test_deleting_asks_and_then_removes_the_folder_alone(app, stored, runs):
    (runs / "note.txt").write_text("kept")
    app.switch_page("views/runs.py").run()
    assert "cannot be undone" in texts(app)
    app.button(key="delete").click().run()
    assert "There is no run yet" in texts(app)
    assert not stored.exists()
    assert (runs / "note.txt").is_file()


def test_a_link_out_of_the_folder_is_not_deleted(stored, runs, tmp_path):
    (runs / "linked").symlink_to(stored)
    with pytest.raises(Exception, match="remove it by hand"):
        run_folders.delete(runs / "linked")
    assert stored.is_dir()
