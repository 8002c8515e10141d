"""Published sets: the catalogue's files, the folder ZORBA_DATA, the hub, and the halves of the training rows."""

from __future__ import annotations

import importlib.util
import sys
import types

import pandas as pd
import pytest

from zorba_core.data import toy_reviews
from zorba_core.data.encode import encode
from zorba_core.data.load import load, missing
from zorba_core.data.task import TASKS, get_task, read_task
from zorba_core.errors import InvalidInputError, MissingDataError

REAL = ("sst2", "ag-news", "snli")
TEXT = "a quiet film about a garden"
# A row as it is published, without its label; what stands for each label; the label's column.
CHOSEN = {
    "rte": ({"sentence1": TEXT, "sentence2": "it is quiet", "idx": 0}, [0, 1], "label"),
    "boolq": ({"passage": TEXT, "question": "is it quiet"}, [False, True], "answer"),
    "cb": ({"premise": TEXT, "hypothesis": "it is quiet", "idx": 0}, [0, 1, 2], "label"),
    "wic": ({"word": "film", "sentence1": TEXT, "sentence2": "a thin film", "start1": 8}, [0, 1], "label"),
    "wsc": ({"text": TEXT, "span1_text": "film", "span2_text": "it", "span1_index": 2}, [0, 1], "label"),
    "multirc": ({"paragraph": TEXT, "question": "what is it", "answer": "a film", "idx": {"a": 0}}, [0, 1], "label"),
    "qqp": ({"question1": "is it quiet", "question2": "what is it", "idx": 1}, [0, 1], "label"),
    "trec": ({"text": "who made it ?", "fine_label": 3}, [0, 1, 2, 3, 4, 5], "coarse_label"),
    "banking77": ({"text": "my card is lost"}, list(range(77)), "label"),
    "copa": ({"premise": TEXT, "choice1": "it rained", "choice2": "they left", "question": "effect"}, [0, 1], "label"),
}
WRITTEN = {
    "squad": {"context": TEXT, "question": "what is it", "answers": {"text": ["a film", "film"], "answer_start": [0]}},
    "drop": {"passage": TEXT, "question": "how many", "answers_spans": {"spans": ["2"], "types": ["number"]}},
    "xsum": {"document": TEXT, "summary": "a film", "id": "1"},
    "gsm8k": {"question": "one and one ?", "answer": "one and one are 2 #### 2"},
    "alpaca": {"instruction": "name a film", "input": "", "output": "a quiet one", "text": "whole"},
    "dolly": {"instruction": "name a film", "context": "", "response": "a quiet one", "category": "open_qa"},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path))
    return tmp_path


def write(folder, name, frame):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(file)


def published(name: str, count: int) -> pd.DataFrame:
    row, values, label = CHOSEN.get(name) or (WRITTEN[name], [0], "unread")
    frame = pd.DataFrame([{**row, label: values[index % len(values)]} for index in range(count)])
    first = get_task(name).text_columns[0]
    frame[first] = [f"{text} {index}" for index, text in enumerate(frame[first])]
    return frame


def test_rows_in_the_published_columns_become_prompts_and_answers(folder, tiny_tokenizer):
    for name in [*CHOSEN, *WRITTEN]:
        task, count = get_task(name), 160
        for split in ("train", *task.rows.evaluation_splits):
            write(folder, f"{task.rows.folder}/{split}.parquet", published(name, count))
        train, test = load(name), load(name, task.rows.evaluation_split)
        if task.rows.held_out:
            assert len(train) + len(test) == count
            assert not set(train[task.text_columns[0]]) & set(test[task.text_columns[0]])
        else:
            assert len(train) == count  # clients hold every row
        assert train.attrs["note"].startswith(f"subset of train: {count} of the official")
        if name in CHOSEN:
            assert sorted(set(train["label"])) == list(range(task.num_classes))
        else:
            expected = {"squad": "a film", "drop": "2"}.get(name)
            assert expected is None or set(train[task.answer]) == {expected}
        assert len(encode(task, train.head(5), tiny_tokenizer, 256).weights) >= 5


def test_every_task_of_the_catalogue_but_those_with_real_rows_is_tested_on_made_ones():
    assert {*CHOSEN, *WRITTEN, *REAL} == {name for name, task in TASKS.items() if hasattr(task.rows, "hub")}


def test_only_the_sets_of_the_base_model_have_a_half_that_clients_do_not_hold():
    assert [name for name, task in TASKS.items() if "base" in task.rows.splits] == [*REAL, "toy-reviews"]
    assert get_task("toy-reviews").rows.origin == f"grammar {toy_reviews.GRAMMAR_VERSION}"


def test_a_set_of_the_hub_is_a_task_of_ones_own_without_code(folder):
    (folder / "task.toml").write_text(
        'name = "own"\nprompt = "{text} It was"\nlabel_names = ["no", "yes"]\n[rows]\nhub = "who/what"\nconfig = "c"\n'
        'folder = "own"\nevaluation_splits = ["test"]\ncolumns = { text = "sentence" }\n'
    )
    write(folder, "own/train.parquet", pd.DataFrame({"sentence": ["a", "b"], "label": [0, 1]}))
    assert load(read_task(folder / "task.toml"))["text"].tolist() == ["a", "b"]


def sentences(count):
    return [f"the film number {index} is about the colour {index * 7}" for index in range(count)]


def test_the_two_halves_cover_the_training_rows_and_share_no_text(folder):
    texts = [*sentences(400), "The FILM number 3 is about the colour 21 !"]
    write(folder, "ag_news/train.parquet", pd.DataFrame({"text": texts, "label": 1}))
    base, federated = (set(load("ag-news", split)["text"]) for split in ("base", "federated"))
    assert base | federated == set(texts)
    assert not base & federated
    assert 140 < len(base) < 260
    assert {texts[3], texts[-1]} <= base or {texts[3], texts[-1]} <= federated  # same letters and digits, same side


def test_phrases_of_one_sentence_stay_on_its_side_in_whatever_order_rows_come(folder, tmp_path_factory, monkeypatch):
    whole = sentences(200)
    phrases = [" ".join(text.split()[3:]) for text in whole]  # "3 is about the colour 21"
    frame = pd.DataFrame({"text": phrases + whole, "label": 0})
    write(folder, "sst2/train.parquet", frame)
    base = set(load("sst2", "base")["text"])
    assert all((phrase in base) == (text in base) for phrase, text in zip(phrases, whole, strict=True))
    assert 0 < len(base) < 400
    other = tmp_path_factory.mktemp("other")
    write(other, "sst2/train.parquet", frame.sample(frac=1, random_state=1))
    monkeypatch.setenv("ZORBA_DATA", str(other))
    assert set(load("sst2", "base")["text"]) == base


def test_pairs_of_one_premise_stay_together(folder):
    frame = pd.DataFrame({"premise": [text for text in sentences(100) for _ in range(3)]})
    frame["hypothesis"] = [f"it is {index}" for index in range(300)]
    frame["label"] = [0, 1, 2] * 100
    write(folder, "snli/train.parquet", frame)
    base, federated = (set(load("snli", split)["premise"]) for split in ("base", "federated"))
    assert base
    assert federated
    assert not base & federated


def test_a_file_of_another_shape_is_refused_in_one_line(folder):
    for frame, message in [
        (pd.DataFrame({"phrase": ["a"], "label": [0]}), "no column text; the columns are phrase, label"),
        (pd.DataFrame({"text": ["a"], "label": [5]}), "labels are 5 to 5; they must be 0 to 1"),
        (pd.DataFrame({"text": ["a", None], "label": [0, 1]}), "row 1 has an empty text or label"),
        (pd.DataFrame({"text": ["a"], "label": [0.5]}), "column label must have integers"),
        (pd.DataFrame({"text": [3], "label": [0]}), "column text must have text"),
        (pd.DataFrame({"text": pd.Series([], dtype=str), "label": pd.Series([], dtype=int)}), "no rows"),
    ]:
        write(folder, "sst2/validation.parquet", frame)
        with pytest.raises(InvalidInputError, match=message) as error:
            load("sst2", "validation")
        assert "\n" not in str(error.value)


def test_a_published_label_that_the_task_does_not_know_is_refused(folder):
    write(folder, "boolq/train.parquet", published("boolq", 4).assign(answer="perhaps"))
    with pytest.raises(InvalidInputError, match=r"labels are -1 to .*; they must be 0 to 1"):
        load("boolq")


def test_a_file_that_is_no_parquet_is_refused(folder):
    (folder / "sst2").mkdir()
    (folder / "sst2" / "validation.parquet").write_bytes(b"label\ttext\n")
    with pytest.raises(InvalidInputError, match=r"validation\.parquet cannot be read as Parquet"):
        load("sst2", "validation")


def with_hub(monkeypatch, answer):
    """Stand in for the package ``datasets``, which this environment lacks; None: it is not installed."""

    def load_dataset(path, split, **config):
        if isinstance(answer, Exception):
            raise answer
        return types.SimpleNamespace(to_pandas=lambda: answer)

    monkeypatch.delenv("ZORBA_DATA", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if answer is None else object())


def test_missing_data_names_both_ways(monkeypatch, tmp_path):
    with_hub(monkeypatch, None)
    with pytest.raises(MissingDataError, match=r"set ZORBA_DATA .*sst2/train\.parquet.* install the package datasets"):
        load("sst2")
    assert missing(get_task("sst2")).startswith("set ZORBA_DATA to a folder with sst2/train.parquet and sst2/valid")
    assert missing(get_task("toy-reviews")) == ""
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path / "absent"))
    with pytest.raises(MissingDataError, match="which is not a folder"):
        load("sst2", "validation")


def test_an_unreachable_hub_is_one_clear_line(monkeypatch):
    with_hub(monkeypatch, ConnectionError("no route\nto host"))
    assert missing(get_task("sst2")) == ""
    with pytest.raises(MissingDataError, match=r"sst2 cannot be fetched .* \(ConnectionError\); .*check the network"):
        load("sst2", "validation")


def test_the_hubs_columns_are_ours_and_rows_without_a_gold_label_are_dropped(monkeypatch):
    with_hub(monkeypatch, pd.DataFrame({"idx": [0], "sentence": ["fine hub text"], "label": [1]}))
    frame = load("sst2", "validation")
    assert frame.to_dict("list") == {"text": ["fine hub text"], "label": [1]}
    assert frame.attrs["source"] == "hub stanfordnlp/sst2"
    with_hub(monkeypatch, pd.DataFrame({"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [-1, 2]}))
    assert load("snli", "validation")["premise"].tolist() == ["b"]
    with_hub(monkeypatch, pd.DataFrame({"sentence": ["a"], "label": [-1]}))
    with pytest.raises(MissingDataError, match="has no labels for its test split"):
        load("sst2", "test")


def test_an_unknown_split_lists_the_known():
    with pytest.raises(InvalidInputError, match="no split 'validation': choose one of base, federated, test"):
        load("ag_news", "validation")


@pytest.mark.data
def test_the_real_halves_share_no_text_with_each_other_or_with_the_evaluation_rows():
    for name in REAL:
        columns = list(TASKS[name].text_columns)
        base, federated, evaluation = (
            set(map(tuple, load(name, split)[columns].to_numpy()))
            for split in ("base", "federated", TASKS[name].rows.evaluation_split)
        )
        assert not base & federated
        assert not (base | federated) & evaluation
        assert 0.45 < len(base) / (len(base) + len(federated)) < 0.55
