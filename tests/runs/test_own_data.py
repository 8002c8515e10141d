"""Runs on rows of a user's own: what a run keeps of its task, and what resuming asks of the files."""

from __future__ import annotations

import pandas as pd
import pytest

import zorba_core as zorba
from tests.runs.resumable import ALLOCATION, SETTINGS, interrupted, resume
from zorba_core.data import load as loading
from zorba_core.data import own_rows
from zorba_core.data.infer import task_for
from zorba_core.data.templates import prompts_of, read_templates
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs import load
from zorba_core.runs.models import max_positions
from zorba_core.runs.replay import replay

ASPECTS = ("food", "staff", "room", "music", "show", "book")


def reviews() -> pd.DataFrame:
    rows = [
        {
            "remark": f"the {aspect} was {word} , row {index}",
            "verdict": verdict,
            "branch": f"branch-{index % 3}",
            "of": aspect,
        }
        for index, aspect in enumerate(ASPECTS * 6)
        for word, verdict in (("lovely", "good"), ("awful", "bad"))
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def csv(tmp_path):
    reviews().to_csv(tmp_path / "reviews.csv", index=False)
    return tmp_path / "reviews.csv"


def tuned(csv, tiny_opt_folder, tmp_path, calibration=SETTINGS.calibration, **options):
    return zorba.fine_tune(
        ALLOCATION,
        data=csv,
        model=tiny_opt_folder,
        settings=SETTINGS.replace(calibration=calibration),
        runs_folder=tmp_path / "runs",
        force=True,
        **options,
    )


def test_rows_of_ones_own_get_settings_with_which_a_small_model_learns_them(tiny_opt_folder):
    task = task_for(reviews().assign(remark=reviews().remark * 40))
    settings = load.suited_settings(task, tiny_opt_folder, {})
    assert (settings.direction, settings.directions, settings.schedule) == ("low-rank", 200, "cosine")
    assert settings.seq_len == max_positions(tiny_opt_folder)  # the rows are longer
    assert load.suited_settings(task, tiny_opt_folder, {"directions": 7}).directions == 7
    assert load.suited_settings(task, tiny_opt_folder, {"estimator": "cohort"}).directions == 10  # real forward passes


def test_rows_of_which_most_have_one_label_are_calibrated_by_the_base_model(tiny_opt_folder, caplog):
    """The centred loss ended at 0.36 where always the commonest of six labels gives 0.85, and base at 0.94."""
    rows = [{"text": f"remark {n}", "label": "good" if n % 9 else "bad"} for n in range(400)]
    with caplog.at_level("INFO", logger="zorba_core"):
        assert load.suited_settings(task_for(pd.DataFrame(rows)), tiny_opt_folder, {}).calibration == "base"
    assert "89% of the rows have one label" in caplog.text
    asked = load.suited_settings(task_for(pd.DataFrame(rows)), tiny_opt_folder, {"calibration": "batch"})
    even = [row | {"label": "good" if n % 2 else "bad"} for n, row in enumerate(rows)]
    even = load.suited_settings(task_for(pd.DataFrame(even)), tiny_opt_folder, {})
    assert (asked.calibration, even.calibration) == ("batch", "batch")


def test_a_large_model_reads_long_rows_in_smaller_batches(tiny_opt_folder, monkeypatch):
    short, long = (task_for(reviews().assign(remark=reviews().remark * times)) for times in (1, 12))
    assert load.suited_settings(long, tiny_opt_folder, {}).batch_size == 8
    monkeypatch.setattr(load, "is_large", lambda num_parameters: True)
    monkeypatch.setattr(load, "max_positions", lambda model: 2048)
    assert load.suited_settings(short, tiny_opt_folder, {}).batch_size == 8
    assert load.suited_settings(long, tiny_opt_folder, {}).batch_size == load.LONG_BATCH
    assert load.suited_settings(long, tiny_opt_folder, {"batch_size": 6}).batch_size == 6
    assert load.suited_settings(long, tiny_opt_folder, {"seq_len": 32}).batch_size == 8


def test_a_run_on_a_file_keeps_the_whole_task_and_its_rows_are_read_the_same_way(csv, whole, tiny_opt_folder, tmp_path):
    run = tuned(csv, tiny_opt_folder, tmp_path)
    task = run.task
    assert task.prompt in prompts_of(read_templates(), "{remark}", "verdict")
    assert (task.prompts, task.label_names, task.label_words) == ((), ("bad", "good"), ("bad", "good"))
    assert task.rows.train == str(csv)
    assert "task" not in whole.config  # the name of a built-in one says it all
    again = tuned(task, tiny_opt_folder, tmp_path)
    assert again.summary["weights_sha256"] == run.summary["weights_sha256"]


def test_a_run_reads_its_file_once_and_again_where_it_has_changed(csv, tiny_opt_folder, tmp_path, monkeypatch):
    """Columns, length, encoding, clients and baselines are all of one reading."""
    reads, prepared = [], []

    def counted(calls, function):
        return lambda *given: (calls.append(1), function(*given))[1]

    monkeypatch.setattr(own_rows, "read_table", counted(reads, own_rows.read_table))
    monkeypatch.setattr(own_rows, "prepared", counted(prepared, own_rows.prepared))
    zorba.fine_tune(
        ALLOCATION, data=csv, overrides=zorba.Overrides(client="branch"), model=tiny_opt_folder, settings=SETTINGS,
        force=True, runs_folder=tmp_path / "runs",
    )  # fmt: skip
    assert (len(reads), len(prepared)) == (1, 1)
    csv.write_text(csv.read_text().replace("lovely", "splendid"))
    assert "splendid" in loading.load(task_for(csv))["remark"].str.cat()
    assert len(reads) == 2


def test_a_run_on_a_file_resumes_to_the_same_bits_where_the_file_lies_now(csv, tiny_opt_folder, tmp_path):
    run = tuned(csv, tiny_opt_folder, tmp_path)
    stopped = interrupted(tmp_path / "stopped", data=csv, model=tiny_opt_folder, settings=SETTINGS)
    moved = tmp_path / "elsewhere.csv"
    csv.rename(moved)
    with pytest.raises(MissingDataError, match=r"reviews\.csv does not exist: if it was moved, give .* --data FILE"):
        resume(stopped)
    assert replay(stopped, 2).round == 2  # needs no data
    assert resume(stopped, data=moved).summary["weights_sha256"] == run.summary["weights_sha256"]


def test_test_rows_that_are_training_rows_are_counted_in_the_run_and_on_its_card(
    csv, tiny_opt_folder, tmp_path, logged
):
    rows = reviews()
    run = tuned(csv, tiny_opt_folder, tmp_path, overrides=zorba.Overrides(test=rows.head(20)))
    facts = run.environment["data"]
    assert facts["evaluation_rows_in_train"] == facts["evaluation_rows"] == 8
    assert any(line.startswith("8 of 8 test rows are training rows too: their accuracy says") for line in logged())
    card = (run.export(tmp_path / "seen") / "README.md").read_text()
    assert "on 8 rows of reviews (validation), 8 of which are training rows too:" in card
    new = tuned(csv, tiny_opt_folder, tmp_path)
    assert "which no client trained on" in (new.export(tmp_path / "new") / "README.md").read_text()


def test_a_large_table_is_encoded_batch_by_batch_and_trains_to_the_same_bits(
    csv, tiny_opt_folder, tmp_path, monkeypatch
):
    """Rows of a table with more than MOST_ENCODED rows are encoded when a batch is drawn."""
    whole_table = tuned(csv, tiny_opt_folder, tmp_path)
    monkeypatch.setattr(load, "MOST_ENCODED", 10)
    monkeypatch.setattr(load, "MOST_TESTED", 5)
    run = tuned(csv, tiny_opt_folder, tmp_path)
    assert run.summary["weights_sha256"] == whole_table.summary["weights_sha256"]
    assert run.environment["data"]["train_sha256"] != whole_table.environment["data"]["train_sha256"]
    centred = tuned(csv, tiny_opt_folder, tmp_path, calibration="batch")
    monkeypatch.undo()
    encoded = tuned(csv, tiny_opt_folder, tmp_path, calibration="batch")
    assert centred.summary["weights_sha256"] == encoded.summary["weights_sha256"]
    assert centred.summary["weights_sha256"] != run.summary["weights_sha256"]
    monkeypatch.setattr(load, "MOST_TESTED", 5)
    assert load.suited_settings(run.task, tiny_opt_folder, {}).eval_rows == 5
    assert load.suited_settings(run.task, tiny_opt_folder, {"eval_rows": 7}).eval_rows == 7


def test_a_file_that_changed_is_refused_before_it_is_read(csv, tiny_opt_folder, tmp_path):
    stopped = interrupted(tmp_path / "stopped", data=csv, model=tiny_opt_folder, settings=SETTINGS)
    csv.write_text(csv.read_text().replace("lovely", "pleasant", 1))
    with pytest.raises(InvalidInputError, match=r"reviews\.csv has changed since .* began; restore it"):
        resume(stopped)


def test_a_table_in_memory_trains_and_is_asked_for_again(tiny_opt_folder, tmp_path, csv):
    run = interrupted(tmp_path / "stopped", data=reviews(), model=tiny_opt_folder, settings=SETTINGS)
    with pytest.raises(MissingDataError, match="a table in memory"):
        resume(run.path)
    from_file = tuned(csv, tiny_opt_folder, tmp_path)
    assert resume(run.path, data=csv).summary["weights_sha256"] == from_file.summary["weights_sha256"]


def test_rows_are_divided_by_their_own_clients(csv, tiny_opt_folder, tmp_path):
    task = zorba.Task(
        name="reviews", prompt="{remark} It was", rows=zorba.TableRows(csv, label="verdict", client="branch")
    )
    run = tuned(task, tiny_opt_folder, tmp_path)
    assert run.config["division"] == "natural"
    assert run.environment["data"]["clients"] == ["branch-0", "branch-1", "branch-2"]
    wrong = zorba.Task(
        name="reviews", prompt="{remark} It was", rows=zorba.TableRows(csv, label="verdict", client="of")
    )
    with pytest.raises(InvalidInputError, match=r"the rows are from 6 clients .* the allocation is for 3"):
        tuned(wrong, tiny_opt_folder, tmp_path)


def test_a_solution_and_what_is_said_of_the_columns_are_taken_as_they_are(csv, tiny_opt_folder, tmp_path):
    plan = zorba.solve(zorba.Problem([2, 2, 1], 3))
    run = zorba.fine_tune(
        plan,
        data=csv,
        overrides=zorba.Overrides(text="remark", label="of", prompt="{remark} It is about", client="branch"),
        model=tiny_opt_folder,
        settings=SETTINGS,
        runs_folder=tmp_path / "runs",
        force=True,
    )
    assert (run.allocation.A_MN == plan.allocation.A_MN).all()
    assert run.task.label_names == tuple(sorted(ASPECTS))
    assert run.config["division"] == "natural"
