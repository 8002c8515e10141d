"""Rows of the user's own: their labels, their clients, which are tested on, and one line for what is wrong."""

from __future__ import annotations

import json
import os

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zorba_core.data.divide import clients_of, divide, named_clients
from zorba_core.data.infer import task_for
from zorba_core.data.load import load
from zorba_core.data.sources import file_clients
from zorba_core.data.task import Overrides, TableRows, Task
from zorba_core.errors import InvalidInputError, MissingDataError, ZorbaError
from zorba_core.runs.request import TrainRequest

GOOD = "text,label\n" + "".join(f"remark {n} of a kind,{'good' if n % 2 else 'bad'}\n" for n in range(40))
TEXTS = [f"remark {n} of a kind" for n in range(40)]


def task_of(label: list, **columns) -> Task:
    return task_for(pd.DataFrame({"text": TEXTS, "label": label, **columns}), Overrides(label="label", text=("text",)))


def test_labels_are_named_by_their_text_in_order():
    for labels, names in [
        (["good", "bad"], ("bad", "good")),
        ([" good", "bad "], ("bad", "good")),
        ([10, 9], ("9", "10")),
        ([1.0, 0.0], ("0", "1")),
        (["1.0", "0"], ("0", "1")),
        (["10.5", "9"], ("9", "10.5")),
        (["①", "②"], ("①", "②")),
        (["--1", "²"], ("--1", "²")),
        ([True, False], ("False", "True")),
        (pd.array([1, 0], "Int64"), ("0", "1")),
        (np.array(["a", "b"], dtype=object), ("a", "b")),
        (["naïve", "naive"], ("naive", "naïve")),
    ]:
        task = task_of(list(labels) * 20)
        assert task.label_names == names
        assert sorted(set(load(task)["label"])) == [0, 1]


def test_a_column_that_is_no_label_is_refused_in_one_line():
    for label, says in [
        (["good"] * 40, "column label has one label only, 'good'"),
        ([None] * 40, "column label has no label"),
        ([f"kind {n}" for n in range(1001)], "has 1,001 different labels and a classification has at most 1,000"),
        (["a", "b", None, *"ab" * 18, "a"], "row 3: no label in label; correct or remove such rows"),
        (["a", pd.NA, float("nan"), pd.NaT, " ", *"ab" * 17, "b"], "row 2: no label in label (4 such rows: row 3, row"),
        ([[0, 1], [1]] * 20, "row 1: column label has a list in place of one label (40 such rows"),
        ([{"id": 1}, "b"] * 20, "row 1: column label has a dict in place of one label"),
        ([b"a", b"b"] * 20, "column label has a bytes in place of one label"),
        (["TRUE", "True", "False", "False"] * 10, "the labels 'TRUE' and 'True' look alike (the first is in row 1)"),
        (["d\u00e9lai", "de\u0301lai"] * 20, r"the labels 'de\u0301lai' and 'd\xe9lai' look alike"),
        (["late box", "late\u00a0box"] * 20, r"'late box' and 'late\xa0box' look alike"),
    ]:
        frame = pd.DataFrame({"text": (TEXTS * 26)[: len(label)], "label": label})
        with pytest.raises(InvalidInputError) as error:
            load(task_for(frame, Overrides(label="label", text=("text",))))
        assert says in str(error.value)


def test_what_is_wrong_with_rows_is_one_line_with_its_place(tmp_path):
    for content, overrides, says in [
        (GOOD, {"text": ("body",)}, "no column 'body'; they have text, label"),
        (GOOD, {"prompt": "{body} It was"}, "no column 'body'; they have text, label"),
        (GOOD + ",good\n", {}, "rows.csv, line 42: no text in text; remove such rows"),
        (GOOD + "nan,good\n  ,bad\n", {}, "rows.csv, line 42: no text in text (2 such rows: rows.csv, line 43)"),
        (GOOD + "a remark,\n", {}, "rows.csv, line 42: no label in label"),
        (GOOD, {"text": ("label",), "label": "label"}, "the prompt contains label, the column of the label"),
        (
            GOOD.replace("text", "topic").replace("label", "text").replace("topic", "label"),
            {"text": ("label",), "label": "text"},
            "a column of text is called label, a name reserved",
        ),
    ]:
        (tmp_path / "rows.csv").write_text(content)
        with pytest.raises(ZorbaError) as error:
            load(task_for(tmp_path / "rows.csv", Overrides(**overrides)))
        assert says in str(error.value)
        assert "\n" not in str(error.value)


def test_a_text_that_is_none_is_refused_by_its_line(tmp_path):
    for value, says in [
        ('["a"]', "line 1: column text has a list in place of a text; name another column"),
        ('[{"role": "user", "content": "a"}]', "write each conversation as a column of questions and one of answers"),
        ('"caf\\ud83d"', "line 1: column text has half of a character; remove it"),
    ]:
        lines = [f'{{"text": {value if n == 0 else json.dumps(TEXTS[n])}, "label": {n % 2}}}' for n in range(40)]
        (tmp_path / "rows.jsonl").write_text("\n".join(lines))
        with pytest.raises(InvalidInputError) as error:
            load(task_for(tmp_path / "rows.jsonl", Overrides(text=("text",))))
        assert says in str(error.value)


def evaluated(tmp_path, test: str, toml: str = "") -> list[int]:
    """The labels of test rows: billing is 0 and delivery 1, since labels that are read are sorted."""
    (tmp_path / "rows.csv").write_text(GOOD.replace("good", "delivery").replace("bad", "billing"))
    (tmp_path / "test.csv").write_text(f"text,label\n{test}")
    (tmp_path / "task.toml").write_text(
        f'name = "t"\nprompt = "{{text}} It was"\n{toml}[rows]\nlabel = "label"\n'
        'train = "rows.csv"\ntest = "test.csv"\n'
    )
    return load(task_for(tmp_path / "task.toml"), "validation")["label"].tolist()


def test_labels_of_test_rows_are_those_trained_on(tmp_path):
    assert evaluated(tmp_path, "a,delivery\nb,billing\n") == [1, 0]
    for test, says in (
        ("a,delivery\nb,dreadful\n", "test.csv, line 3: unknown label 'dreadful'; the task's"),
        ("a,Delivery\n", "unknown label 'Delivery', which looks like 'delivery'"),
        ("a,0\nb,1\n", "test.csv, line 2: labels are numbers and the task's labels are billing, delivery; write the"),
    ):
        with pytest.raises(InvalidInputError) as error:
            evaluated(tmp_path, test)
        assert says in str(error.value)


def test_a_test_file_without_labels_is_named_with_what_to_give(tmp_path):
    (tmp_path / "train.csv").write_text(GOOD)
    (tmp_path / "test.csv").write_text("id,text\n1,a remark\n")
    with pytest.raises(InvalidInputError, match=r"test\.csv: no column 'label' to test on; give .* the training file"):
        load(task_for(tmp_path), "validation")


def test_numbers_are_labels_in_the_order_that_somebody_named(tmp_path):
    order = 'label_names = ["delivery", "billing"]\n'
    assert evaluated(tmp_path, "a,0\nb,1\n", order) == [0, 1]
    assert evaluated(tmp_path, "a,delivery\n", order) == [0]


def client_file(path, rows: list[tuple[str, int]], names: list[str]) -> None:
    """A client's own rows with its own numbering of labels, as ``class_encode_column`` makes them."""
    described = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    table = pa.table({"text": [text for text, _ in rows], "label": [label for _, label in rows]})
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(described)}), path)


def test_each_file_has_its_own_numbering_of_label_names(tmp_path):
    client_file(tmp_path / "a.parquet", [(f"a {n}", n % 2) for n in range(20)], ["billing", "delivery"])
    client_file(tmp_path / "b.parquet", [(f"b {n}", n % 2) for n in range(20)], ["billing", "refund"])
    task = task_for(tmp_path / "*.parquet")
    frame = load(task)
    named = {text: task.label_names[label] for text, label in zip(frame["text"], frame["label"], strict=True)}
    assert task.label_names == ("billing", "delivery", "refund")
    assert {named[text] for text in named if text.startswith("b")} == {"billing", "refund"}


def test_a_file_of_class_labels_without_one_names_the_row(tmp_path):
    client_file(tmp_path / "a.parquet", [(f"a {n}", n % 2 if n else -1) for n in range(20)], ["no", "yes"])
    with pytest.raises(InvalidInputError, match=r"a\.parquet, row 1: no label in label"):
        load(task_for(tmp_path / "a.parquet"))


def test_each_file_is_a_client_with_a_name_of_its_own():
    for files, clients in [
        (["c/a.csv", "c/b.csv"], ["a", "b"]),
        (["mixed/a.csv", "mixed/a.jsonl", "mixed/b.csv"], ["a.csv", "a.jsonl", "b.csv"]),
        (["s/north/train.csv", "s/south/train.csv"], ["north", "south"]),
        (["s/x/n/t.csv", "s/y/n/t.csv"], ["x/n/t.csv", "y/n/t.csv"]),
    ]:
        assert file_clients(files) == clients


def test_a_folder_and_a_pattern_are_a_file_for_each_client_whatever_their_folder_is_called(tmp_path, monkeypatch):
    folder = tmp_path / "study [v2]" / "clients"
    folder.mkdir(parents=True)
    for name in ("b.csv", "a.csv", ".hidden.csv"):
        (folder / name).write_text(GOOD.replace("remark", name))
    monkeypatch.chdir(folder.parent)
    for given in ("clients/*.csv", "clients", folder / "*.csv", "cl*/[ab].csv"):
        task = task_for(given)
        assert clients_of(load(task)) == ("a", "b")
        assert named_clients(task) == ("a", "b")
        assert named_clients(task, "iid") == ()
    with pytest.raises(MissingDataError, match=r"no file matches .* in quotes"):
        task_for("clients/*.tsv")
    os.rename(folder / "a.csv", folder / "train.csv")
    with pytest.raises(InvalidInputError, match=r"has the splits of a data set, not a file .* other files \(b\.csv\)"):
        task_for("clients")


def test_a_header_in_another_look_is_the_same_column_and_a_file_without_it_is_named(tmp_path, logged):
    for name, header in (("a", "text,label"), ("b", "text,label"), ("c", "Text,LABEL ")):
        (tmp_path / f"{name}.csv").write_text(GOOD.replace("text,label", header).replace("remark", name))
    task = task_for(tmp_path / "*.csv", Overrides(test=str(tmp_path / "c.csv")))
    assert clients_of(load(task)) == ("a", "b", "c")
    assert len(load(task)) == 120
    assert len(load(task, "validation")) == 40  # the test file's own header differs from the task's
    assert "  columns Text in c.csv is read as text, LABEL in c.csv is read as label" in logged()
    (tmp_path / "c.csv").write_text(GOOD.replace("label", "verdict"))
    with pytest.raises(InvalidInputError, match=r"c\.csv has no column 'label', which other files have; give it the"):
        load(task_for(tmp_path / "*.csv", Overrides(label="label")))


def test_rows_in_memory_are_a_table_in_whatever_form_they_are():
    """Tables of datasets, pyarrow and polars have ``to_pandas``; datasets stores the label as a number of its names."""
    kinds = ["good", "bad"] * 20
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, kinds, strict=True)]
    frame = pd.DataFrame(rows)
    numbered = datasets.Dataset.from_pandas(frame.assign(label=[0, 1] * 20)).cast_column(
        "label", datasets.ClassLabel(names=["good", "bad"])
    )
    under_one = frame.set_axis(pd.MultiIndex.from_tuples([("", "text"), ("label", "")]), axis=1)
    for table in (
        rows, iter(rows), {"text": TEXTS, "label": kinds}, numbered, pa.Table.from_pylist(rows), under_one,
        frame.set_index("text"), frame.set_index([pd.RangeIndex(40, name="number"), "label"]),
    ):  # fmt: skip
        task = task_for(table)
        assert (task.text_columns, task.rows.label, task.label_names) == (("text",), "label", ("bad", "good"))
        assert len(load(task)) + len(load(task, "validation")) == 40
    assert TrainRequest(data=iter(rows), test=numbered).test["label"].tolist() == kinds


def test_a_table_in_memory_of_another_form_is_refused_with_the_way_to_a_data_frame():
    splits = datasets.DatasetDict(train=datasets.Dataset.from_dict({"text": TEXTS}))
    for table, says in (
        (TEXTS, "are a list in place of .* makes one, with a column of text"),
        ({"text": TEXTS, "label": [1]}, "columns of different lengths: {'text': 40, 'label': 1}"),
        (splits, "the splits train of a data set; give one of them, .* save_to_disk"),
        ("https://example.org/a.csv", "is an address; download the file and give its path"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "two columns are called 'text'; give each its own"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            task_for(table)


def test_a_client_with_an_empty_file_is_named(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text("text,label\n")
    with pytest.raises(InvalidInputError, match=r"b\.csv: it has a header and no rows"):
        task_for(tmp_path / "*.csv")


def test_equal_texts_never_stand_on_both_sides_and_every_label_and_client_can_be_trained():
    rows = [{"text": f"Remark {n % 50}", "label": f"l{n % 5}", "by": f"c{n % 7}"} for n in range(200)]
    rows += [{"text": f"only {n}", "label": "rare" if n else "l0", "by": "alone"} for n in range(2)]
    task = task_for(pd.DataFrame(rows), Overrides(label="label", client="by", text=("text",)))
    train, test = load(task), load(task, "validation")
    assert len(train) + len(test) == 202
    assert not set(train["text"]) & set(test["text"])
    assert len(set(train["label"])) == 6
    assert len(divide(train, 8, 1.0, 0, "natural")) == 8
    with pytest.raises(InvalidInputError, match=r"the rows are from 8 clients .* the allocation is for 3"):
        divide(train, 3, 1.0, 0, "natural")


def test_where_no_row_is_left_to_test_on_the_line_says_why():
    for texts, count, distinct in [(["the same words"], 40, 1), (["one", "two"], 40, 2), (["one", "two"], 2, 2)]:
        frame = pd.DataFrame({"text": (texts * count)[:count], "label": (["good", "bad"] * count)[:count]})
        with pytest.raises(
            InvalidInputError, match=f"none of {count} rows is left to test on: they have {distinct} diff"
        ):
            load(task_for(frame, Overrides(text=("text",), label="label")), "validation")


def test_a_table_in_memory_that_is_gone_is_asked_for_again():
    task = Task(name="t", prompt="{text} It was", rows=TableRows(label="label"))
    with pytest.raises(MissingDataError, match="these rows were a table in memory"):
        load(task)


def test_numbers_are_labels_in_the_order_that_the_file_itself_names(tmp_path):
    client_file(tmp_path / "a.parquet", [(f"a {n}", n % 2) for n in range(20)], ["yes", "no"])
    (tmp_path / "test.csv").write_text("text,label\none,0\ntwo,1\n")
    task = task_for(tmp_path / "a.parquet", Overrides(test=str(tmp_path / "test.csv")))
    assert load(task, "validation")["label"].tolist() == [0, 1]
