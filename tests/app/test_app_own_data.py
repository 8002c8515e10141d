"""Rows of one's own on the Train page: from the file to the command, without starting a training."""

from __future__ import annotations

import csv
import random
import stat

import pytest

from app.screens.train.own_data import UPLOADS, keep_upload
from zorba_core.data.own_task import listed

WORDS = {"Refund": "money back", "Parcel": "where is my box", "Login": "the password fails"}


@pytest.fixture
def tickets(tmp_path):
    rng, path = random.Random(1), tmp_path / "tickets.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "message", "topic", "branch"])
        for number in range(240):
            topic = rng.choice(list(WORDS))
            rows.writerow([number, f"{WORDS[topic]}, please, order {number}", topic, rng.choice("ab")])
    return path


@pytest.fixture
def app(app):
    app.query_params["clients"] = "8"
    return app


def asked(app, path, **address):
    for key, value in {"train_dataset": "own", "train_data": str(path), **address}.items():
        app.query_params[key] = value
    app.switch_page("screens/train/train.py").run()
    assert not app.exception
    return app


def shown(app) -> str:
    return "\n".join(part.value for part in [*app.markdown, *app.caption, *app.error, *app.warning])


def test_a_file_becomes_a_task_with_its_prompt_words_example_and_clients(app, tickets):
    asked(app, tickets)
    assert app.selectbox(key="train_label").value == "topic"
    assert app.multiselect(key="train_columns").value == ["message"]
    assert app.text_area(key="train_prompt").value == "{message} Topic:"
    read = app.code[0].value
    assert read.startswith(("money back", "where is", "the password"))
    assert " Topic: " in read
    assert "240 rows, 3 labels" in shown(app)
    assert "Who holds which labels" in shown(app)
    command = app.code[1].value
    assert "--data " in command
    assert "--label topic --prompt '{message} Topic:'" in command
    assert "--dataset" not in command


def test_the_prompt_follows_the_columns_until_it_is_edited(app, tickets):
    asked(app, tickets)
    app.multiselect(key="train_columns").set_value(["message", "branch"]).run()
    prompt = next(area for area in app.text_area if area.label == "What the model reads")
    assert prompt.value == "Message: {message} Branch: {branch} Topic:"
    prompt.set_value("{branch} says {message} This is about").run()
    assert app.code[0].value.split(" says ")[0] in ("a", "b")
    assert app.query_params["train_prompt"] == "{branch} says {message} This is about"
    assert "--prompt '{branch} says {message} This is about'" in app.code[1].value


def test_a_column_of_clients_must_name_as_many_as_the_plan_has(app, tickets):
    asked(app, tickets, train_client="branch")
    assert "The rows are those of 2 clients; the plan is for 8" in shown(app)
    assert not [button for button in app.button if button.label == "Start"]


def test_an_answer_column_makes_it_a_text_to_write(app, tickets):
    asked(app, tickets, train_kind="text", train_label="topic")
    assert "--answer topic" in app.code[1].value
    assert "--label" not in app.code[1].value
    assert "Who holds which labels" not in shown(app)


def test_labels_that_hold_a_comma_are_words_in_quotes(app, tmp_path):
    path = tmp_path / "rows.csv"
    labels = ("xyzzy, plugh", "xyzzy, quux")
    rows = "".join(f'text number {number},"{labels[number % 2]}"\n' for number in range(40))
    path.write_text("text,label\n" + rows, encoding="utf-8")
    asked(app, path)
    assert "40 rows, 2 labels" in shown(app)
    words = next(field for field in app.text_input if field.label.startswith("Words to answer with"))
    assert listed(words.value) == ["xyzzy, plugh", "xyzzy, quux"]
    words.set_value('late, "lost, gone"').run()
    assert """--label-words 'late,"lost, gone"'""" in app.code[1].value


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "is no file on this machine"),
        ("text,label\nonly one,yes\nanother one,yes\n", "label"),
        ("", "empty"),
        ('{"a": 1}\n{"a": ', "line 2"),
    ],
    ids=["missing", "one-label", "empty", "ragged"],
)
def test_rows_that_cannot_be_used_get_one_sentence(app, tmp_path, content, says):
    path = tmp_path / ("rows.jsonl" if content and content.startswith("{") else "rows.csv")
    if content is not None:
        path.write_text(content, encoding="utf-8")
    asked(app, path)
    assert "These rows cannot be used yet" in shown(app)
    assert says in shown(app)
    assert not [button for button in app.button if button.label == "Start"]


@pytest.mark.parametrize(
    ("late", "says"),
    [
        (20, "40 rows, 2 labels: each on 20. Guessing one label is right in 50%."),
        (10, "40 rows, 2 labels: most rows have lost (30), fewest late (10). Guessing the commonest is right in 75%."),
    ],
)
def test_how_often_labels_occur_is_said(app, tmp_path, late, says):
    rows = [f"the parcel number {n},{'late' if n < late else 'lost'}" for n in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]))
    assert says in shown(asked(app, tmp_path / "rows.csv")).replace("\\", "")


def test_another_file_begins_with_its_own_columns(app, tickets, tmp_path):
    asked(app, tickets)
    app.multiselect(key="train_columns").set_value(["message", "branch"]).run()
    other = tmp_path / "reviews.csv"
    other.write_text("opinion;stars\n" + "fine and quick;good\nbroken at once;bad\n" * 60)
    path = next(field for field in app.text_input if field.value == str(tickets))
    path.set_value(str(other)).run()
    assert not app.exception
    assert app.multiselect[0].value == ["opinion"]


def test_an_uploaded_file_of_rows_is_kept_for_its_owner_alone(tmp_path):
    runs = tmp_path / "runs"
    (runs / UPLOADS).mkdir(parents=True, mode=0o755)  # made by an earlier version
    kept = keep_upload(runs, "My tickets (2).csv", b"text,label\na,b\n")
    assert kept.read_bytes() == b"text,label\na,b\n"
    assert kept.name == "My-tickets-2.csv"
    assert stat.S_IMODE((runs / UPLOADS).stat().st_mode) == 0o700
    assert keep_upload(runs, "My tickets (2).csv", kept.read_bytes()) == kept
