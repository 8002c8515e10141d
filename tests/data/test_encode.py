"""Rows as tokens: prompts cut to fit, whole answers, and pieces as they stand within a text."""

from __future__ import annotations

import copy
from dataclasses import replace

import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer, UnigramTrainer
from transformers import PreTrainedTokenizerFast

import zorba_core as zorba
from tests.runs.cards import run_card
from tests.runs.resumable import ALLOCATION, SETTINGS
from tests.tiny_models import VOCABULARY, tiny_model
from zorba_core.data.encode import (
    MOST_SUITED,
    count_cuts,
    encode,
    encode_counted,
    encode_prompts,
    label_tokens,
    suited_length,
)
from zorba_core.data.prompts import Prompts, piece_ids, puts_space_first, words_for
from zorba_core.data.task import MadeRows, Task, get_task
from zorba_core.engine.rows import NO_TOKEN, Rows
from zorba_core.errors import InvalidInputError
from zorba_core.runs.models import load_tokenizer

NOWHERE = MadeRows(lambda split: pd.DataFrame(), "nowhere")
QUESTIONS = Task(name="questions", kind="text", prompt="{text} So", answer="answer", rows=NOWHERE)
PAIRS = Task(name="pairs", kind="options", prompt="{text} So", options=("first", "it {second}"), rows=NOWHERE)
REVIEWS = get_task("toy-reviews")
# What opt-mini answers with before it is fine-tuned.
DONOR_WORDS = {
    "sst2": ("terrible", "great"),
    "ag-news": ("politics", "games", "money", "science"),
    "snli": ("true", "possible", "false"),
    "toy-reviews": ("terrible", "great"),
}
PAD_ID, START_ID = 1, 2  # of opt-mini's tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("opt-mini")


def rows(task, text="a lovely film"):
    return pd.DataFrame({column: [text] for column in task.text_columns} | {"label": [0]})


def questions(*pairs_of: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame(pairs_of, columns=["text", "answer"])


def pairs(*four: tuple[str, str, str, int]) -> pd.DataFrame:
    return pd.DataFrame(four, columns=["text", "first", "second", "label"])


def prompt_of(encoded, tokenizer):
    return tokenizer.decode(encoded.token_ids_RL[0, 1 : int(encoded.last_R[0]) + 1])


def answer_of(encoded: Rows, row: int, tokenizer) -> str:
    return tokenizer.decode(encoded.target_AT[row][encoded.target_AT[row] != NO_TOKEN])


def test_pieces_encode_as_the_whole_prompt_does_and_padding_follows_its_last_word(tokenizer):
    for name in DONOR_WORDS:
        task = get_task(name)
        encoded = encode(task, rows(task), tokenizer, seq_len=48)
        last, filled = int(encoded.last_R[0]), task.prompt.format(**dict.fromkeys(task.text_columns, "a lovely film"))
        assert encoded.token_ids_RL.shape == (1, 48)
        assert encoded.token_ids_RL[0, 0] == START_ID
        assert prompt_of(encoded, tokenizer) == filled.lower()
        assert encoded.token_ids_RL[0, : last + 1].tolist() == tokenizer.encode(filled)
        assert torch.all(encoded.token_ids_RL[0, last + 1 :] == PAD_ID)


def test_a_long_text_is_cut_at_its_end_and_the_prompt_is_kept_whole(tokenizer):
    encoded = encode(get_task("sst2"), rows(get_task("sst2"), "first " + "lovely " * 200), tokenizer, seq_len=20)
    assert int(encoded.last_R[0]) == 19
    assert prompt_of(encoded, tokenizer).startswith("first lovely")
    assert prompt_of(encoded, tokenizer).endswith(" it was")


def test_of_two_texts_the_longer_one_is_cut(tokenizer):
    task = get_task("snli")
    frame = pd.DataFrame({"premise": ["lovely " * 100], "hypothesis": ["a quiet film"], "label": [1]})
    assert "then: a quiet film right?" in prompt_of(encode(task, frame, tokenizer, seq_len=40), tokenizer)
    swapped = frame.rename(columns={"premise": "hypothesis", "hypothesis": "premise"})
    assert prompt_of(encode(task, swapped, tokenizer, seq_len=40), tokenizer).startswith("a quiet film then:")


def test_a_sequence_too_short_for_the_prompt_names_the_length_that_is_needed(tokenizer):
    task = get_task("sst2")
    with pytest.raises(InvalidInputError, match="seq_len 2 cannot hold") as error:
        encode(task, rows(task), tokenizer, seq_len=2)
    assert len(encode(task, rows(task), tokenizer, seq_len=int(str(error.value).split()[-1]))) == 1


def test_every_label_and_donor_word_is_one_token_of_opt_minis_tokenizer(tokenizer):
    for name in DONOR_WORDS:
        task = get_task(name)
        for words in (task.label_words, DONOR_WORDS[name]):
            ids = label_tokens(replace(task, label_words=tuple(words)), tokenizer)
            assert [tokenizer.decode(tokens) for tokens in ids if len(tokens) == 1] == [
                " " + word.lower() for word in words
            ]


def test_a_text_row_is_the_prompt_and_all_of_the_answer_but_its_end(tiny_tokenizer):
    frame = questions(("the room was warm .", "it was good"), ("the soup", "bad"))
    encoded = encode(QUESTIONS, frame, tiny_tokenizer, 48)
    assert answer_of(encoded, 0, tiny_tokenizer) == " it was good</s>"
    last, whole = int(encoded.last_R[0]), encoded.token_ids_RL[0, : int(encoded.length_E[0])]
    prompt = tiny_tokenizer.encode("</s>the room was warm . So", add_special_tokens=False)
    assert tiny_tokenizer.decode(whole[: last + 1]) in tiny_tokenizer.decode(prompt)
    assert tiny_tokenizer.decode(whole[last + 1 :]) == " it was good"
    assert encoded.written
    assert encoded.weights.tolist() == (encoded.target_AT != NO_TOKEN).sum(dim=1).tolist()
    assert count_cuts(QUESTIONS, frame, tiny_tokenizer, 48) == {"prompts_cut": 0, "answers_cut": 0}


def test_a_long_prompt_gives_way_to_the_answer_and_a_cut_answer_is_counted(tiny_tokenizer):
    long_text, long_answer = "the room was warm " * 30, "the food was good " * 30
    frame = questions((long_text, "it was good"), ("the soup", long_answer), (long_text, long_answer))
    encoded = encode(QUESTIONS, frame, tiny_tokenizer, 40)
    assert answer_of(encoded, 0, tiny_tokenizer) == " it was good</s>"
    assert encoded.length_E.tolist() == [40, 40, 40]
    assert encoded.weights[1] > 28  # all that the short text leaves
    assert 17 <= encoded.weights[2] <= 20  # half of the room
    assert not answer_of(encoded, 1, tiny_tokenizer).endswith("</s>")
    assert count_cuts(QUESTIONS, frame, tiny_tokenizer, 40) == {"prompts_cut": 2, "answers_cut": 2}


def test_options_are_each_rows_own_and_those_that_begin_alike_are_ended(tiny_tokenizer):
    frame = pairs(("the room", "good", "was bad", 1), ("the soup", "it", "was bad", 0))
    encoded = encode(PAIRS, frame, tiny_tokenizer, 48)
    assert encoded.answers_E.tolist() == [2, 2]
    assert encoded.label_E.tolist() == [1, 0]
    ends = [int((encoded.rows([row]).target_AT == tiny_tokenizer.eos_token_id).sum()) for row in (0, 1)]
    assert ends == [0, 2]


def test_label_words_of_several_tokens_make_choices_and_single_ones_stay_as_they_were(tiny_tokenizer):
    frame = pd.DataFrame({"text": ["the room was warm .", "the soup"], "label": [1, 0]})
    assert encode(REVIEWS, frame, tiny_tokenizer, 48).one_token
    long = replace(REVIEWS, label_words=("not good at all", "wonderfully good"))
    encoded = encode(long, frame, tiny_tokenizer, 48)
    assert not encoded.one_token
    assert encoded.answers_E.tolist() == [2, 2]
    assert (encoded.target_AT != NO_TOKEN).sum(dim=1).tolist() == 2 * [*map(len, label_tokens(long, tiny_tokenizer))]
    unlabelled, _ = encode_counted(long, frame[["text"]], tiny_tokenizer, 48, labelled=False)
    assert unlabelled.token_ids_RL.equal(encoded.token_ids_RL)


def test_rows_have_the_score_and_the_prior_of_their_task(tiny_tokenizer):
    frame = pd.DataFrame({"text": ["the room was warm .", "the soup"], "label": [1, 0]})
    task = replace(REVIEWS, label_words=("not good at all", "wonderfully good"), score="mean", prior=(0.5, -0.5))
    encoded = encode(task, frame, tiny_tokenizer, 48)
    assert encoded.divisor_A.tolist() == 2 * [*map(len, label_tokens(task, tiny_tokenizer))]
    assert encoded.prior_C.tolist() == [0.5, -0.5]
    assert encode(REVIEWS, frame, tiny_tokenizer, 48).prior_C.tolist() == []


def test_prompts_to_write_after_leave_room_for_what_is_written(tiny_tokenizer):
    frame = questions(("the room was warm " * 30, ""), ("the soup", ""))
    prompts, cut = encode_prompts(QUESTIONS, frame[["text"]], tiny_tokenizer, 40, max_new_tokens=8)
    assert (len(prompts[0]), cut) == (32, 1)
    encoded = encode(QUESTIONS, questions(("the soup", "good")), tiny_tokenizer, 40)
    assert prompts[1] == encoded.token_ids_RL[0, : int(encoded.last_R[0]) + 1].tolist()


def test_an_answer_at_the_start_of_a_line_has_no_space_before_it(tiny_tokenizer):
    encoded = encode(replace(QUESTIONS, prompt="{text}\n"), questions(("the soup", "good")), tiny_tokenizer, 40)
    assert answer_of(encoded, 0, tiny_tokenizer) == "good</s>"


def test_rows_that_cannot_be_are_one_clear_line(tiny_tokenizer):
    for task, frame, seq_len, says in [
        (QUESTIONS, questions(("the room", "good"), ("the soup", " ")), 40, "the answer of row 1 is empty"),
        (QUESTIONS, questions(("the room", "good")), 2, "cannot hold the prompt's own 3 tokens"),
        (
            PAIRS,
            pairs(("the room", "it good", "good", 0)),
            40,
            "row 0 has options that this tokenizer",
        ),
        (PAIRS, pairs(("the room", "", "good", 0)), 40, "the option 'first' of row 0 is empty"),
        (PAIRS, pairs(("the room", "good " * 50, "bad", 0)), 40, r"the longest answer's 5\d \(row 0\).*use at least"),
        (REVIEWS, pd.DataFrame({"label": [0]}), 40, r"the rows have no column text"),
        (REVIEWS, pd.DataFrame({"text": [], "label": []}), 40, "no rows"),
        (
            replace(REVIEWS, label_words=("good", "good food")),
            pd.DataFrame({"text": ["the room"], "label": [0]}),
            40,
            "the label word 'good food' begins with .* 'good' .* could never be chosen",
        ),
    ]:
        with pytest.raises(InvalidInputError, match=says) as caught:
            encode(task, frame, tiny_tokenizer, seq_len)
        assert "\n" not in str(caught.value)


def test_a_tokenizer_without_an_end_is_refused_for_text(tiny_tokenizer):
    endless = copy.deepcopy(tiny_tokenizer)
    endless.eos_token = None
    with pytest.raises(InvalidInputError, match="no token that ends a text"):
        encode(QUESTIONS, questions(("the room", "good")), endless, 40)


def test_instructions_are_a_users_turn_where_the_tokenizer_has_a_chat_template(tiny_tokenizer):
    task = get_task("alpaca")
    frame = pd.DataFrame([{"instruction": "name a film", "input": "", "output": "a quiet one"}])
    chatty = copy.deepcopy(tiny_tokenizer)
    chatty.chat_template = (
        "{% for m in messages %}<u>{{ m['content'] }}</u>{% endfor %}{% if add_generation_prompt %}<a>\n{% endif %}"
    )
    encoded = encode(task, frame, chatty, 128)
    text = chatty.decode(encoded.token_ids_RL[0, : int(encoded.to("cpu").token_ids_RL.shape[1])])
    assert text.startswith("<u>Instruction: name a film")
    assert "Response:</u><a>\na quiet one" in text
    assert "<u>" not in tiny_tokenizer.decode(encode(task, frame, tiny_tokenizer, 128).token_ids_RL[0])
    chatty.chat_template = "{{ raise_exception('no user') }}"
    with pytest.raises(InvalidInputError, match=r"chat template cannot be used \(no user\); set chat = false"):
        encode(task, frame, chatty, 128)


def test_the_length_that_suits_rows_holds_ninety_nine_of_a_hundred(tiny_tokenizer):
    frame = pd.DataFrame({"text": ["the room was good"] * 99 + ["the room was good " * 40], "label": 0})
    task = Task(name="t", prompt="{text} It was", label_names=("bad", "good"), rows=NOWHERE)
    length = suited_length(task, frame, tiny_tokenizer)
    assert length % 8 == 0
    assert count_cuts(task, frame, tiny_tokenizer, length)["prompts_cut"] == 1
    assert count_cuts(task, frame, tiny_tokenizer, length - 8)["prompts_cut"] == 100
    assert suited_length(task, frame.assign(text="the room was good " * 400), tiny_tokenizer) == MOST_SUITED


# Tokenizers that put a space before whatever they are given, without a token that starts a text or one for padding.
SPACED = ["the food was good", "the parcel never came", "Topic: late box", "it was bad", "my card is lost ( twice )"]
SPECIAL = ["<unk>", "</s>"]


def unigram() -> PreTrainedTokenizerFast:
    """As SentencePiece's own."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = UnigramTrainer(vocab_size=120, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    backend.train_from_iterator(SPACED * 30, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>")


def as_llama() -> PreTrainedTokenizerFast:
    """As Llama 2's: a normaliser puts the space first, also before one that is there."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.Fuse(), decoders.Strip(content=" ", left=1)]
    )
    trainer = BpeTrainer(vocab_size=160, special_tokens=SPECIAL, show_progress=False)
    backend.train_from_iterator([word for text in SPACED * 30 for word in text.split()], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>")


@pytest.fixture(params=[unigram, as_llama])
def spaced(request):
    made = request.param()
    assert puts_space_first(made)
    assert (made.bos_token_id, made.pad_token_id) == (None, None)
    return made


def test_a_prompts_pieces_are_the_tokens_of_the_whole_prompt(spaced):
    for prompt in ["{text} Topic:", "Topic: {text} It was", "the ( {text} ) was"]:
        task = Task(name="t", prompt=prompt, label_names=("good", "bad"), rows=NOWHERE)
        frame = pd.DataFrame({"text": ["the parcel never came"]})
        filled = prompt.replace("{text}", "the parcel never came")
        tokens = Prompts(task, frame, spaced).tokens(0, 40)
        assert tokens == spaced.encode(filled, add_special_tokens=False)
        for word, pieces in zip(task.label_words, label_tokens(task, spaced), strict=True):
            assert tokens + pieces == spaced.encode(f"{filled} {word}", add_special_tokens=False)


def test_a_piece_inside_a_word_gets_no_space_and_the_first_one_keeps_its_own(spaced):
    ((within,), (first,)) = piece_ids(spaced, ["lost"]), piece_ids(spaced, ["lost"], first=True)
    assert spaced.decode(first) == "lost"
    assert "\u2581" not in "".join(spaced.convert_ids_to_tokens(within))
    assert piece_ids(spaced, [" lost"]) == [first]
    assert piece_ids(spaced, []) == []


def test_byte_level_pieces_stay_as_they_were(tiny_tokenizer):
    texts = ["good", " good", "\nTopic:"]
    assert not puts_space_first(tiny_tokenizer)
    assert piece_ids(tiny_tokenizer, texts) == tiny_tokenizer(texts, add_special_tokens=False)["input_ids"]


def test_words_of_one_token_are_found_with_their_space(spaced):
    one = [token[1:] for token in spaced.get_vocab() if token.startswith("\u2581") and token[1:].isalpha()]
    word = max(one, key=len)
    assert words_for([word, "bad"], spaced)[0] == word


@pytest.mark.slow
def test_such_a_model_trains_writes_and_is_exported_as_it_was_measured(spaced, tmp_path):
    assert len(spaced) <= VOCABULARY
    tiny_model("llama").save_pretrained(tmp_path / "model")
    spaced.save_pretrained(tmp_path / "model")
    texts = [f"{text} , {number}" for number, text in enumerate(SPACED * 30)]
    frame = pd.DataFrame({"text": texts, "topic": ["late box", "lost card"] * 75})
    common = {"model": tmp_path / "model", "settings": SETTINGS, "runs_folder": tmp_path / "runs", "force": True}
    run = zorba.fine_tune(ALLOCATION, data=frame, overrides=zorba.Overrides(label="topic"), **common)
    card = run_card(run.export(tmp_path / "out"))
    answer = run.predict("The text to classify")
    label_of = dict(zip(run.config["label_words"], ("late box", "lost card"), strict=True))
    printed = card.printed.splitlines()[-1]  # a word, or where scores are compared a label
    assert label_of.get(printed, printed) == answer["prediction"][0]
    if "scores" in card.names:  # words of several tokens
        scores = torch.tensor(list(card.names["scores"].values()))
        assert float(torch.softmax(scores, 0).max()) == pytest.approx(answer["probability"][0], abs=1e-5)
    written = zorba.fine_tune(ALLOCATION, data=frame, overrides=zorba.Overrides(text="text", answer="topic"), **common)
    answers = written.predict(["the food was good", "it was bad"])["prediction"]
    assert not any(text.startswith(" ") for text in answers)
