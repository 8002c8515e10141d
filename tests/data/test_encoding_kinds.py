"""Rows of each kind of task as tokens: whole answers, prompts cut to fit, and one clear line where they cannot."""

from __future__ import annotations

import copy
from dataclasses import replace

import pandas as pd
import pytest

from zorba_core.data.encoding import (
    count_cuts,
    encode,
    encode_prompts,
    head_tokens,
    label_tokens,
    with_label_words,
)
from zorba_core.data.sources import MadeRows
from zorba_core.data.tasks import Task, get_task
from zorba_core.engine.choice_rows import ChoiceRows
from zorba_core.engine.rows import Encoded
from zorba_core.engine.text_rows import NO_TOKEN, TextRows
from zorba_core.errors import InvalidInputError

NOWHERE = MadeRows(lambda split: pd.DataFrame(), "nowhere")
QUESTIONS = Task(name="questions", kind="text", prompt="{text} So", answer="answer", rows=NOWHERE)
PAIRS = Task(name="pairs", kind="options", prompt="{text} So", options=("first", "it {second}"), rows=NOWHERE)
REVIEWS = get_task("toy-reviews")


def questions(*rows: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["text", "answer"])


def pairs(*rows: tuple[str, str, str, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["text", "first", "second", "label"])


def answer_of(rows: TextRows, row: int, tokenizer) -> str:
    return tokenizer.decode(rows.target_RT[row][rows.target_RT[row] != NO_TOKEN])


def test_a_text_row_is_the_prompt_and_all_of_the_answer_but_its_end(tiny_tokenizer):
    rows = encode(QUESTIONS, questions(("the room was warm .", "it was good"), ("the soup", "bad")), tiny_tokenizer, 48)
    assert answer_of(rows, 0, tiny_tokenizer) == " it was good</s>"
    prompt = tiny_tokenizer.encode("</s>the room was warm . So", add_special_tokens=False)
    last = int(rows.prompt_R[0])
    whole = rows.token_ids_RL[0, : int(rows.length_E[0])]
    assert tiny_tokenizer.decode(whole[: last + 1]) in tiny_tokenizer.decode(prompt)
    assert tiny_tokenizer.decode(whole[last + 1 :]) == " it was good"
    assert rows.weights.tolist() == rows.answer_R.tolist()
    assert count_cuts(QUESTIONS, questions(("the room", "good")), tiny_tokenizer, 48) == {
        "prompts_cut": 0,
        "answers_cut": 0,
    }


def test_a_long_prompt_gives_way_to_the_answer_and_a_cut_answer_is_counted(tiny_tokenizer):
    long_text, long_answer = "the room was warm " * 30, "the food was good " * 30
    frame = questions((long_text, "it was good"), ("the soup", long_answer), (long_text, long_answer))
    rows = encode(QUESTIONS, frame, tiny_tokenizer, 40)
    assert answer_of(rows, 0, tiny_tokenizer) == " it was good</s>"
    assert rows.length_E.tolist() == [40, 40, 40]
    assert rows.answer_R[1] > 28  # all that the short text leaves
    assert 17 <= rows.answer_R[2] <= 20  # half of the room
    assert not answer_of(rows, 1, tiny_tokenizer).endswith("</s>")
    assert count_cuts(QUESTIONS, frame, tiny_tokenizer, 40) == {"prompts_cut": 2, "answers_cut": 2}


def test_options_are_each_rows_own_and_those_that_begin_alike_are_ended(tiny_tokenizer):
    frame = pairs(("the room", "good", "was bad", 1), ("the soup", "it", "was bad", 0))
    rows = encode(PAIRS, frame, tiny_tokenizer, 48)
    assert isinstance(rows, ChoiceRows)
    assert rows.label_E.tolist() == [1, 0]
    ends = [int((rows.rows([row]).token_K4[:, 2] == tiny_tokenizer.eos_token_id).sum()) for row in (0, 1)]
    assert ends == [0, 2]


def test_label_words_of_several_tokens_make_choices_and_single_ones_stay_as_they_were(tiny_tokenizer):
    frame = pd.DataFrame({"text": ["the room was warm .", "the soup"], "label": [1, 0]})
    assert isinstance(encode(REVIEWS, frame, tiny_tokenizer, 48), Encoded)
    assert len(head_tokens(REVIEWS, tiny_tokenizer)) == 2
    long = with_label_words(REVIEWS, ("not good at all", "wonderfully good"))
    rows = encode(long, frame, tiny_tokenizer, 48)
    assert isinstance(rows, ChoiceRows)
    assert rows.answers_E.tolist() == [2, 2]
    assert rows.tokens_E.tolist() == [sum(map(len, label_tokens(long, tiny_tokenizer)))] * 2
    assert len(head_tokens(long, tiny_tokenizer)) == 0
    unlabelled = encode(long, frame[["text"]], tiny_tokenizer, 48, labelled=False)
    assert unlabelled.token_ids_RL.equal(rows.token_ids_RL)


def test_prompts_to_write_after_leave_room_for_what_is_written(tiny_tokenizer):
    frame = questions(("the room was warm " * 30, ""), ("the soup", ""))
    prompts = encode_prompts(QUESTIONS, frame[["text"]], tiny_tokenizer, 40, max_new_tokens=8)
    assert len(prompts[0]) == 32
    rows = encode(QUESTIONS, questions(("the soup", "good")), tiny_tokenizer, 40)
    assert prompts[1] == rows.token_ids_RL[0, : int(rows.prompt_R[0]) + 1].tolist()


def test_an_answer_at_the_start_of_a_line_has_no_space_before_it(tiny_tokenizer):
    lines = replace(QUESTIONS, prompt="{text}\n")
    rows = encode(lines, questions(("the soup", "good")), tiny_tokenizer, 40)
    assert answer_of(rows, 0, tiny_tokenizer) == "good</s>"


@pytest.mark.parametrize(
    ("task", "frame", "seq_len", "says"),
    [
        (QUESTIONS, questions(("the room", "good"), ("the soup", " ")), 40, "the answer of row 1 is empty"),
        (QUESTIONS, questions(("the room", "good")), 2, "cannot hold the prompt's own 3 tokens"),
        (PAIRS, pairs(("the room", "it good", "good", 0)), 40, "row 0 has options that cannot be told apart"),
        (PAIRS, pairs(("the room", "", "good", 0)), 40, "the option 'first' of row 0 is empty"),
        (PAIRS, pairs(("the room", "good " * 50, "bad", 0)), 40, r"the longest answer's 5\d \(row 0\).*use at least"),
        (PAIRS, pairs(("the room", "good", "bad", 2)), 40, "labels must be 0..1, found 2..2"),
        (
            with_label_words(REVIEWS, ("good", "good food")),
            pd.DataFrame({"text": ["the room"], "label": [0]}),
            40,
            "the label word 'good' begins .* 'good food', which could then never be chosen",
        ),
    ],
)
def test_rows_that_cannot_be_are_one_clear_line(tiny_tokenizer, task, frame, seq_len, says):
    with pytest.raises(InvalidInputError, match=says) as caught:
        encode(task, frame, tiny_tokenizer, seq_len)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_without_an_end_is_refused_for_text(tiny_tokenizer):
    endless = copy.deepcopy(tiny_tokenizer)
    endless.eos_token = None
    with pytest.raises(InvalidInputError, match="no token that ends a text"):
        encode(QUESTIONS, questions(("the room", "good")), endless, 40)


def test_an_empty_label_word_is_refused():
    with pytest.raises(InvalidInputError, match="a label word is empty"):
        with_label_words(REVIEWS, ("good", " "))


def test_other_kinds_have_no_label_words():
    with pytest.raises(InvalidInputError, match="questions is of kind text and has no label words"):
        with_label_words(QUESTIONS, ("good", "bad"))
