"""Small files whose rows would take all memory: refused in one line before it is taken."""

from __future__ import annotations

import functools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zorba_core.data.sources import read_parquet
from zorba_core.data.table_files import TableFile
from zorba_core.data.tables import read_table
from zorba_core.errors import InvalidInputError

ROWS, LETTERS = 6_000, 1_000_000  # 6 GB of text
MOST_TAKEN = 500_000_000  # bytes


def equal_texts():
    places = pa.array(np.zeros(ROWS, np.int32))
    return pa.table({"text": pa.DictionaryArray.from_arrays(places, pa.array(["x" * LETTERS]))})


def lists_of_nothing():
    ends = np.arange(2_001, dtype=np.int32) * 100_000
    return pa.table({"text": pa.ListArray.from_arrays(pa.array(ends), pa.nulls(int(ends[-1]), pa.int8()))})


def inside_an_object():
    return pa.table({"text": pa.StructArray.from_arrays([equal_texts()["text"].combine_chunks()], ["words"])})


@pytest.fixture
def pool():
    before = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(before)
    pa.set_memory_pool(counting)
    yield counting
    pa.set_memory_pool(before)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A Parquet file of what ``make`` makes; one for all readers, since writing takes longer than refusing."""

    @functools.cache
    def write(make, **options):
        path = tmp_path_factory.mktemp("tables") / "rows.parquet"
        pq.write_table(make(), path, compression="zstd", **options)
        return path

    return write


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (equal_texts, {}),
        (equal_texts, {"store_schema": False}),
        (equal_texts, {"store_schema": False, "row_group_size": 700}),
        (lists_of_nothing, {}),
        (inside_an_object, {"store_schema": False}),
    ],
)
@pytest.mark.parametrize(
    "read", [read_table, lambda path: read_parquet(path, ["text"])], ids=["own rows", "published rows"]
)
def test_a_small_parquet_file_cannot_make_a_large_allocation(written, pool, read, make, options):
    path = written(make, **options)
    assert path.stat().st_size < 100_000
    before = pool.max_memory()
    with pytest.raises(InvalidInputError, match="its rows take more than 4 GiB of memory, which is the limit") as error:
        read(path)
    assert "\n" not in str(error.value)
    assert pool.max_memory() - before < MOST_TAKEN


def test_a_saved_dataset_of_one_text_cannot_either(tmp_path, pool):
    table = equal_texts()
    with pa.ipc.new_stream(tmp_path / "data.arrow", table.schema) as stream:
        stream.write_table(table)
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    with pytest.raises(InvalidInputError, match="its rows take more than 4 GiB of memory"):
        read_table(tmp_path)
    assert pool.max_memory() < MOST_TAKEN


def test_rows_without_columns_and_rows_beyond_the_limit_are_counted_first(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"label": pa.nulls(10_000_001, pa.int8())}), path)
    with pytest.raises(InvalidInputError, match="10,000,001 rows are more than 10,000,000"):
        read_table(path)


def test_rows_of_every_kind_within_the_limit_are_read_as_before(tmp_path):
    table = pa.table(
        {
            "text": pa.array(["a", None, "b"] * 50).dictionary_encode(),
            "words": [["a", "b"], [], None] * 50,
            "answers": [{"text": ["x"], "start": 3}, None, {"text": None, "start": 0}] * 50,
            "named": pa.array([[("k", 1)], [], None] * 50, pa.map_(pa.string(), pa.int8())),
            "seen": pa.array([True, False, None] * 50),
            "fixed": pa.array([[1, 2], None, [3, 4]] * 50, pa.list_(pa.int32(), 2)),
            "viewed": pa.array(["a long text that is no short one", None, ""] * 50, pa.string_view()),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    frame = TableFile.read(tmp_path / "rows.parquet").frame
    for name in table.column_names:
        assert frame[name].tolist() == table[name].to_pylist(), name
