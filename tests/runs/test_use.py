"""A finished run in use: its model's predictions, its evaluation, its export."""

from __future__ import annotations

import os
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.runs.cards import run_card
from tests.runs.resumable import ALLOCATION, SETTINGS
from zorba_core.data.load import load
from zorba_core.data.task import Overrides
from zorba_core.engine.evaluation import choose_rows
from zorba_core.errors import InvalidInputError
from zorba_core.runs import Run, read_run
from zorba_core.runs.evaluate import evaluate_run
from zorba_core.runs.export import export_run, model_card
from zorba_core.runs.predict import predict
from zorba_core.runs.replay import open_model, replay
from zorba_core.runs.train import fine_tune

pytestmark = pytest.mark.usefixtures("rows_divided_once")


@pytest.fixture
def copied(whole, tmp_path) -> Run:
    """A copy to damage."""
    shutil.copytree(whole.path, tmp_path / "copied")
    return read_run(tmp_path / "copied")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return load("toy-reviews", "validation")["text"].head(7).tolist()


def test_probabilities_are_the_models_own_next_token_over_the_label_words(whole, texts):
    predictions = predict(whole, texts, base=True)
    for network, probability_RC in (
        (replay(whole.path).network, predictions.probability_RC),
        (replay(whole.path, round_index=0).network, predictions.base_RC),
    ):
        tokenizer = open_model(whole).tokenizer
        words = [tokenizer.encode(f" {word}")[-1] for word in whole.config["label_words"]]
        for text, probability_C in zip(texts, probability_RC, strict=True):
            with torch.no_grad():
                logits = network.model(tokenizer(f"{text} It was", return_tensors="pt")["input_ids"]).logits[0, -1]
            expected_C = torch.softmax(logits[words].double(), 0)
            np.testing.assert_allclose(probability_C, expected_C, atol=1e-6)


def test_a_text_gets_the_same_answer_alone_in_a_list_and_in_a_table(whole, texts):
    listed = whole.predict(texts, base=True)
    assert list(listed) == ["text", "prediction", "probability", "base_prediction", "base_probability"]
    alone = pd.concat([whole.predict(text) for text in texts], ignore_index=True)
    table = whole.predict(pd.DataFrame({"id": range(7), "text": texts}))
    for other in (alone, table):
        assert other["prediction"].tolist() == listed["prediction"].tolist()
        np.testing.assert_allclose(other["probability"], listed["probability"], atol=1e-6)


def test_a_text_longer_than_training_allowed_is_cut_and_said(whole, texts):
    predictions = predict(whole, [texts[0], "very " * 200 + "good"])
    assert predictions.cut_rows == 1
    assert "1 of 2 texts is longer than the run's seq_len of 48 tokens" in predictions.note
    assert predict(whole, texts[0]).note == ""


def test_on_its_own_rows_the_run_is_as_good_as_its_summary_says(whole):
    report = whole.evaluate()
    result = report.describe()
    assert result["rows"] == 8
    assert result["accuracy"] == whole.summary["final_accuracy"]
    assert result["base"]["accuracy"] == whole.summary["initial_accuracy"]
    assert result["loss"] == pytest.approx(whole.summary["final_loss"], abs=1e-9)
    assert [entry["client"] for entry in result["per_client"]] != []
    assert sum(entry["rows"] for entry in result["per_client"]) == 3 * 100
    low, high = result["accuracy_interval"]
    assert low <= result["accuracy"] <= high
    fixed, broken = result["changed"]["fixed"], result["changed"]["broken"]
    assert fixed - broken == round(8 * (result["accuracy"] - result["base"]["accuracy"]))
    assert (fixed, broken) == tuple(report.changes.values())


def test_the_same_rows_in_a_table_are_judged_the_same(whole):
    own = load("toy-reviews", "validation")
    table = own.iloc[choose_rows(len(own), 8, SETTINGS.seed)].reset_index(drop=True)
    names = np.array(["negative", "positive"])
    table["said"] = names[table.pop("label")]
    table["site"] = ["north", "south"] * 4
    report = whole.evaluate(table, label="said", client="site")
    assert report.accuracy == whole.summary["final_accuracy"]
    assert {entry["client"]: entry["rows"] for entry in report.per_client} == {"north": 4, "south": 4}
    mean = sum(entry["accuracy"] * entry["rows"] for entry in report.per_client) / 8
    assert mean == pytest.approx(report.accuracy)


def test_one_file_a_client_is_judged_client_by_client(whole, tmp_path):
    for name, rows in (("north", 3), ("south", 5)):
        load("toy-reviews", "validation").head(rows).to_csv(tmp_path / f"{name}.csv", index=False)
    report = whole.evaluate(f"{tmp_path}/*.csv")
    assert report.data == f"{tmp_path.name}/*.csv"
    assert {entry["client"]: entry["rows"] for entry in report.per_client} == {"north": 3, "south": 5}


def test_rows_that_cannot_be_judged_are_named(whole):
    for table, options, says in [
        ({"label": [0]}, {}, "have no column 'text'"),
        ({"text": ["fine"]}, {}, "no column 'label'"),
        (
            {"text": ["a", "b", "c"], "label": ["positive", "fine", "great"]},
            {},
            "row 2: unknown label 'fine' (2 such rows: row 3)",
        ),
        ({"text": ["a", "b"], "label": ["positive", None]}, {}, "row 2: no label"),
        ({"text": ["a", " "], "label": [0, 1]}, {}, "row 2: no text in text"),
        ({"text": ["a", float("nan")], "label": [0, 1]}, {}, "row 2: no text in text"),
        ({"text": ["a"], "label": [2]}, {}, "row 1: unknown label '2'"),
        ({"text": ["a"], "label": [1]}, {"client": "who"}, "have no column 'who'"),
        ({"text": [], "label": []}, {}, "no rows"),
    ]:
        with pytest.raises(InvalidInputError, match=re.escape(says)):
            evaluate_run(whole, pd.DataFrame(table), **options)


def test_a_files_row_is_named_by_its_line(whole, tmp_path):
    (tmp_path / "rows.csv").write_text('text,label\n"a fine\nfilm",positive\na dull film,fine\n')
    with pytest.raises(InvalidInputError, match=r"rows.csv, line 4: unknown label 'fine'"):
        whole.evaluate(tmp_path / "rows.csv")


def test_an_unfinished_run_says_how_far_it_is(copied):
    (copied.path / "summary.json").unlink()
    with pytest.raises(InvalidInputError, match=r"not finished \(round 9 of 9\); complete it with: zorba resume"):
        read_run(copied.path).predict("text")


@pytest.fixture(scope="module")
def exported(whole, tmp_path_factory):
    return whole.export(tmp_path_factory.mktemp("exports") / "reviews")


def test_the_export_has_the_runs_weights_and_loads_by_itself(whole, exported):
    model = AutoModelForCausalLM.from_pretrained(exported)
    weights = replay(whole.path).network.model.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert AutoTokenizer.from_pretrained(exported)("It was")["input_ids"]


def test_the_cards_lines_run_and_answer_as_the_run_does(whole, exported):
    card = run_card(exported)
    assert len(card.code.splitlines()) == 3
    prediction = whole.predict("The text to classify")["prediction"][0]
    word = dict(zip(("negative", "positive"), whole.config["label_words"], strict=True))[prediction]
    assert card.printed == word


def test_the_cards_lines_take_the_models_preference_out_as_the_run_does(tiny_opt_folder, tmp_path):
    words = ["bad", "good"]
    for seed, calibration in enumerate(["base", "batch"]):
        run = fine_tune(
            ALLOCATION, model=tiny_opt_folder, settings=SETTINGS.replace(seed=seed, calibration=calibration),
            overrides=Overrides(label_words=words), runs_folder=tmp_path, force=True,
        )  # fmt: skip
        card = run_card(run.export(tmp_path / f"model-{seed}"))
        assert len(card.code.splitlines()) == 3
        assert "sequence_bias" in card.code
        chosen = run.predict("The text to classify")["prediction"][0]
        assert card.printed == dict(zip(("negative", "positive"), words, strict=True))[chosen]


def test_label_words_of_several_tokens_are_used_as_they_were_trained(tiny_opt_folder, tmp_path):
    words = ["not good at all", "very good"]
    run = fine_tune(
        ALLOCATION,
        model=tiny_opt_folder,
        settings=SETTINGS,
        overrides=Overrides(label_words=words),
        runs_folder=tmp_path,
        force=True,
    )
    report = run.evaluate()
    assert report.accuracy == run.summary["final_accuracy"]
    assert report.after.loss == pytest.approx(run.summary["final_loss"], abs=1e-9)
    card = run_card(run.export(tmp_path / "model"))
    answer = run.predict("The text to classify")
    assert card.printed == answer["prediction"][0]
    scores = torch.tensor(list(card.names["scores"].values()))
    assert float(torch.softmax(scores, 0).max()) == pytest.approx(answer["probability"][0], abs=1e-5)


def test_the_card_says_what_was_measured_and_no_path(whole, exported, tiny_opt_folder):
    card = (exported / "README.md").read_text(encoding="utf-8")
    for accuracy in ("initial_accuracy", "final_accuracy"):
        assert f"{whole.summary[accuracy]:.3f}" in card
    assert "{text} It was" in card
    assert f"{whole.allocation.total_blocks} of 9 client-blocks" in card
    assert str(tiny_opt_folder.parent) not in card
    assert os.sep + "tmp" not in card
    assert "Simulated: exact derivatives along" in card


def test_the_card_of_a_run_with_finite_differences_says_forward_passes_only(whole, monkeypatch):
    opened = open_model(read_run(whole.path))
    request = opened.run.request
    settings = request.settings.replace(estimator="cohort", schedule="cosine")
    monkeypatch.setitem(vars(opened.run), "request", request.replace(settings=settings))
    card = model_card(opened, "folder")
    assert "Forward passes only: " in card
    assert "at its highest (cosine schedule)" in card


def test_an_export_takes_no_folders_place_and_leaves_nothing_half_written(whole, exported, tmp_path, monkeypatch):
    with pytest.raises(InvalidInputError, match="exists already"):
        export_run(whole, exported)
    monkeypatch.setattr(type(open_model(whole).tokenizer), "save_pretrained", _full_disk)
    with pytest.raises(OSError, match="No space left"):
        export_run(whole, tmp_path / "export")
    assert list(tmp_path.iterdir()) == []


def _full_disk(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.fixture(scope="module")
def writing(tiny_opt_folder, tmp_path_factory) -> Run:
    """A run that writes its answers."""
    folder = tmp_path_factory.mktemp("writing")
    rows = load("toy-reviews", "federated").head(120)
    table = pd.DataFrame({"question": "well , " + rows["text"], "answer": np.where(rows["label"], "good", "bad")})
    table["site"] = ["north", "south", "east"] * 40
    table.to_csv(folder / "questions.csv", index=False)
    return fine_tune(
        ALLOCATION,
        data=folder / "questions.csv",
        overrides=Overrides(text="question", answer="answer", client="site"),
        model=tiny_opt_folder,
        settings=SETTINGS,
        runs_folder=folder / "runs",
        force=True,
    )


def test_written_answers_are_the_models_own_greedy_ones(writing):
    answers = predict(writing, ["the acting was fine", "a dull film"], base=True)
    assert list(answers.table()) == ["question", "prediction", "base_prediction"]
    tokenizer, prompt = open_model(writing).tokenizer, writing.task.prompt
    for text, written in zip(answers.frame["question"], answers.columns["prediction"], strict=True):
        ids = tokenizer(prompt.format(question=text), return_tensors="pt")["input_ids"]
        own = replay(writing.path).network.model.generate(
            ids, do_sample=False, max_new_tokens=32, pad_token_id=1, eos_token_id=tokenizer.eos_token_id
        )
        assert written == tokenizer.decode(own[0, ids.shape[1] :], skip_special_tokens=True).strip()


def test_written_answers_are_judged_by_what_was_wanted(writing, tmp_path):
    result = writing.evaluate().describe()
    assert {"rows", "exact_match", "token_f1", "rouge_l", "loss"} <= set(result)
    assert result["loss"] == pytest.approx(writing.summary["final_loss"], abs=1e-9)
    assert sum(entry["rows"] for entry in result["per_client"]) == result["rows"] == 8
    texts = ["the acting was fine", "a dull film"]
    table = pd.DataFrame({"question": texts, "answer": writing.predict(texts)["prediction"]})
    if table["answer"].str.strip().all():
        assert writing.evaluate(table).describe()["exact_match"] == 1
    export = export_run(writing, tmp_path / "model") / "README.md"
    assert "exact match" in export.read_text(encoding="utf-8")


def test_questions_are_turns_of_a_chat_where_the_model_has_a_template(tiny_opt_folder, tmp_path):
    shutil.copytree(tiny_opt_folder, tmp_path / "chatty")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "chatty")
    tokenizer.chat_template = "{% for m in messages %}review {{ m['content'] }} {% endfor %}it was"
    tokenizer.save_pretrained(tmp_path / "chatty")
    rows = pd.DataFrame({"question": [f"was the room good {n}" for n in range(30)], "answer": "it was a good one"})
    run = fine_tune(
        ALLOCATION, data=rows, model=tmp_path / "chatty", settings=SETTINGS, runs_folder=tmp_path / "runs", force=True
    )
    assert (run.task.chat, run.task.prompt) == (True, "{question}")
    card = run_card(run.export(tmp_path / "model"))
    (written,) = run.predict("The text to answer")["prediction"]
    assert card.printed.split()[: len(written.split())] == written.split()
