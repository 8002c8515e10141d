"""What makes a result look better than it is, is said in a line; only a prompt that is the label alone is refused."""

from __future__ import annotations

import pandas as pd
import pytest

from zorba_core.data.check import check_task
from zorba_core.data.file_rows import FileRows, FrameRows
from zorba_core.data.inference import Said
from zorba_core.data.own_data import task_for
from zorba_core.data.splits import load_split
from zorba_core.data.tasks import Task
from zorba_core.errors import InvalidInputError


def rows(first: int = 0, count: int = 40) -> pd.DataFrame:
    numbers = range(first, first + count)
    return pd.DataFrame({"text": [f"remark {n} of a kind" for n in numbers], "label": ["good", "bad"] * (count // 2)})


def warnings(data, **said) -> list[str]:
    lines: list[str] = []
    task_for(data, Said(**said), notice=lines.append)
    return [line for line in lines if line.startswith("warning: ")]


@pytest.fixture
def csv(tmp_path):
    rows().to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def test_rows_as_they_should_be_need_no_warning(csv, tmp_path):
    rows(100).to_csv(tmp_path / "test.csv", index=False)
    assert warnings(csv) == []
    assert warnings(csv, test=str(tmp_path / "test.csv")) == []


@pytest.mark.parametrize("said", [{"prompt": "{text} of label {label} is"}, {"text": ("label",), "label": "label"}])
def test_a_label_in_the_prompt_is_refused(csv, said):
    with pytest.raises(InvalidInputError, match="the prompt contains label, the column of the label"):
        task_for(csv, Said(**said))


def test_a_text_in_a_column_called_label_is_refused_where_another_column_is_the_label(tmp_path):
    rows().rename(columns={"label": "topic", "text": "label"}).to_csv(tmp_path / "rows.csv", index=False)
    task = task_for(tmp_path / "rows.csv", Said(text=("label",), label="topic"))
    with pytest.raises(
        InvalidInputError, match=r"a column of text is called label, .* rename that column in rows\.csv"
    ):
        load_split(task, "federated")


def test_an_answer_in_the_prompt_of_a_text_to_write_is_said_before_training_and_by_the_check(csv, tiny_tokenizer):
    csv.write_text(csv.read_text().replace("label", "output"))
    said = {"prompt": "{text} {output} Write:", "answer": "output"}
    told = warnings(csv, **said)
    assert told == [
        "warning: the prompt contains output, the column of the answer: the model is told what it is asked for"
    ]
    report = check_task(task_for(csv, Said(**said)), tiny_tokenizer, 64)
    assert told[0].removeprefix("warning: ") in report["recommendations"]


def test_a_test_on_the_rows_that_are_trained_on_is_said(csv, tmp_path):
    (tmp_path / "link.csv").symlink_to(csv)
    for test in (csv, tmp_path / "link.csv"):
        assert warnings(csv, test=str(test)) == [
            "warning: the test rows are the file that is trained on: the result says nothing of other rows"
        ]
    rows(10).to_csv(tmp_path / "test.csv", index=False)
    said = ["warning: 30 of 40 test rows are trained on too: the result says less of other rows"]
    assert warnings(csv, test=str(tmp_path / "test.csv")) == said
    task = Task(name="rows", prompt="{text} It is", rows=FrameRows(rows(), rows(10), label="label"))
    assert warnings(task) == said
    task = Task(name="rows", prompt="{text} It is", rows=FileRows(csv, test=csv, label="label"))
    assert len(warnings(task)) == 1
