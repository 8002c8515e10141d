"""What a file's name says: splits are splits, shards are one table, and only other files are clients."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zorba_core.data.divide import named_clients
from zorba_core.data.infer import task_for
from zorba_core.data.load import load
from zorba_core.data.own_rows import labelled_rows
from zorba_core.data.sources import sources
from zorba_core.data.task import Overrides
from zorba_core.errors import InvalidInputError

HUB = "train-00000-of-00002.parquet train-00001-of-00002.parquet validation-00000-of-00001.parquet"
CASES = [  # files; those to train on, with their clients; those to test on; those that are not read
    (f"{HUB} test-00000-of-00001-0a1b2c3d4e5f6071.parquet README.md", "train-00000 train-00001", "", "valid", "test"),
    ("train.csv dev.csv test.csv dataset_infos.json", "train", "", "dev", "test"),
    ("Train.csv TEST.csv", "Train", "", "TEST", ""),
    ("reviews_train.csv reviews_test.csv", "reviews_train", "", "reviews_test", ""),
    ("train_set.jsonl test_set.jsonl", "train", "", "test", ""),
    ("train/0.csv train/1.csv test/2.csv", "train/0 train/1", "", "test/2", ""),
    ("train/ann.csv train/bob.csv test/ann.csv", "train/ann train/bob", "ann bob", "test/ann", ""),
    ("north_train.csv north_test.csv south_train.csv", "north_train south_train", "north south", "north_test", ""),
    ("north/train.csv south/train.csv", "north south", "north south", None, ""),
    ("a-00000-of-00002.csv a-00001-of-00002.csv", "a-00000 a-00001", "", None, ""),
    ("part-00000-7f-c000.snappy.parquet part-00001-7f-c000.snappy.parquet", "part-00000 part-00001", "", None, ""),
    ("a-00000-of-00001.csv b-00000-of-00001.csv", "a b", "a b", None, ""),
    ("train-00000-of-00001.parquet", "train", "", None, ""),
    ("ops.csv dev.csv test.csv", "dev ops test", "dev ops test", None, ""),
    ("unit-test.csv load-test.csv", "load unit", "load-test unit-test", None, ""),
    ("part-1.csv part-2.csv", "part-1 part-2", "part-1 part-2", None, ""),
]


@pytest.mark.parametrize(("files", "train", "clients", "test", "unread"), CASES)
def test_splits_are_splits_shards_are_one_table_and_other_files_are_clients(
    tmp_path, files, train, clients, test, unread
):
    for name in files.split():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    there = sources(str(tmp_path))

    def begin(paths, starts):
        relative = [path.removeprefix(f"{tmp_path}/") for path in paths]
        pairs = zip(relative, starts.split(), strict=True)
        return [path for path, start in pairs if not path.startswith(start)]

    assert begin(there.train.files, train) == []
    assert list(there.train.clients) == clients.split()
    assert (there.test is None) == (test is None)
    assert begin(there.test.files if there.test else (), test or "") == []
    assert begin(there.unread, unread) == []


def written(folder, name, texts):
    rows = [{"text": f"remark {text} of a kind", "label": "good" if text % 2 else "bad"} for text in texts]
    pd.DataFrame(rows).to_csv(folder / name, index=False)


def test_test_rows_of_a_data_set_are_tested_on_and_never_trained_on(tmp_path, logged):
    for name, texts in (("train.csv", range(40)), ("dev.csv", range(40, 50)), ("test.csv", range(50, 57))):
        written(tmp_path, name, texts)
    task = task_for(str(tmp_path / "*.csv"))
    lines = logged()
    assert "  files   train.csv to train on, dev.csv to test on; test.csv not read, for zorba evaluate" in lines
    assert not any("by a hash" in line for line in lines)
    assert named_clients(task) == ()
    train, test = load(task), load(task, "validation")
    assert (len(train), len(test), set(train["text"]) & set(test["text"])) == (40, 10, set())
    given = task_for(str(tmp_path / "*.csv"), Overrides(test=str(tmp_path / "test.csv")))
    assert (len(load(given)), len(load(given, "validation"))) == (40, 7)
    assert len(labelled_rows(task, str(tmp_path / "*.csv"))) == 10
    (tmp_path / "notes.csv").write_text("text,label\na,b\n")
    with pytest.raises(InvalidInputError, match=r"splits of a data set.* other files \(notes.csv\); give its files"):
        task_for(str(tmp_path / "*.csv"))


def test_a_saved_data_set_of_several_splits_is_tested_on_its_own(tmp_path):
    for split, count in (("train", 20), ("test", 6)):
        (tmp_path / split).mkdir()
        table = pa.table({"text": [f"{split} {n}" for n in range(count)], "label": ["a", "b"] * (count // 2)})
        with (
            pa.OSFile(str(tmp_path / split / "data.arrow"), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema) as out,
        ):
            out.write_table(table)
        (tmp_path / split / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    task = task_for(str(tmp_path), Overrides(text=("text",)))
    assert (len(load(task)), len(load(task, "validation"))) == (20, 6)


def test_shards_of_one_split_are_one_table_in_order(tmp_path):
    for shard in range(2):
        table = pa.table({"text": [f"{shard} {n} of a kind" for n in range(30)], "label": ["a", "b"] * 15})
        pq.write_table(table, tmp_path / f"train-0000{shard}-of-00002.parquet")
    task = task_for(str(tmp_path))
    assert named_clients(task) == ()
    assert len(load(task)) + len(load(task, "validation")) == 60
