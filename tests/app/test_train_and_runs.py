"""The pages Train and Runs: a real training in the background, from Start to the deleted folder."""

from __future__ import annotations

import binascii
import json
import os
import shutil
import time

import pytest

from app.parts import forms, jobs
from app.parts import runs as run_folders
from tests.app.conftest import texts
from zorba_core.allocation import Allocation
from zorba_core.engine.settings import LARGE_ROUNDS
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.runs import read_run
from zorba_core.runs.log import LOG

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


def wait_for(job, *names, seconds=400):
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
    assert command.startswith("zorba train --allocation allocation.json --dataset toy-reviews")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("set_rounds", 0, "Rounds is 0"),
        ("set_batch_size", 10**9, "Batch"),
        ("train_clients", 0, "Clients is 0"),
        ("set_mu", 0.0, "Step μ is"),
    ],
)
def test_a_setting_out_of_range_is_named_and_start_is_off(train, name, value, says):
    train.run().number_input(key=name).set_value(value).run()
    assert says in texts(train)
    assert train.button(key="start").disabled


def test_an_allocation_that_does_not_fit_the_vram_cannot_be_started(app):
    app.query_params["clients"], app.query_params["shape"], app.query_params["span"] = "20", "uniform", "0.59,0.7"
    app.query_params["flips"] = "_".join(f"{block}.0" for block in range(12))
    app.query_params["total"] = "30"
    app.run().switch_page("views/train.py").run()
    assert "Too many blocks for the VRAM" in texts(app)
    assert [button.disabled for button in app.button if button.label == "Start"] == [True]


@pytest.mark.parametrize("typed", ["-1", "fast"])
def test_a_learning_rate_that_is_none_is_named_and_start_is_off(train, typed):
    train.run().text_input(key="set_lr").set_value(typed).run()
    assert "Learning rate is" in texts(train)
    assert train.button(key="start").disabled


@pytest.mark.parametrize(("clients", "says"), [(1, "choose more"), (1000, "he fleet has 6 clients")])
def test_too_few_or_too_many_clients_say_so_and_start_is_off(train, clients, says):
    train.run().number_input(key="train_clients").set_value(clients).run()
    assert says in texts(train)
    assert [button.disabled for button in train.button if button.label == "Start"] == [True]


def test_a_model_of_another_depth_gets_the_same_shares(train, tiny_opt_folder):
    train.session_state["train_model"] = str(tiny_opt_folder)
    train.run()
    assert "so each client trains the same share" in texts(train)


def test_a_large_model_trains_eight_clients_and_says_what_to_expect(app, monkeypatch):
    monkeypatch.setattr(forms, "is_large_model", lambda model: True)
    app.query_params["clients"] = "20"
    train = app.run().switch_page("views/train.py")
    said = texts(train.run())
    assert "8 of the fleet's 20 clients" in said
    assert "in place of" in said  # both values of Lambda
    assert train.button(key="start").disabled
    train.checkbox[0].check().run()
    assert not train.button(key="start").disabled
    assert f"--rounds {LARGE_ROUNDS}" in " ".join(block.value for block in train.code)
    train.number_input(key="train_clients").set_value(6).run()
    train.checkbox[0].check().run()
    train.number_input(key="set_batch_size").set_value(2).run()
    train.button(key="expect").click().run()
    assert "200 rows" in (said := texts(train))
    assert "a round of 6 clients takes" in said


def test_rows_of_ones_own_are_shown_as_the_model_reads_them(train):
    rows = "\n".join(f"{n},my parcel {n} never came,{'shipping' if n % 2 else 'billing'}" for n in range(40))
    train.run().selectbox(key="train_rows").set_value(forms.OWN).run()
    assert "Upload a file" in texts(train)
    train.file_uploader(key="rows_file").upload("tickets.csv", f"id,text,topic\n{rows}\n".encode(), "text/csv").run()
    said = texts(train)
    assert "40 rows, 2 labels" in said
    assert any("my parcel 0 never came" in block.value for block in train.code)
    assert not train.button(key="start").disabled
    assert "--label topic" in " ".join(block.value for block in train.code)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""), ("b.csv", b"text\n\n"), ("c.parquet", b"PAR1"), ("d.xlsx", b"PK\x03\x04"), ("e.json", b"{"),
        ("f.csv", b"\xff\xfe\x00"), ("g.jsonl", b"[1]\n"), ("h.csv", b"text,label\na,b\n"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_table_is_explained_and_start_is_off(train, name, content):
    train.run().selectbox(key="train_rows").set_value(forms.OWN).run()
    train.file_uploader(key="rows_file").upload(name, content, "text/plain").run()
    texts(train)
    assert train.warning
    assert train.button(key="start").disabled


@pytest.mark.slow
def test_a_training_runs_in_the_background_until_it_is_stopped_and_no_second_start_is_let_in(train, runs):
    train.run().number_input(key="set_rounds").set_value(4000).run()
    train.text_input(key="set_lr").set_value("0.01").run()
    train.button(key="start").click().run()
    (job,) = jobs.list_jobs(runs)
    assert jobs.why_not_now(runs) == "A run is starting: wait for its first round."
    with pytest.raises(RunError, match="A run is starting"):
        jobs.start_training(runs, Allocation([[1]]), {"rounds": 3}, "again")
    assert train.button(key="start").disabled
    wait_for(job, "running")
    assert "Accuracy now" in [metric.label for metric in train.run().metric]
    jobs.stop(job)
    state = wait_for(job, "stopped")
    assert "stopped" in texts(train.run())
    assert "Resume" in [button.label for button in train.button]
    assert not train.button(key="start").disabled
    shutil.rmtree(state.run)  # deleted elsewhere: the open page says so and does not blame the memory
    said = texts(train.run())
    assert "Its folder was deleted or renamed" in said
    assert "memory" not in said


def test_a_job_that_is_stopped_before_its_first_round_says_so(runs, monkeypatch):
    popen = jobs.subprocess.Popen
    monkeypatch.setattr(jobs.subprocess, "Popen", lambda words, **more: popen(["sleep", "60"], **more))
    job = jobs.start_training(runs, None, {"rounds": 3}, "asleep")
    assert jobs.memory_of(job) > 0
    jobs.stop(job)
    state = wait_for(jobs.list_jobs(runs)[0], "stopped", seconds=30)
    assert state.reason == "stopped before the first round"
    assert jobs.memory_of(job) is None


def test_start_takes_a_number_that_was_typed_just_before_the_click(train, monkeypatch):
    asked_for = []

    def refuse(folder, allocation, request, title):
        asked_for.append(request["rounds"])
        raise RunError("not in this test")

    monkeypatch.setattr(jobs, "start_training", refuse)
    train.run().number_input(key="set_rounds").set_value(3)
    train.button(key="start").click().run()
    assert "Not in this test" in texts(train)
    train.number_input(key="set_rounds").set_value(0)
    train.button(key="start").click().run()
    assert "Rounds is 0" in texts(train)
    assert asked_for == [3]


def test_without_runs_the_page_says_how_to_make_one(app):
    assert "There is no run yet" in texts(app.switch_page("views/runs.py").run())


def test_the_table_has_what_was_measured(app, stored):
    app.switch_page("views/runs.py").run()
    texts(app)
    row = app.dataframe[0].value.iloc[0]
    summary = json.loads((stored / "summary.json").read_text())
    assert (row["run"], row["rounds"], row["state"]) == (STORED, 150, "finished")
    assert (row["accuracy (%)"], row["best (%)"]) == pytest.approx(
        (100 * summary["final_accuracy"], 100 * summary["best_accuracy"])
    )


def test_table_and_tiles_of_a_run_show_the_same_numbers(app, stored):
    app.switch_page("views/runs.py").run()
    row, tiles = app.dataframe[0].value.iloc[0], {metric.label: metric.value for metric in app.metric}
    assert tiles["Accuracy, before → last"].endswith(f"→ {row['accuracy (%)']:.1f}%")
    assert tiles["Best accuracy"] == f"{row['best (%)']:.1f}%"


def test_a_run_is_renamed_and_stays_chosen_and_a_bad_name_is_refused(app, stored, runs):
    app.switch_page("views/runs.py").run()
    for name, says in (("../else", "is no name of a run"), (STORED, ""), ("mine", "")):
        app.text_input(key=f"name_{STORED}").set_value(name)
        next(button for button in app.button if button.label == "Rename").click().run()
        assert says in texts(app)
    assert list(app.dataframe[0].value["run"]) == ["mine"]
    assert (runs / "mine" / "config.json").is_file()
    assert not stored.exists()
    shutil.copytree(runs / "mine", runs / "other")
    with pytest.raises(InvalidInputError, match="there is a run mine already"):
        run_folders.rename(runs / "other", "mine")


def sign(folder):
    """Continue the CRC of a changed config through the log's lines, as one run with this config would have."""
    lines, crc = (folder / LOG).read_bytes().splitlines(), binascii.crc32((folder / "config.json").read_bytes())
    for index, line in enumerate(lines):
        text = line.rpartition(b',"crc"')[0]
        crc = binascii.crc32(text, crc)
        lines[index] = text + f',"crc":"{crc:08x}"}}\n'.encode()
    (folder / LOG).write_bytes(b"".join(lines))


def copies(stored, runs, **changes):
    """Runs like the stored one with other settings."""
    for index, (name, change) in enumerate(changes.items()):
        shutil.copytree(stored, runs / name)
        config = json.loads((runs / name / "config.json").read_text())
        (runs / name / "config.json").write_text(json.dumps({**config, **change}))
        sign(runs / name)
        os.utime(runs / name / "config.json", (index, index))
    return [read_run(runs / name) for name in changes]


def test_runs_that_differ_only_in_their_seed_are_like_and_what_differs_is_flat(stored, runs):
    one, two, other = copies(stored, runs, one={"seed": 1}, two={"seed": 2}, other={"lr": 0.5, "alpha": 9.0})
    assert run_folders.like(one) == run_folders.like(two) != run_folders.like(other)
    differing = run_folders.differences([one, other])
    assert {"seed", "lr", "alpha"} <= set(differing.index)
    assert all("{" not in value for value in differing.to_numpy().ravel())


def test_runs_on_other_rows_are_warned_about_and_like_runs_become_one_curve(app, stored, runs):
    copies(stored, runs, one={"seed": 1}, two={"seed": 2})
    copies(stored, runs, news={"dataset": "toy-reviews"})
    app.query_params["run"] = ["one", "two"]
    app.switch_page("views/runs.py").run()
    assert "different rows" not in texts(app)
    app.toggle(key="together").set_value(True).run()
    texts(app)
    app.query_params["run"] = ["one", "news"]
    assert "different rows (sst2, toy-reviews)" in texts(app.run()).replace("\\", "")


def test_an_unreadable_folder_hides_no_run(app, stored, runs):
    (runs / "broken").mkdir()
    said = texts(app.switch_page("views/runs.py").run())
    assert "broken" in said
    assert STORED in list(app.dataframe[0].value["run"])


def test_a_run_that_comes_or_goes_elsewhere_leaves_the_chosen_one_chosen(app, stored, runs):
    app.switch_page("views/runs.py").run()
    chosen = app.text_input[0].key
    for name in ("newer", "newest"):
        shutil.copytree(stored, runs / name)
        (runs / name / "config.json").touch()
        texts(app.run())
        assert app.text_input[0].key == chosen
    shutil.rmtree(stored)
    texts(app.run())
    assert list(app.dataframe[0].value["run"]) in (["newer", "newest"], ["newest", "newer"])


@pytest.mark.slow
def test_a_run_answers_and_is_evaluated(app, stored):
    app.switch_page("views/runs.py").run()
    app.text_input(key=f"try_{STORED}_text").set_value("a wonderful film")
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
    with pytest.raises(Exception, match="change it by hand"):
        run_folders.delete(runs / "linked")
    assert stored.is_dir()
