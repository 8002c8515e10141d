from dataclasses import replace

import pandas as pd
import pytest
import torch

from tests.plugin_example.zorba_example import TICKETS, made_tickets
from zorba_core.data.encoding import encode, label_token_ids
from zorba_core.data.sources import MadeRows
from zorba_core.data.splits import load_split
from zorba_core.data.tasks import TASKS, get_task
from zorba_core.errors import InvalidInputError
from zorba_core.study.base_model.recipe import DONOR_WORDS
from zorba_core.study.base_model.tokenizer import PAD_ID, START_ID, build_tokenizer

WORDS = {word for name, donors in DONOR_WORDS.items() for word in (*TASKS[name].label_words, *donors)}


@pytest.fixture(scope="module")
def tokenizer():
    texts = ["the film was a quiet and lovely thing to see . it was", "topic: news of a game", "then: right?"] * 50
    return build_tokenizer(texts, WORDS, vocab_size=512, seq_len=64)


def rows(task, text="a lovely film", count=1):
    return pd.DataFrame({column: [text] * count for column in task.text_columns} | {"label": [0] * count})


def prompt_of(encoded, tokenizer, row=0):
    return tokenizer.decode(encoded.token_ids_RL[row, 1 : int(encoded.last_R[row]) + 1])


@pytest.mark.parametrize("name", DONOR_WORDS)
def test_the_last_position_is_the_prompts_last_word_and_padding_follows(name, tokenizer):
    task = get_task(name)
    encoded = encode(task, rows(task), tokenizer, seq_len=48)
    last = int(encoded.last_R[0])
    filled = task.prompt.format(**{column: "a lovely film" for column in task.text_columns}).lower()
    assert encoded.token_ids_RL.shape == (1, 48)
    assert encoded.token_ids_RL[0, 0] == START_ID
    assert prompt_of(encoded, tokenizer) == filled
    assert torch.all(encoded.token_ids_RL[0, last + 1 :] == PAD_ID)
    assert last < 47


@pytest.mark.parametrize("name", DONOR_WORDS)
def test_pieces_encode_as_the_whole_prompt_does(name, tokenizer):
    task = get_task(name)
    encoded = encode(task, rows(task), tokenizer, seq_len=48)
    whole = tokenizer.encode(task.prompt.format(**{column: "a lovely film" for column in task.text_columns}))
    assert encoded.token_ids_RL[0, : int(encoded.last_R[0]) + 1].tolist() == whole


def test_a_long_text_is_cut_at_its_end_and_the_prompt_is_kept_whole(tokenizer):
    task = get_task("sst2")
    encoded = encode(task, rows(task, "first " + "lovely " * 200), tokenizer, seq_len=20)
    assert int(encoded.last_R[0]) == 19
    shown = prompt_of(encoded, tokenizer)
    assert shown.startswith("first lovely")
    assert shown.endswith(" it was")


def test_of_two_texts_the_longer_one_is_cut(tokenizer):
    task = get_task("snli")
    frame = pd.DataFrame({"premise": ["lovely " * 100], "hypothesis": ["a quiet film"], "label": [1]})
    shown = prompt_of(encode(task, frame, tokenizer, seq_len=40), tokenizer)
    assert "then: a quiet film right?" in shown
    swapped = frame.rename(columns={"premise": "hypothesis", "hypothesis": "premise"})
    assert prompt_of(encode(task, swapped, tokenizer, seq_len=40), tokenizer).startswith("a quiet film then:")


def test_a_sequence_too_short_for_the_prompt_names_the_length_that_is_needed(tokenizer):
    task = get_task("sst2")
    with pytest.raises(InvalidInputError, match="seq_len 2 cannot hold") as error:
        encode(task, rows(task), tokenizer, seq_len=2)
    enough = int(str(error.value).split()[-1])
    assert len(encode(task, rows(task), tokenizer, seq_len=enough)) == 1


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"label": [0]}), "lack the column"),
        (pd.DataFrame({"text": ["a"], "label": [2]}), "labels must be 0..1, found 2..2"),
        (pd.DataFrame({"text": [], "label": []}), "no rows"),
    ],
)
def test_rows_of_another_shape_are_refused(frame, message, tokenizer):
    with pytest.raises(InvalidInputError, match=message):
        encode(get_task("sst2"), frame, tokenizer, 32)


@pytest.mark.parametrize("name", DONOR_WORDS)
def test_every_label_and_donor_word_is_one_token_of_the_base_tokenizer(name, tokenizer):
    task = get_task(name)
    for words in (task.label_words, DONOR_WORDS[name]):
        ids = label_token_ids(task, tokenizer, words)
        assert [tokenizer.decode([token]) for token in ids] == [" " + word.lower() for word in words]


def test_a_split_label_word_is_refused_with_its_pieces(tokenizer):
    with pytest.raises(InvalidInputError, match=r"splits the label word 'zyzzyva' into \['Ġ"):
        label_token_ids(get_task("sst2"), tokenizer, ("zyzzyva", "good"))


@pytest.mark.parametrize("words", [("good",), ("good", "good"), ("a", "b", "c")])
def test_label_words_must_be_one_per_class_and_differ(words, tokenizer):
    with pytest.raises(InvalidInputError, match="2 different label words"):
        label_token_ids(get_task("sst2"), tokenizer, words)


def test_both_spellings_of_ag_news_are_one_task_and_an_unknown_name_lists_the_known():
    assert get_task("ag_news") is get_task("AG-News")
    with pytest.raises(
        InvalidInputError, match="'mnli'; choose one of sst2, ag-news, snli, toy-reviews, toy-verdicts, rte, boolq"
    ):
        get_task("mnli")


def test_a_task_from_outside_is_one_object_and_one_registration(monkeypatch):
    monkeypatch.setattr(TASKS, "_parts", dict(TASKS))
    task = TASKS.register(replace(TICKETS, rows=MadeRows(made_tickets, "made by a function")))
    assert get_task("tickets") is task
    frame = load_split("tickets", "federated")
    assert frame.equals(made_tickets("federated"))
    assert frame.attrs == {"source": "made by a function", "note": ""}
    with pytest.raises(InvalidInputError, match="dataset tickets has no split 'base': choose one of federated, valid"):
        load_split("tickets", "base")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "My Task"}, "a name has lower-case letters"),
        ({"label_words": ("good", "good")}, "label words must all differ"),
        ({"label_words": ("good",)}, "differ in number"),
        ({"prompt": "{other} It was"}, "the prompt must use"),
        ({"prompt": "{text}"}, "must end in a word"),
        (dict.fromkeys(("label_names", "label_words"), tuple(map(str, range(10_000)))), "10,000 labels, and at most"),
    ],
)
def test_a_task_that_cannot_be_is_refused(change, says):
    with pytest.raises(InvalidInputError, match=says):
        replace(get_task("sst2"), **change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "regression"}, "kind 'regression' is none of labels, options, text"),
        ({"metric": "rouge_l"}, "metric 'rouge_l' is not for kind labels: use accuracy"),
        ({"answer": "text"}, "answer is not for kind labels"),
        ({"kind": "options"}, "label_words is not for kind options"),
        ({"kind": "options", "label_words": (), "options": ("a",)}, "two options or more"),
        ({"kind": "options", "label_words": (), "options": ("a", "a")}, "options must all differ"),
        ({"kind": "options", "label_words": (), "options": ("a", "b", "c")}, "label_names and options differ"),
        ({"kind": "text", "answer": "summary"}, "label_names is not for kind text"),
        ({"kind": "text", "label_names": (), "label_words": ()}, "kind text needs answer"),
    ],
)
def test_a_field_of_another_kind_of_task_is_refused(change, says):
    with pytest.raises(InvalidInputError, match=says):
        replace(get_task("sst2"), **change)


def test_each_kind_of_task_says_which_columns_its_rows_must_have():
    labels = get_task("snli")
    options = replace(labels, kind="options", label_names=(), label_words=(), options=("first", "a {second}"))
    text = replace(labels, kind="text", label_names=(), label_words=(), answer="{why}, {hypothesis}", metric="token_f1")
    assert labels.columns == ("premise", "hypothesis", "label")
    assert options.columns == ("premise", "hypothesis", "first", "second", "label")
    assert text.columns == ("premise", "hypothesis", "why")
    assert (labels.num_classes, options.num_classes, text.num_classes) == (3, 2, 0)
    assert (labels.metric, options.metric, text.metric) == ("accuracy", "accuracy", "token_f1")
    assert options.label_names == ("first", "a {second}")
