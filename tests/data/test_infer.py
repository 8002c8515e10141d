"""What is inferred of rows: label, texts, prompt and words; and the words of an option."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pandas as pd
import pytest

from zorba_core.data.infer import joined, listed, task_for, task_name
from zorba_core.data.load import load
from zorba_core.data.prompts import words_for
from zorba_core.data.task import Overrides, get_task
from zorba_core.errors import InvalidInputError

REMARKS = [f"remark {n} of a kind" for n in range(60)]
KINDS = ["bad", "good"] * 30
NUMBERS = list(range(60))


def test_label_and_texts_are_told_from_names_and_values():
    for columns, label, text in [
        ({"text": REMARKS, "label": KINDS}, "label", ("text",)),
        ({"topic": KINDS, "subject": REMARKS, "body": REMARKS, "id": NUMBERS}, "topic", ("subject", "body")),
        ({"a": REMARKS, "b": KINDS, "n": [n % 3 for n in NUMBERS]}, "b", ("a",)),
        ({"text": REMARKS, "stars": [n % 5 for n in NUMBERS], "url": REMARKS}, "stars", ("text",)),
        ({"text": REMARKS, "branch": KINDS, "kind": KINDS}, "kind", ("text",)),
        ({"text": REMARKS[:2], "label": KINDS[:2]}, "label", ("text",)),
        (
            {"text": REMARKS, "label": [0, 1] * 30, "label_text": ["about a late box", "about a wrong bill"] * 30},
            "label",
            ("text",),
        ),
    ]:
        task = task_for(pd.DataFrame(columns))
        assert (task.rows.label, task.text_columns) == (label, text)


def test_a_quantity_is_no_label_unless_somebody_names_it(subtests):
    """Prices, ages and scores; but class numbers of many classes, grades and codes are labels."""
    for name, values, is_label in [
        ("target", [63_747 + 97 * n for n in range(120)], False),
        ("y", [n / 8 for n in range(120)], False),
        ("rating", [18 + n % 60 for n in range(600)], False),
        ("price", [18 + n % 60 for n in range(600)], False),
        ("target", [n % 60 for n in range(600)], True),
        ("target", [1 + n % 40 for n in range(100)], True),
        ("category", [100_000 + 7 * (n % 60) for n in range(600)], True),
        ("stars", [n % 11 / 2 for n in range(120)], True),
    ]:
        frame = pd.DataFrame({"text": [f"remark {n} of a kind" for n in range(len(values))], name: values})
        with subtests.test(name=name, first=values[:3]):
            if is_label:
                assert task_for(frame).rows.label == name
                continue
            says = rf"column {name} has \d+ different numbers in \d+ rows, .* quantity.* name it \(--label {name}\)"
            with pytest.raises(InvalidInputError, match=says):
                task_for(frame)
            assert task_for(frame, Overrides(label=name)).num_classes == len(set(values))


def test_an_answer_of_some_words_is_written():
    for columns, answer in [
        ({"question": REMARKS, "answer": REMARKS}, "answer"),
        ({"instruction": REMARKS, "input": [""] * 60, "output": REMARKS}, "output"),
        ({"source": REMARKS, "target": REMARKS}, "target"),
        ({"question": REMARKS, "answer": ["It opens at nine.", "It is closed on Monday."] * 30}, "answer"),
    ]:
        task = task_for(pd.DataFrame(columns))
        assert (task.kind, task.answer) == ("text", answer)


TURNS = [[("system", "be kind"), ("user", f"where is it {n} ?"), ("assistant", f"on its way {n}")] for n in range(60)]
MESSAGES = [[{"role": role, "content": text} for role, text in turns] for turns in TURNS]
NAMES = {"user": "human", "assistant": "gpt", "system": "system"}


def call_of_tool(turns: list) -> list:
    called = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "look"}}]}
    return [*turns[:2], called, {"role": "tool", "content": "found"}, turns[2]]


def with_picture(turns: list) -> list:
    parts = [{"type": "text", "text": turns[1]["content"]}, {"type": "image_url", "image_url": {"url": "a.png"}}]
    return [{"role": "user", "content": parts}, turns[2]]


def test_the_last_turn_of_a_conversation_is_the_question_and_what_follows_it_the_answer(tiny_tokenizer, logged):
    shared = [[{"from": NAMES[role], "value": text} for role, text in turns[1:]] for turns in TURNS]
    later = [[*turns, {"role": "user", "content": [{"type": "text", "text": "and now ?"}]}] for turns in MESSAGES]
    for columns, says in [
        ({"messages": MESSAGES}, "answer; other turns of 60 rows are not read"),
        ({"conversations": shared, "id": NUMBERS}, "conversations: the last user's turn is question, what follows"),
        ({"messages": [json.dumps(turns) for turns in MESSAGES]}, "other turns of 60 rows"),
        ({"prompt": [turns[:2] for turns in MESSAGES], "completion": [turns[2:] for turns in MESSAGES]}, "completion"),
        ({"prompt": REMARKS, "messages": MESSAGES}, "other turns of 60 rows"),
        ({"messages": later}, "other turns of 60 rows"),
        ({"messages": [call_of_tool(turns) for turns in MESSAGES]}, "other turns of 60 rows"),
        ({"messages": [with_picture(turns) for turns in MESSAGES]}, "pictures and other parts without text of 60 rows"),
    ]:
        frame = pd.DataFrame(columns)
        task = task_for(frame)
        assert any(line.startswith("  chat    ") and says in line for line in logged())
        assert (task.kind, task.prompt, task.answer) == ("text", "{question} Answer:", "answer")
        asked = dict(zip(load(task)["question"], load(task)["answer"], strict=True))
        assert all(answer == question.replace("where is it", "on its way")[:-2] for question, answer in asked.items())
    with_template = copy.deepcopy(tiny_tokenizer)
    with_template.chat_template = "{{ messages[0]['content'] }}"
    assert task_for(pd.DataFrame({"messages": MESSAGES}), tokenizer=lambda: with_template).chat
    asked_only = pd.DataFrame({"messages": [turns[:2] for turns in MESSAGES]})
    with pytest.raises(InvalidInputError, match=r"row 1: no answer in answer .*remove such rows, or fill them in"):
        load(task_for(asked_only))
    labelled = task_for(pd.DataFrame({"messages": MESSAGES, "label": KINDS}))
    assert (labelled.rows.label, labelled.text_columns) == ("label", ("question",))


def test_what_cannot_be_inferred_is_one_line_with_the_option_that_says_it():
    for columns, overrides, says in [
        ({"a": [f"x{n}" for n in NUMBERS], "b": [f"y{n}" for n in NUMBERS]}, {}, "name it (--label), or name"),
        ({"n": NUMBERS, "label": KINDS}, {}, "no column of text among n, label; name it with --text"),
        ({"text": [["a", "b"]] * 60, "label": KINDS}, {}, "lists or objects are in text: make a column of each part"),
        ({"a very long line of text": REMARKS}, {}, "it is the only column: write the names of the columns, such as"),
        ({"boxes": [[{"x": 1}]] * 60}, {}, "boxes hold lists or objects; give a column"),
        ({"boxes": [[1, 2]] * 60}, {"answer": "boxes"}, "boxes hold lists or objects"),
        ({"text": REMARKS, "label": KINDS}, {"label": "label", "answer": "text"}, "give --label or --answer, not both"),
        ({"text": REMARKS, "label": KINDS}, {"label_words": ("a", "b", "c")}, "3 label words are given and column"),
        ({"text": REMARKS, "label": KINDS}, {"prompt": "It was"}, "the prompt must have fields such as {text}"),
        ({"re{mark}": REMARKS, "label": KINDS}, {}, "rename it in a table in memory, to 're_mark' for example"),
    ]:
        with pytest.raises(InvalidInputError) as error:
            task_for(pd.DataFrame(columns), Overrides(**overrides))
        assert says in str(error.value)


def test_what_was_inferred_is_told_with_the_option_that_says_it_instead(logged):
    frame = pd.DataFrame({"text": REMARKS, "label": KINDS, "label_text": ["it is a bad one", "it is a good one"] * 30})
    task_for(frame)
    assert logged() == [
        "task table: 60 rows",
        "  text    text   [inferred; --text]",
        "  label   label: bad 30, good 30   [inferred; --label]",
        "  words   bad, good   [inferred; --label-words]",
        "  prompt  the best of 11 before training   [inferred; --prompt]",
        "  note    label_text repeats the label in other words and is left out of the prompt",
        "  test    20% of the rows, by a hash of their text   [inferred; --test]",
    ]
    task_for(frame, Overrides(text=("text", "label_text")))
    assert any(
        line.startswith("  warning label_text repeats the label in other words: the prompt") for line in logged()
    )


def test_a_task_file_is_changed_by_what_is_said(tmp_path):
    pd.DataFrame({"text": REMARKS, "label": KINDS, "stars": NUMBERS}).to_csv(tmp_path / "rows.csv", index=False)
    path = tmp_path / "task.toml"
    path.write_text('name = "t"\nprompt = "{text} It was"\n[rows]\ntrain = "rows.csv"\nlabel = "label"\n', "utf-8-sig")
    assert task_for(path).label_names == ("bad", "good")
    assert task_for(path, Overrides(prompt="{text} So", label_words=("B", "G"))).label_words == ("B", "G")
    assert task_for(path, Overrides(label="stars")).num_classes == 60
    written = task_for(path, Overrides(answer="stars"))
    assert (written.kind, set(load(written)["stars"]) <= set(map(str, NUMBERS))) == ("text", True)
    with pytest.raises(InvalidInputError, match="the task file has a prompt"):
        task_for(path, Overrides(text=("text",)))


def test_a_task_is_called_by_its_file():
    names = {"Support Tickets (2).csv": "support-tickets-2", "a/clients/*.csv": "clients", "x/(!).csv": "task"}
    assert {path: task_name(path) for path in names} == names


def test_words_with_commas_are_joined_and_read_again():
    words = ["Refund, delayed", "fine"]
    assert listed(joined(words)) == words


def test_other_label_words_of_a_built_in_task_drop_the_prior_of_its_own():
    task = replace(get_task("toy-reviews"), prior=(0.5, -0.5))
    assert task_for(task, Overrides(prompt="{text} So")).prior == (0.5, -0.5)
    assert task_for(task, Overrides(label_words=("awful", "fine"))).prior == ()


def test_label_words_differ_and_numbers_are_equally_long(tiny_tokenizer):
    assert words_for(["1", "10", "2"]) == ("01", "10", "02")
    assert words_for(["-1", "0", "1"]) == ("-1", "0", "1")
    assert words_for(["1", "1.5", "10"]) == ("01.0", "01.5", "10.0")
    assert words_for(["-0.5", "0.25"]) == ("-0.50", "0.25")
    assert words_for(["1,5", "2"]) == ("1,5", "2,0")
    assert words_for(["1", "01"]) == ("1", "01")  # one word would be no choice
    assert words_for(["①", "②"]) == ("①", "②")
    assert words_for(["GPT-4.5", "temp -5", "a.b"]) == ("GPT 4.5", "temp -5", "a b")
    assert words_for(["new", "new york", "bug_report"]) == ("new", "york", "bug report")
    assert words_for(["good", "bad"], tiny_tokenizer) == ("good", "bad")
    assert len(set(words_for(["FeatureRequest", "feature-request"]))) == 2


def test_words_that_are_written_as_a_list_are_read_again():
    assert listed('bad, "a, b", "say ""hi""", good') == ["bad", "a, b", 'say "hi"', "good"]
    with pytest.raises(InvalidInputError, match="cannot be read as one line"):
        listed("bad\rgood,better")
