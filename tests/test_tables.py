"""Tables as users have them: what is read, and one line with file and line for what cannot be."""

from __future__ import annotations

import json
from datetime import datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zorba_core.data.infer import task_for
from zorba_core.data.task import Overrides
from zorba_core.errors import InvalidInputError, MissingDataError, ZorbaError
from zorba_core.tables import check_output, read_table, write_table

GOOD = "text,label\n" + "".join(f"remark {n} of a kind,{'good' if n % 2 else 'bad'}\n" for n in range(40))


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_cells_are_what_stands_in_the_file_and_rows_know_their_line(tmp_path, subtests):
    for name, content, rows, lines in [
        ("a.csv", 'text,n\n"He ""said"";\nso",007\nNA,2\n', [['He "said";\nso', "007"], ["NA", "2"]], [2, 4]),
        ("a.csv", "text;n\na, b;1\n", [["a, b", "1"]], [2]),
        ("a.csv", "text|n\n\na|1\n", [["a", "1"]], [3]),
        ("a.csv", "sep=;\ntext;n\na,b,c;1\n", [["a,b,c", "1"]], [3]),
        ("a.csv", "sep=\t\r\ntext\tn\r\na\t1\r\n", [["a", "1"]], [3]),
        ("a.csv", "\ufefftext,n\né,1\n", [["é", "1"]], [2]),
        ("a.csv", "text,n\né,1\n".encode("utf-16"), [["é", "1"]], [2]),
        ("a.tsv", 'text\tn\n"a\nb"\t1\n"c ""d"""\t2\n', [["a\nb", "1"], ['c "d"', "2"]], [2, 4]),
        ("a.tsv", 'text\tn\n"begins\t1\nb\t2\nends"\t3\n', [['"begins', "1"], ["b", "2"], ['ends"', "3"]], [2, 3, 4]),
        ("a.tsv", 'text\tn\n"Yes" she said\t1\n', [['"Yes" she said', "1"]], [2]),
        ("a.csv", f"text,n\n{'a' * 200_000},1\n", [["a" * 200_000, "1"]], [2]),
        ("a.jsonl", '{"text": "a", "n": 1}\n\n{"text": "b"}\n', [["a", 1], ["b", None]], [1, 3]),
        ("a.json", '[{"text": "a", "n": [1]}]', [["a", [1]]], [1]),
    ]:
        with subtests.test(name=name, content=content, rows=rows, lines=lines):
            frame = read_table(written(tmp_path, name, content))
            assert list(frame) == ["text", "n"]
            assert frame.to_numpy().tolist() == rows
            assert frame.index.tolist() == lines


def test_a_file_that_cannot_be_read_is_one_line_with_the_place_and_the_way_out(tmp_path, subtests):
    for name, content, says in [
        ("a.csv", "", "the file is empty"),
        ("a.csv", "text,label\n", "a header and no rows"),
        ("a.csv", b"PK\x03\x04\0\0", "a binary file; give a table"),
        ("a.csv", "text,text,label\na,b,c\n", "two columns are called 'text'"),
        ("a.csv", GOOD + "a, b,good\n", "a.csv, line 42: 3 cells and the header has 2; put a text"),
        ("a.csv", GOOD + '"a remark,good\n', "a.csv, line 42: not CSV (a quote is not closed)"),
        ("a.csv", GOOD.encode() + "café,good\n".encode("cp1252"), "a.csv, line 42: byte 0xE9 is not UTF-8 text; save"),
        (
            "a.csv",
            "Export of May\n" + GOOD,
            "line 1: it has 1 cell and line 2 has 2; if line 1 is a title above the header",
        ),
        ("a.csv", "the film was a joy,pos\nthe plot was thin,neg\nfine,pos\n", "line 1: 'pos' is also a value of its"),
        ("a.csv", '3,"Wall St. falls"\n3,Oil\n1,War\n', "the file seems to have no header; put a line with"),
        ("a.jsonl", '{"text": "a"}\n{"text": "b", "label": \n', "a.jsonl, line 2: not JSON"),
        ("a.jsonl", '{"text": "a"}\n[1, 2]\n', "a.jsonl, line 2: a list in place of an object such as {...}"),
        ("a.json", '{"text": "a"}', "a.json: it has a dict in place of a list of objects; with pandas: to_json("),
        ("a.json", '[["a", 1], ["b", 2]]', "it has lists without names in place of a list of objects; with pandas"),
        ("a.csv", POINTER, "a.csv: a pointer of git-lfs in place of the file itself; fetch it: git lfs pull --include"),
        ("a.parquet", POINTER, "a.parquet: a pointer of git-lfs in place of the file itself"),
        (
            "a.json",
            '{"text": "a"}\n{"text": "b"}',
            "a.json, line 2: not JSON; if each line is an object, name the file .jsonl",
        ),
        ("a.parquet", b"PAR1 and nothing else", "cannot be read as Parquet"),
        ("a.xlsx", b"no workbook", "cannot be read as Excel"),
        ("a.docx", b"x", "unknown kind .docx; use one of .csv"),
        ("a.jsonl.gz", b"x", "a.jsonl.gz: a packed file; unpack it first: gunzip a.jsonl.gz"),
        ("a.xls", b"x", "a.xls: a workbook of another format; save it as .xlsx or CSV"),
    ]:
        with subtests.test(name=name, content=content, says=says):
            with pytest.raises(InvalidInputError) as error:
                read_table(written(tmp_path, name, content))
            assert says in str(error.value)
            assert "\n" not in str(error.value)


def test_a_tsv_with_commas_is_read_by_its_header(tmp_path):
    for content, cells in [
        ("text,n\na b,1\n", [["a b", "1"]]),
        ("text\na, b\n", [["a, b"]]),
        ("a,b\tn\n1,2\t3\n", [["1,2", "3"]]),
    ]:
        assert read_table(written(tmp_path, "a.tsv", content)).to_numpy().tolist() == cells


def test_a_word_in_the_header_may_be_a_value_of_its_column(tmp_path):
    frame = read_table(written(tmp_path, "a.csv", "message,spam\nbuy this now,spam\nsee you at six,ham\n"))
    assert frame["spam"].tolist() == ["spam", "ham"]


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(3 * 2**30)  # sparse: it takes no room
    with pytest.raises(InvalidInputError, match=r"large\.csv: it has 3\.0 GiB and a file may have 1 GiB"):
        read_table(tmp_path / "large.csv")


def test_a_file_that_is_not_there_says_what_to_give(tmp_path):
    with pytest.raises(MissingDataError, match=r"none\.csv' does not exist; give a table"):
        read_table(tmp_path / "none.csv")


def test_another_encoding_is_read_where_it_is_named_and_the_file_is_not_utf_8(tmp_path, subtests):
    for name in ["a.csv", "a.jsonl"]:
        with subtests.test(name=name):
            lines = ['{"text": "é"}', '{"text": "b"}'] if name.endswith("jsonl") else ["text", "é", "b"]
            for encoding in ("cp1252", "utf-8", "utf-16"):
                path = written(tmp_path, name, "\n".join(lines).encode(encoding))
                assert read_table(path, "cp1252")["text"].tolist() == ["é", "b"]


def test_parquet_of_other_programs_is_read_or_refused_in_one_line(tmp_path):
    text = pa.array(["a", "b"])
    far, zoned = pa.array([2**45] * 2, pa.timestamp("s")), pa.array([0, 0], pa.timestamp("s", tz="Nowhere/Else"))
    pq.write_table(pa.table({"text": text, "at": far, "": zoned}), tmp_path / "times.parquet")
    assert read_table(tmp_path / "times.parquet").to_dict("list") == {
        "text": ["a", "b"], "at": [None] * 2, "column 3": [None] * 2
    }  # fmt: skip
    pq.write_table(pa.table([text, text], ["text", "text"]), tmp_path / "twice.parquet")
    latin = pa.Array.from_buffers(pa.string(), 2, pa.array([b"caf\xe9", b"b"]).buffers())
    pq.write_table(pa.table({"text": latin}), tmp_path / "latin.parquet")
    for name, says in (("twice", "two columns are called 'text'"), ("latin", "column text cannot be read")):
        with pytest.raises(ZorbaError, match=says):
            read_table(tmp_path / f"{name}.parquet")


def test_a_workbooks_first_sheet_is_read_with_excels_row_numbers(tmp_path):
    rows = [["text", "n"], ["a", 7], [None, None], ["NA", datetime(2025, 1, 2)]]
    pd.DataFrame(rows).to_excel(tmp_path / "a.xlsx", header=False, index=False)
    frame = read_table(tmp_path / "a.xlsx")
    assert frame.to_numpy().tolist() == [["a", 7], ["NA", datetime(2025, 1, 2)]]
    assert frame.index.tolist() == [2, 4]


def test_json_in_each_form_that_pandas_and_datasets_write_is_the_same_table(tmp_path, subtests):
    frame = pd.DataFrame({"text": ["a", "b", "c"], "n": [1, 2, 3]}, index=["x", "y", "z"])
    numbered = frame.reset_index(drop=True)
    forms = {orient: numbered.to_json(orient=orient) for orient in ("records", "columns", "split", "table")}
    forms["index"] = frame.to_json(orient="index")
    forms["a list for each column"] = json.dumps(frame.to_dict("list"))
    forms["within an object"] = json.dumps({"version": "1.0", "data": frame.to_dict("records")})
    for form, content in forms.items():
        with subtests.test(form=form):
            read = read_table(written(tmp_path, "a.json", content))
            assert read[["text", "n"]].to_numpy().tolist() == [["a", 1], ["b", 2], ["c", 3]]


def test_a_sheet_is_read_by_its_name_and_a_first_sheet_without_rows_names_the_others(tmp_path):
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        pd.DataFrame([["Export of May"]]).to_excel(book, sheet_name="Cover", header=False, index=False)
        pd.DataFrame({"text": ["a", "b"], "n": [1, 2]}).to_excel(book, sheet_name="Data", index=False)
    frame = read_table(tmp_path / "a.xlsx", sheet="Data")
    assert (frame["text"].tolist(), frame.attrs["sheets"]) == (["a", "b"], ["Data", "Cover"])
    for sheet, says in [
        (None, r"its first sheet \(Cover\) has no header with rows below; rows are on Data \(--sheet 'Data'\)"),
        ("Date", "it has no sheet 'Date'; its sheets are Cover, Data"),
    ]:
        with pytest.raises(InvalidInputError, match=says):
            read_table(tmp_path / "a.xlsx", sheet=sheet)


def test_a_formula_without_a_stored_result_is_named_where_its_column_is_read(tmp_path):
    rows = [[f"remark {n} of a kind", '=IF(1>0,"good","bad")', "=1+1", "ab"[n % 2]] for n in range(9)]
    table = pd.DataFrame(rows, columns=["text", "label", "spare", "kind"])
    table.to_excel(tmp_path / "a.xlsx", index=False)
    for overrides in (Overrides(), Overrides(label="label")):
        with pytest.raises(
            InvalidInputError, match=r"a\.xlsx, cell B2 \(column label\): a formula without .* save the"
        ):
            task_for(tmp_path / "a.xlsx", overrides)
    assert task_for(tmp_path / "a.xlsx", Overrides(label="kind")).label_names == ("a", "b")


def saved_by_datasets(folder, table: pa.Table) -> None:
    """As ``Dataset.save_to_disk`` writes it, with a file beside it that ``map`` left."""
    folder.mkdir(parents=True)
    for name in ("data-00000-of-00001.arrow", "cache-1.arrow"):
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))


def test_a_folder_that_datasets_saved_is_read_with_its_label_names(tmp_path):
    table = pa.table({"text": ["a", "b"], "label": [1, 0]})
    names = {"info": {"features": {"label": {"names": ["bad", "good"], "_type": "ClassLabel"}}}}
    saved_by_datasets(tmp_path / "set" / "train", table.replace_schema_metadata({"huggingface": json.dumps(names)}))
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    frame = read_table(tmp_path / "set")
    assert frame["label"].tolist() == [1, 0]
    assert frame.attrs["names"] == {"label": ["bad", "good"]}
    (tmp_path / "set" / "train" / "state.json").write_text("{}")
    with pytest.raises(InvalidInputError, match="not a folder that datasets saved"):
        read_table(tmp_path / "set")


def test_the_ending_of_the_new_file_says_its_format(tmp_path, subtests):
    for before in ["csv", "tsv", "jsonl", "json", "parquet", "xlsx"]:
        for after in ["csv", "tsv", "jsonl", "json", "parquet", "xlsx"]:
            with subtests.test(before=before, after=after):
                write_table(pd.DataFrame({"id": ["1", "2"], "text": ["a", "é, b"]}), tmp_path / f"a.{before}")
                write_table(
                    read_table(tmp_path / f"a.{before}").assign(prediction=["yes", "no"]), tmp_path / f"b.{after}"
                )
                assert read_table(tmp_path / f"b.{after}").astype(str).to_dict("list") == {
                    "id": ["1", "2"], "text": ["a", "é, b"], "prediction": ["yes", "no"]
                }  # fmt: skip


def test_cells_and_separator_of_a_csv_stay_as_they_are(tmp_path):
    path = written(tmp_path, "a.csv", 'id;text\n007;"a; ""b"""\n8;\n')
    write_table(read_table(path).assign(probability=[0.25, 0.75]), tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == 'id;text;probability\n007;"a; ""b""";0.25\n8;;0.75\n'


def test_an_output_is_refused_before_anything_is_computed(tmp_path):
    written(tmp_path, "there.csv", "")
    for target, says in (("there.csv", "exists"), ("none/b.csv", "there is no folder"), ("b.doc", "use one of .csv")):
        with pytest.raises(InvalidInputError, match=says):
            check_output(tmp_path / target)
