"""Tables written back as they were read, with columns behind."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zorba_core.data.table_files import TableFile, check_output
from zorba_core.data.tables import read_table
from zorba_core.errors import InvalidInputError, MissingDataError

ADDED = {"prediction": ["yes", "no"], "probability": [0.25, 0.75]}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.csv",
            'id,text\n007,"a, ""b"""\n8,"two\nlines"\n',
            'id,text,prediction,probability\n007,"a, ""b""",yes,0.25\n8,"two\nlines",no,0.75\n',
        ),
        ("a.csv", "id;text\n1;x\n2;NA\n", "id;text;prediction;probability\n1;x;yes;0.25\n2;NA;no;0.75\n"),
        ("a.csv", "\ufeffid,text\n1,é\n2,\n", "id,text,prediction,probability\n1,é,yes,0.25\n2,,no,0.75\n"),
        ("a.tsv", "id\ttext\n1\ta,b\n2\tc\n", "id\ttext\tprediction\tprobability\n1\ta,b\tyes\t0.25\n2\tc\tno\t0.75\n"),
    ],
)
def test_cells_of_text_files_stay_as_they_are(tmp_path, name, content, expected):
    (tmp_path / name).write_text(content, encoding="utf-8")
    out = tmp_path / f"out{name[1:]}"
    TableFile.read(tmp_path / name).write(out, ADDED)
    assert out.read_text(encoding="utf-8") == expected


def test_json_lines_keep_their_objects(tmp_path):
    rows = [{"text": "a", "tags": ["x", 1], "n": 1.5}, {"text": "ü", "tags": [], "more": None}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    TableFile.read(tmp_path / "a.jsonl").write(tmp_path / "out.jsonl", ADDED)
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert written == [
        {**row, "prediction": prediction, "probability": probability}
        for row, prediction, probability in zip(rows, *ADDED.values(), strict=True)
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_file_is_written_back_from_whatever_encoding_it_could_be_read_in(tmp_path, name, encoding):
    lines = ['{"text": "é"}', '{"text": "b"}'] if name.endswith("jsonl") else ["text", "é", "b"]
    (tmp_path / name).write_bytes("\n".join(lines).encode(encoding))
    TableFile.read(tmp_path / name, "cp1252").write(tmp_path / f"out-{name}", ADDED)
    assert read_table(tmp_path / f"out-{name}")["text"].tolist() == ["é", "b"]


def test_a_table_becomes_a_list_of_objects(tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n1,a\n2,b\n")
    TableFile.read(tmp_path / "a.csv").write(tmp_path / "out.json", ADDED)
    assert json.loads((tmp_path / "out.json").read_text())[1] == {
        "id": "2", "text": "b", "prediction": "no", "probability": 0.75,
    }  # fmt: skip
    assert read_table(tmp_path / "out.json")["prediction"].tolist() == ["yes", "no"]


def test_parquet_keeps_its_types(tmp_path):
    table = pa.table({"id": pa.array([1, None], pa.int16()), "text": ["a", "b"], "at": pa.array([0, 1], pa.date32())})
    pq.write_table(table, tmp_path / "a.parquet")
    TableFile.read(tmp_path / "a.parquet").write(tmp_path / "out.parquet", ADDED)
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.select(["id", "text", "at"]).equals(table)
    assert written.column("prediction").to_pylist() == ADDED["prediction"]


@pytest.mark.parametrize("before", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("after", ["csv", "tsv", "jsonl", "parquet"])
def test_the_ending_of_the_new_file_says_its_format(tmp_path, before, after):
    (tmp_path / "seed.csv").write_text("id,text\n1,a\n2,b\n")
    TableFile.read(tmp_path / "seed.csv").write(tmp_path / f"a.{before}", {"more": ["p", "q"]})
    TableFile.read(tmp_path / f"a.{before}").write(tmp_path / f"b.{after}", ADDED)
    frame = TableFile.read(tmp_path / f"b.{after}").frame
    assert list(frame) == ["id", "text", "more", "prediction", "probability"]
    assert frame["text"].tolist() == ["a", "b"]
    assert [float(value) for value in frame["probability"]] == [0.25, 0.75]


def test_a_column_that_is_there_already_is_not_overwritten(tmp_path):
    (tmp_path / "a.csv").write_text("text,prediction\na,b\n")
    with pytest.raises(InvalidInputError, match="has a column 'prediction' already"):
        TableFile.read(tmp_path / "a.csv").write(tmp_path / "b.csv", ADDED)
    assert not (tmp_path / "b.csv").exists()


def test_an_output_is_refused_before_anything_is_computed(tmp_path):
    (tmp_path / "there.csv").write_text("")
    for target, says in (
        ("there.csv", "exists already"),
        ("nowhere/b.csv", "there is no folder"),
        ("b.xlsx", "use one of .csv"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            check_output(tmp_path / target)
    with pytest.raises(MissingDataError):
        TableFile.read(tmp_path / "none.csv")
