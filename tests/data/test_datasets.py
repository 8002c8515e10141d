import importlib.util
import sys
import types

import pandas as pd
import pytest

from zorba_core.data.splits import load_corpus, load_split
from zorba_core.data.tasks import TASKS
from zorba_core.errors import InvalidInputError, MissingDataError

REAL = ("sst2", "ag-news", "snli")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path))
    return tmp_path


def write(folder, name, frame):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(file)


def without_datasets_package(monkeypatch):
    find = importlib.util.find_spec
    hidden = {"datasets"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name in hidden else find(name, *rest))


def with_datasets_package(monkeypatch, frame_or_error):
    """Stand in for the hub's client, which this environment lacks: the hub cannot be reached from a test."""

    class Loaded:
        def to_pandas(self):
            return frame_or_error

    def load_dataset(name, split):
        if isinstance(frame_or_error, Exception):
            raise frame_or_error
        return Loaded()

    module = types.ModuleType("datasets")
    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: object())


def sentences(count):
    return [f"the film number {index} is about the colour {index * 7}" for index in range(count)]


def test_the_two_halves_cover_the_training_rows_and_share_no_text(folder):
    texts = [*sentences(400), "The FILM number 3 is about the colour 21 !"]
    write(folder, "ag_news/train.parquet", pd.DataFrame({"text": texts, "label": 1}))
    base, federated = (set(load_split("ag-news", split)["text"]) for split in ("base", "federated"))
    assert base | federated == set(texts)
    assert not base & federated
    assert 140 < len(base) < 260
    assert {texts[3], texts[-1]} <= base or {texts[3], texts[-1]} <= federated  # same letters and digits, same side


def test_the_side_of_a_text_does_not_depend_on_the_order_of_rows(folder, tmp_path_factory, monkeypatch):
    frame = pd.DataFrame({"text": sentences(200), "label": 0})
    write(folder, "sst2/train.parquet", frame)
    first = set(load_split("sst2", "base")["text"])
    other = tmp_path_factory.mktemp("other")
    write(other, "sst2/train.parquet", frame.sample(frac=1, random_state=1))
    monkeypatch.setenv("ZORBA_DATA", str(other))
    assert set(load_split("sst2", "base")["text"]) == first


def test_phrases_of_one_sentence_stay_on_its_side(folder):
    whole = sentences(200)
    phrases = [" ".join(text.split()[3:]) for text in whole]  # "3 is about the colour 21"
    write(folder, "sst2/train.parquet", pd.DataFrame({"text": phrases + whole, "label": 0}))
    base = set(load_split("sst2", "base")["text"])
    assert all((phrase in base) == (text in base) for phrase, text in zip(phrases, whole, strict=True))
    assert 0 < len(base) < 400


def test_pairs_of_one_premise_stay_together(folder):
    frame = pd.DataFrame({"premise": [text for text in sentences(100) for _ in range(3)]})
    frame["hypothesis"] = [f"it is {index}" for index in range(300)]
    frame["label"] = [0, 1, 2] * 100
    write(folder, "snli/train.parquet", frame)
    base, federated = (set(load_split("snli", split)["premise"]) for split in ("base", "federated"))
    assert base
    assert federated
    assert not base & federated


def test_a_subset_of_the_official_rows_says_so(folder):
    write(folder, "ag_news/train.parquet", pd.DataFrame({"text": sentences(40), "label": 2}))
    frame = load_split("ag-news", "federated")
    assert frame.attrs == {"source": "ZORBA_DATA", "note": "subset of train: 40 of the official 120,000 rows"}


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"phrase": ["a"], "label": [0]}), r"lacks the column\(s\) text; it has phrase, label"),
        (pd.DataFrame({"text": ["a"], "label": [5]}), "labels must be 0..1, found 5..5"),
        (pd.DataFrame({"text": ["a", None], "label": [0, 1]}), "row 1 has an empty text or label"),
        (pd.DataFrame({"text": ["a"], "label": [0.5]}), "column label must hold integers"),
        (pd.DataFrame({"text": [3], "label": [0]}), "column text must hold text"),
        (pd.DataFrame({"text": pd.Series([], dtype=str), "label": pd.Series([], dtype=int)}), "no rows"),
    ],
)
def test_a_file_of_another_shape_is_refused_in_one_line(folder, frame, message):
    write(folder, "sst2/validation.parquet", frame)
    with pytest.raises(InvalidInputError, match=message) as error:
        load_split("sst2", "validation")
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_parquet_is_refused(folder):
    (folder / "sst2").mkdir()
    (folder / "sst2" / "validation.parquet").write_bytes(b"label\ttext\n")
    with pytest.raises(InvalidInputError, match=r"validation\.parquet cannot be read as Parquet"):
        load_split("sst2", "validation")


def test_missing_data_names_both_ways(monkeypatch):
    monkeypatch.delenv("ZORBA_DATA", raising=False)
    without_datasets_package(monkeypatch)
    with pytest.raises(MissingDataError, match=r"set ZORBA_DATA .*sst2/train\.parquet.* install the package datasets"):
        load_split("sst2", "federated")


def test_an_unreachable_hub_is_one_clear_line(monkeypatch):
    monkeypatch.delenv("ZORBA_DATA", raising=False)
    with_datasets_package(monkeypatch, ConnectionError("no route\nto host"))
    with pytest.raises(MissingDataError, match=r"the hub did not give .*sst2 \(ConnectionError\); check the network"):
        load_split("sst2", "validation")


def test_the_hubs_columns_are_ours_and_rows_without_a_gold_label_are_dropped(monkeypatch):
    monkeypatch.delenv("ZORBA_DATA", raising=False)
    with_datasets_package(monkeypatch, pd.DataFrame({"idx": [0], "sentence": ["fine hub text"], "label": [1]}))
    frame = load_split("sst2", "validation")
    assert frame.to_dict("list") == {"text": ["fine hub text"], "label": [1]}
    assert frame.attrs["source"] == "hub stanfordnlp/sst2"
    pairs = pd.DataFrame({"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [-1, 2]})
    with_datasets_package(monkeypatch, pairs)
    assert load_split("snli", "validation")["premise"].tolist() == ["b"]


def test_the_hubs_hidden_labels_are_missing_data(monkeypatch):
    monkeypatch.delenv("ZORBA_DATA", raising=False)
    with_datasets_package(monkeypatch, pd.DataFrame({"sentence": ["a"], "label": [-1]}))
    with pytest.raises(MissingDataError, match="has no labels for its test split"):
        load_split("sst2", "test")


def test_a_variable_that_names_no_folder_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path / "absent"))
    with pytest.raises(MissingDataError, match="which is no folder"):
        load_split("sst2", "validation")


def test_an_unknown_split_lists_the_known():
    with pytest.raises(InvalidInputError, match="no split 'validation': choose one of base, federated, test"):
        load_split("ag_news", "validation")


def test_a_folder_without_a_corpus_is_said(folder):
    with pytest.raises(MissingDataError, match=r"corpus/\*\.parquet"):
        load_corpus()


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_the_real_halves_share_no_text_with_each_other_or_with_the_evaluation_rows(name):
    columns = list(TASKS[name].text_columns)
    parts = {
        split: set(map(tuple, load_split(name, split)[columns].to_numpy()))
        for split in ("base", "federated", TASKS[name].rows.evaluation_split)
    }
    base, federated, evaluation = parts.values()
    assert not base & federated
    assert not (base | federated) & evaluation
    assert 0.45 < len(base) / (len(base) + len(federated)) < 0.55


@pytest.mark.data
def test_most_real_sst2_phrases_follow_their_sentence():
    base, federated = (load_split("sst2", split)["text"] for split in ("base", "federated"))
    other_side = " \n ".join(federated[federated.str.split().str.len() >= 15])
    long_phrases = base[base.str.split().str.len() >= 6]
    assert sum(f" {text} " in other_side for text in long_phrases.head(500)) <= 2
