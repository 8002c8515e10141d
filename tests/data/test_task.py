"""Tasks as plain data: what is refused, what follows from what, and the same task from its file."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from tests.plugin_example.zorba_example import TICKETS, made_tickets
from zorba_core.data.infer import task_for
from zorba_core.data.load import load
from zorba_core.data.task import (
    TASKS,
    MadeRows,
    PublishedRows,
    TableRows,
    get_task,
    read_task,
    table_of,
    task_from,
)
from zorba_core.errors import InvalidInputError, MissingDataError

NO_LABELS = {"label_names": (), "label_words": ()}


def test_a_task_that_cannot_be_is_refused():
    for change, says in [
        ({"name": "My Task"}, "a name has lower-case letters"),
        ({"label_words": ("good", "good")}, "2 labels need 2 different label words"),
        ({"label_words": ("good",)}, "2 labels need 2 different label words"),
        ({"label_words": ("good", " ")}, "2 different label words, none of them empty"),
        ({"prompt": "{text} and {text} It was"}, "names of columns, each once"),
        ({"prompt": "{text}"}, "must end in a word"),
        ({"label_names": ("a",) * 10_000, "label_words": tuple(map(str, range(10_000)))}, "it has 10,000 labels"),
        ({"kind": "regression"}, "kind 'regression' is none of labels, options, text"),
        ({"chat": True}, "chat is not for kind labels"),
        ({"score": "best"}, "score 'best' is none of sum, mean"),
        ({"prior": (0.5,)}, "prior has 1 numbers and there are 2 labels"),
        ({"answer": "text"}, "answer is not for kind labels"),
        ({"kind": "options"}, "label_words is not for kind options"),
        ({"kind": "options", "label_words": (), "options": ("a",)}, "two different options or more"),
        ({"kind": "options", "label_words": (), "options": ("a", "a")}, "two different options or more"),
        ({"kind": "options", "label_words": (), "options": ("a", "b", "c")}, "label_names and options differ"),
        ({"kind": "text", "answer": "summary"}, "label_names is not for kind text"),
        ({"kind": "text", **NO_LABELS}, "kind text needs answer"),
        ({"rows": TableRows("rows.csv", label="text")}, "the prompt contains text, the column of the label"),
    ]:
        with pytest.raises(InvalidInputError, match=says):
            replace(get_task("sst2"), **change)


def test_each_kind_of_task_says_which_columns_its_rows_must_have():
    labels = get_task("snli")
    options = replace(labels, kind="options", **NO_LABELS, options=("first", "a {second}"))
    text = replace(labels, kind="text", **NO_LABELS, answer="{why}, {hypothesis}")
    assert labels.columns == ("premise", "hypothesis", "label")
    assert options.columns == ("premise", "hypothesis", "first", "second", "label")
    assert text.columns == ("premise", "hypothesis", "why")
    assert (labels.num_classes, options.num_classes, text.num_classes) == (3, 2, 0)
    assert (labels.counted, options.counted, text.counted) == ("accuracy", "accuracy", "exact match")
    assert options.label_names == ("first", "a {second}")


def test_a_task_is_read_again_as_a_run_keeps_it():
    for task in [
        get_task("boolq"),
        get_task("squad"),
        replace(TICKETS, rows=TableRows('/somewhere/a "b".csv', label="é", label_values=(1, False, 0.5))),
    ]:
        assert table_of(task_from(table_of(task))) == table_of(task)


def test_a_task_file_lies_beside_its_rows_and_may_begin_with_a_mark(tmp_path):
    pd.DataFrame({"text": ["a b c", "d e f"] * 20, "label": ["x", "y"] * 20}).to_csv(tmp_path / "rows.csv")
    lines = 'name = "t"\nprompt = "{text} It was"\n[rows]\ntrain = "rows.csv"\ntest = "rows.csv"\nlabel = "label"\n'
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / "task.toml").write_text(lines, encoding=encoding)
        task = task_for(tmp_path / "task.toml")
        assert task.label_names == ("x", "y")
        assert len(load(task)) == 40


def test_a_task_file_that_cannot_be_is_named_with_its_key(tmp_path):
    for change, says in [
        ({"name": '"My Task"'}, "a name has lower-case"),
        ({"name": "3"}, "name is 3: input should be a valid string"),
        ({"colour": "3"}, "unknown key 'colour'; it has name, title"),
        ({"label_words": '"good"'}, "label_words is 'good': input should be a valid tuple"),
        ({"rows": '{ train = "a.csv", colour = 3 }'}, r"\[rows\] has an unknown key 'colour'; it has train"),
        ({"rows": '{ made_by = "os:getcwd" }'}, r"\[rows\] has an unknown key 'made_by'"),
        ({"rows": '{ train = "a.csv", test_fraction = 2 }'}, r"\[rows\] test_fraction is 2: input should be less"),
        ({"rows": '{ hub = "a/b" }'}, "give evaluation_splits, or held_out"),
        ({"rows": "3"}, r"the table \[rows\] is missing"),
        ({"prompt": ""}, "not TOML"),
        ({"prompt": None}, "the key prompt is missing"),
    ]:
        keys = {"name": '"t"', "prompt": '"{text} It was"', "rows": '{ train = "rows.csv" }', **change}
        text = "\n".join(f"{name} = {value}" for name, value in keys.items() if value is not None)
        (tmp_path / "task.toml").write_text(text)
        with pytest.raises(InvalidInputError, match=rf"task\.toml: .*{says}"):
            read_task(tmp_path / "task.toml")
        with pytest.raises(MissingDataError, match="does not exist"):
            read_task(tmp_path / "none.toml")


def test_both_spellings_of_ag_news_are_one_task_and_an_unknown_name_lists_the_known():
    assert get_task("ag_news") is get_task("AG-News")
    with pytest.raises(InvalidInputError, match="'mnli'; choose one of sst2, ag-news, snli, toy-reviews, toy-verdicts"):
        get_task("mnli")


def test_a_task_from_outside_is_one_object_and_one_registration(monkeypatch):
    monkeypatch.setattr(TASKS, "_parts", dict(TASKS))
    task = TASKS.register(replace(TICKETS, rows=MadeRows(made_tickets, "made by a function")))
    assert get_task("tickets") is task
    frame = load("tickets")
    assert frame.equals(made_tickets("federated"))
    assert frame.attrs == {"source": "made by a function", "note": ""}
    with pytest.raises(InvalidInputError, match="dataset tickets has no split 'base': choose one of federated, valid"):
        load("tickets", "base")


def test_a_run_keeps_a_task_that_no_name_says():
    assert not get_task("boolq").is_own
    assert not TICKETS.is_own
    assert replace(get_task("boolq"), name="mine").is_own
    assert replace(TICKETS, rows=TableRows("rows.csv")).is_own
    assert isinstance(get_task("boolq").rows, PublishedRows)
