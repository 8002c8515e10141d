"""Rows as users have them, and what is wrong with them: one line with file and line, and the way out."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from zorba_core.data import tables
from zorba_core.data.check import check_task
from zorba_core.data.encoding import encode, label_tokens
from zorba_core.data.file_rows import FileRows
from zorba_core.data.inference import Said
from zorba_core.data.label_words import words_for
from zorba_core.data.own_data import task_for
from zorba_core.data.partition import divide
from zorba_core.data.splits import load_split
from zorba_core.data.tables import read_table
from zorba_core.data.task_files import read_task, to_toml
from zorba_core.data.tasks import Task
from zorba_core.errors import InvalidInputError, MissingDataError, ZorbaError

GOOD = "text,label\n" + "".join(f"remark {n} of a kind,{'good' if n % 2 else 'bad'}\n" for n in range(40))


def refused(tmp_path, content, name="rows.csv", **said) -> str:
    """What is said of a file: a line that names it, and nothing beside it is written."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ZorbaError) as error:
        load_split(task_for(str(path), Said(**said)), "federated")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == [path]
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "said", "says"),
    [
        (GOOD, {"text": ("body",)}, "there is no column 'body'; the rows have text, label"),
        (GOOD, {"prompt": "{body} It was"}, "has no column 'body'; it has text, label"),
        (GOOD, {"prompt": "It was"}, "the prompt has no field such as {text}"),
        (GOOD, {"label_words": ("a", "b", "c")}, "3 label words are given and column label has 2 labels (bad, good)"),
        (GOOD, {"label": "label", "answer": "text"}, "give --label or --answer, not both"),
        ("text,label\n" + "a remark,good\n" * 9, {}, "one label only, 'good'"),
        (
            "text,label\n" + "".join(f"a remark,label {n}\n" for n in range(10_000)),
            {"label": "label"},
            "10,000 different",
        ),
        (GOOD + ",good\n", {}, "rows.csv, line 42: no text in text; remove such rows"),
        (GOOD + "nan,good\n  ,bad\n", {}, "rows.csv, line 42: no text in text (2 such rows: rows.csv, line 43)"),
        (GOOD + "a remark,\n", {}, "rows.csv, line 42: no label in label"),
        (GOOD + "a, b,good\n", {}, "rows.csv, line 42: 3 cells and the header has 2"),
        (GOOD + '"a remark,good\n', {}, "rows.csv, line 42: not CSV (a quote is opened and not closed)"),
        (GOOD.encode() + "café,good\n".encode("cp1252"), {}, "rows.csv, line 42: byte 0xE9 at column 4 is not UTF-8"),
        ("text,text,label\na,b,c\n", {}, "two columns are called 'text'"),
        ("text,label\n", {}, "a header and no rows"),
        ("", {}, "the file is empty"),
        (b"PK\x03\x04\0\0", {}, "a binary file; give CSV, TSV, JSON lines"),
        ("a,b\n" + "".join(f"x{n},y{n}\n" for n in range(30)), {}, "name it with --label, or with --answer"),
    ],
)
def test_what_is_wrong_with_a_csv_is_one_line_with_its_line_and_the_way_out(tmp_path, content, said, says):
    assert says in refused(tmp_path, content, **said)


def test_a_column_that_no_prompt_can_name_is_refused_with_another_name(tmp_path):
    for column, plain in (("re{mark}", "re_mark"), ("{text}", "text"), ("a}", "a"), ("two\nlines", "two_lines")):
        content = GOOD.replace("text", f'"{column}"', 1)
        for said in ({}, {"text": (column,)}):
            line = refused(tmp_path, content, label="label", **said)
            assert f"column {column!r} has a brace or a line break in its name" in line
            assert f"rename it in file rows.csv, to '{plain}' for example" in line
    line = refused(tmp_path, GOOD.replace("text", "re{mark}", 1), label="label", prompt="{re{mark}} It was")
    assert "rename it in rows.csv, to 're_mark' for example" in line


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['{"text": "a", "label": "x"}', '{"text": "b", "label": '], "rows.jsonl, line 2: not JSON"),
        (['{"text": "a", "label": "x"}', "[1, 2]"], "rows.jsonl, line 2: a list where an object"),
        (['{"text": "a", "label": "x"}'] * 5 + ['{"label": "y"}'] * 5, "rows.jsonl, line 6: no text in text"),
        (['{"text": ["a"], "label": "x"}', '{"text": ["b"], "label": "y"}'], "no column of text among"),
    ],
)
def test_a_ragged_file_of_json_lines_is_named_with_its_line(tmp_path, lines, says):
    assert says in refused(tmp_path, "\n".join(lines), "rows.jsonl")


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate(3 * 2**30)  # sparse: it takes no room
    with pytest.raises(
        InvalidInputError, match=r"large\.csv: 3\.0 GiB, and at most 1 GiB is read of one file; train on"
    ):
        task_for(str(path))


def test_a_file_that_is_not_there_or_of_another_kind_says_what_to_give(tmp_path):
    with pytest.raises(MissingDataError, match=r"none\.csv' does not exist; give a file"):
        task_for(str(tmp_path / "none.csv"))
    (tmp_path / "rows.xlsx").write_bytes(b"x")
    with pytest.raises(InvalidInputError, match=r"of an unknown kind \.xlsx; give CSV"):
        task_for(str(tmp_path / "rows.xlsx"))
    with pytest.raises(InvalidInputError, match=r"a folder without state\.json"):
        task_for(str(tmp_path))
    with pytest.raises(MissingDataError, match="no file matches"):
        task_for(str(tmp_path / "clients" / "*.csv"))


def test_quotes_line_breaks_semicolons_and_marks_at_the_start_are_read(tmp_path):
    text = 'ticket;topic\n"He said ""no"";\nand left";billing\nplain;login\n'
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / "rows.csv").write_text(text, encoding=encoding)
        frame = read_table(tmp_path / "rows.csv")
        assert frame["ticket"].tolist() == ['He said "no";\nand left', "plain"]
        assert frame.index.tolist() == [2, 4]  # the lines that an editor shows


def test_a_label_that_was_not_trained_on_is_named_with_its_line(tmp_path):
    (tmp_path / "rows.csv").write_text(GOOD)
    (tmp_path / "test.csv").write_text("text,label\na remark,good\nanother,dreadful\n")
    task = task_for(str(tmp_path / "rows.csv"), Said(test=str(tmp_path / "test.csv")))
    with pytest.raises(
        InvalidInputError, match=r"test\.csv, line 3: the label 'dreadful' is not among those trained on"
    ):
        load_split(task, "validation")


def test_ids_that_come_twice_are_refused_where_they_are_declared_and_noted_where_not(tmp_path):
    (tmp_path / "rows.csv").write_text("id,text,label\n" + "1,a remark,x\n2,another one,y\n1,a third one,x\n" * 3)
    notes: list[str] = []
    task = task_for(str(tmp_path / "rows.csv"), notice=notes.append)
    assert any("7 rows have an id that is there already (rows.csv, line 4" in line for line in notes)
    toml = to_toml(task).replace('label = "label"', 'label = "label"\nid = "id"')
    (tmp_path / "task.toml").write_text(toml)
    with pytest.raises(InvalidInputError, match=r"rows\.csv, line 4: the id '1' is there already \(7 such rows"):
        load_split(read_task(tmp_path / "task.toml"), "federated")


def test_equal_texts_never_stand_on_both_sides_and_every_label_and_client_can_be_trained(tmp_path):
    rows = [{"text": f"Remark {n % 50}", "label": f"l{n % 5}", "by": f"c{n % 7}"} for n in range(200)]
    rows += [{"text": f"only {n}", "label": "rare" if n else "l0", "by": "alone"} for n in range(2)]
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    task = Task(name="t", prompt="{text} Kind:", rows=FileRows(tmp_path / "rows.csv", label="label", client="by"))
    train, test = load_split(task, "federated"), load_split(task, "validation")
    assert len(train) + len(test) == 202
    assert not set(train["text"]) & set(test["text"])
    assert len(set(train["label"])) == 6
    assert len(divide(train, 8, 1.0, 0, "natural")) == 8
    with pytest.raises(InvalidInputError, match=r"the rows are those of 8 clients .* the allocation is for 3"):
        divide(train, 3, 1.0, 0, "natural")


def test_a_client_with_an_empty_file_is_named(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text("text,label\n")
    with pytest.raises(InvalidInputError, match=r"b\.csv: it has a header and no rows"):
        task_for(str(tmp_path / "*.csv"))


@pytest.mark.parametrize(("division", "even"), [("iid", True), ("quantity", False), ("dirichlet", False)])
def test_rows_by_chance_are_each_somebodys_once(division, even):
    frame = pd.DataFrame({"text": ["a"] * 400, "label": [0, 1] * 200})
    held_N = divide(frame, 8, 0.3, 5, division)
    assert sorted(row for held in held_N for row in held) == list(range(400))
    assert all(len(held) for held in held_N)
    assert (max(map(len, held_N)) - min(map(len, held_N)) <= 1) is even


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ('name = "My Task"', "a name has lower-case"),
        ("colour = 3", "unknown key 'colour'"),
        ('label_words = "good"', "label_words is 'good'; it must be a list of texts"),
        ("[rows]\ncolour = 3", r"\[rows\] has an unknown key 'colour'"),
        ("[rows]\nmade_by = 'os:getcwd'", r"\[rows\] has an unknown key 'made_by'"),
        ("prompt = ", "not TOML"),
    ],
)
def test_a_task_file_that_cannot_be_is_named_with_its_key(tmp_path, change, says):
    (tmp_path / "rows.csv").write_text(GOOD)
    lines = {
        "name": 'name = "t"',
        "prompt": 'prompt = "{text} It was"',
        "[rows]": '[rows]\ntrain = "rows.csv"\nlabel="label"',
    }
    key = next((key for key in lines if change.startswith(key)), "")
    lines[key or "colour"] = f"{lines[key]}\n{change.removeprefix(key)}" if key == "[rows]" else change
    rows = lines.pop("[rows]")
    (tmp_path / "task.toml").write_text("\n".join([*lines.values(), rows]))
    with pytest.raises(InvalidInputError, match=rf"task\.toml: .*{says}"):
        read_task(tmp_path / "task.toml")


def test_a_set_of_the_hub_is_a_task_of_ones_own_without_code(tmp_path, monkeypatch):
    (tmp_path / "task.toml").write_text(
        'name = "own"\nprompt = "{text} It was"\nlabel_names = ["no", "yes"]\n[rows]\nhub = "who/what"\nconfig = "c"\n'
        'folder = "own"\nevaluation_splits = ["test"]\ncolumns = { text = "sentence" }\n'
    )
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path))
    (tmp_path / "own").mkdir()
    pd.DataFrame({"sentence": ["a", "b"], "label": [0, 1]}).to_parquet(tmp_path / "own" / "train.parquet")
    assert load_split(read_task(tmp_path / "task.toml"), "federated")["text"].tolist() == ["a", "b"]


def test_a_folder_that_datasets_saved_is_read_with_its_label_names(tmp_path):
    import pyarrow as pa

    folder = tmp_path / "saved" / "train"
    folder.mkdir(parents=True)
    table = pa.table({"text": [f"remark {n} is here" for n in range(20)], "label": [n % 2 for n in range(20)]})
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    names = {"features": {"label": {"names": ["bad", "good"], "_type": "ClassLabel"}}}
    (folder / "dataset_info.json").write_text(json.dumps(names))
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    task = task_for(str(tmp_path / "saved"))
    assert task.label_names == ("bad", "good")
    assert set(load_split(task, "federated")["label"]) == {0, 1}


def test_label_words_differ_and_numbers_are_equally_long(tiny_tokenizer):
    assert words_for(["1", "10", "2"]) == ("01", "10", "02")
    assert words_for(["new", "new york", "bug_report"]) == ("new", "york", "bug report")
    assert words_for(["good", "bad"], tiny_tokenizer) == ("good", "bad")
    words = words_for(["FeatureRequest", "feature-request"])
    assert len(set(words)) == 2


def test_words_that_begin_each_other_are_refused_by_name(tmp_path, tiny_tokenizer):
    (tmp_path / "rows.csv").write_text(GOOD)
    task = task_for(str(tmp_path / "rows.csv"), Said(label_words=("good", "good food")))
    with pytest.raises(InvalidInputError, match=r"'good' begins .* the label word 'good food'"):
        label_tokens(task, tiny_tokenizer)


def test_a_prompt_that_is_longer_than_seq_len_names_the_length_that_is_needed(tmp_path, tiny_tokenizer):
    (tmp_path / "rows.csv").write_text(GOOD)
    task = task_for(str(tmp_path / "rows.csv"), Said(prompt="{text} " + "It was " * 20 + "it"))
    with pytest.raises(InvalidInputError, match=r"seq_len 16 cannot hold .* use at least \d+"):
        encode(task, load_split(task, "federated"), tiny_tokenizer, 16)
    assert check_task(task, tiny_tokenizer, 16)["lengths"]["prompt_itself"] > 16


def test_check_says_what_a_model_makes_of_the_rows_and_what_to_change(tmp_path, tiny_tokenizer):
    rows = [("the food was lovely " * (1 + n % 9), "good") for n in range(60)] + [("dull", "dreadful")] * 4
    pd.DataFrame(rows, columns=["text", "label"]).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "test.csv").write_text("text,label\ndull,dreadful\n")
    task = task_for(str(tmp_path / "rows.csv"), Said(test=str(tmp_path / "test.csv")))
    report = check_task(task, tiny_tokenizer, 16)
    assert len(report["prompts"]) == 3
    assert report["prompts"][1]["prompt"].endswith("dull Label:")
    assert report["prompts"][1]["answer"] == " dreadful"
    assert "Ġwas" in report["prompts"][0]["tokens"] + report["prompts"][2]["tokens"]
    assert [(label["name"], label["train"], label["test"]) for label in report["labels"]] == [
        ("dreadful", 4, 1), ("good", 60, 0)
    ]  # fmt: skip
    assert report["duplicates"]["across_the_split"] == 1
    advice = " ".join(report["recommendations"])
    for said in (
        "lose the end of their text: --seq-len",
        "the tokenizer splits",
        "uneven",
        "no test row has the label good",
    ):
        assert said in advice


def test_a_tokenizer_without_padding_and_start_token_trains_and_is_told_of(tmp_path, tiny_tokenizer):
    from transformers import PreTrainedTokenizerFast

    (tmp_path / "rows.csv").write_text(GOOD)
    bare = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer.backend_tokenizer, eos_token="</s>")
    task = task_for(str(tmp_path / "rows.csv"), Said(label_words=("bad", "good")))
    assert len(encode(task, load_split(task, "federated"), bare, 32)) > 20
    advice = " ".join(check_task(task, bare, 32)["recommendations"])
    assert "no token that starts a text" in advice
    assert "no padding token" in advice


def test_the_limit_of_rows_holds_while_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_ROWS", 10)
    (tmp_path / "rows.csv").write_text(GOOD)
    with pytest.raises(InvalidInputError, match="more than 10 rows"):
        read_table(tmp_path / "rows.csv")


def test_texts_beyond_what_a_model_reads_are_to_be_shorter_and_not_cut_at_the_same_length(tmp_path, tiny_tokenizer):
    rows = [{"text": f"remark {n} " * 60, "label": "good" if n % 2 else "bad"} for n in range(40)]
    pd.DataFrame([*rows, {"text": "another", "label": "rare"}]).to_csv(tmp_path / "rows.csv", index=False)
    report = check_task(task_for(tmp_path / "rows.csv"), tiny_tokenizer, 64, max_positions=64)
    assert any("shorter texts, the model has no more positions" in line for line in report["recommendations"])
    assert any("rare has 1 row;" in line for line in report["recommendations"])


def test_whole_numbers_with_a_decimal_point_are_the_labels_without_it(tmp_path):
    rows = pd.DataFrame({"text": [f"remark {n} of a kind" for n in range(40)], "label": ["0.0", "1.0"] * 20})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.assign(label=["0", "1"] * 20).to_csv(tmp_path / "test.csv", index=False)
    task = task_for(tmp_path / "rows.csv", Said(test=str(tmp_path / "test.csv")))
    assert task.label_names == ("0", "1")
    assert load_split(task, "validation")["label"].tolist() == [0, 1] * 20
