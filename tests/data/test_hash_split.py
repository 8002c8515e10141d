"""Where no row is left to test on, the line names the cause and a remedy that helps."""

from __future__ import annotations

import pandas as pd
import pytest

from zorba_core.data.inference import Said
from zorba_core.data.own_data import task_for
from zorba_core.data.splits import load_split
from zorba_core.errors import InvalidInputError

SAID = Said(text=("text",), label="label")


def says(rows: pd.DataFrame, said: Said = SAID) -> str:
    with pytest.raises(InvalidInputError) as error:
        load_split(task_for(rows, said), "validation")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_rows_of_one_text_are_told_that_more_of_them_do_not_help():
    rows = pd.DataFrame({"text": ["the same words"] * 40, "label": ["good", "bad"] * 20})
    line = says(rows)
    assert "of 40 rows none is left to test on: all have the same text in text" in line
    assert "name another column with --text" in line
    assert "more rows" not in line


def test_texts_that_repeat_are_counted_once():
    rows = pd.DataFrame({"text": ["one remark", "a second remark"] * 20, "label": ["good", "bad"] * 20})
    assert "each label keeps a text to train on; give more texts of each label, or rows to test on" in says(rows)
    rows = pd.DataFrame({"text": ["remark 1", "remark 2"] * 20, "label": ["good"] * 20 + ["bad"] * 20})
    assert "of 40 rows none is left to test on: they hold 2 texts, again and again" in says(rows)


def test_labels_that_occur_once_are_named_and_not_the_number_of_rows():
    texts, kinds = [f"remark {n} of a kind" for n in range(60)], [f"kind {n}" for n in range(60)]
    line = says(pd.DataFrame({"text": texts, "label": kinds}))
    assert "each label keeps a row to train on, and 60 of the 60 labels have one row alone" in line
    assert "give several rows of each label, or rows to test on with --test FILE" in line


def test_clients_with_one_row_each_are_named():
    texts, clients = [f"remark {n} of a kind" for n in range(60)], [f"client {n}" for n in range(60)]
    rows = pd.DataFrame({"text": texts, "label": ["a", "b"] * 30, "who": clients})
    assert "60 of the 60 clients have one row alone" in says(rows, Said(text=("text",), label="label", client="who"))


def test_few_rows_are_told_to_be_more():
    rows = pd.DataFrame({"text": ["remark 1", "remark 2"], "label": ["good", "bad"]})
    assert "of 2 rows none is left to test on; give more rows" in says(rows)
