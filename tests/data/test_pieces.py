"""Tokenizers that put a space before whatever they are given, without BOS or padding: prompts, words, answers."""

from __future__ import annotations

import re

import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer, UnigramTrainer
from transformers import PreTrainedTokenizerFast

import zorba_core as zorba
from tests.runs.resumable import ALLOCATION, SETTINGS
from tests.tiny_models import VOCABULARY, tiny_model
from zorba_core.data.encoding import encode, label_tokens
from zorba_core.data.file_rows import FrameRows
from zorba_core.data.label_words import words_for
from zorba_core.data.pieces import piece_ids, puts_space_first
from zorba_core.data.prompts import Prompts

TEXTS = [
    "the food was good",
    "the parcel never came",
    "Topic: late box",
    "it was bad",
    "my card is lost ( twice )",
] * 30
SPECIAL = ["<unk>", "</s>"]


def unigram() -> PreTrainedTokenizerFast:
    """As SentencePiece's own: no BOS, no padding."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = UnigramTrainer(vocab_size=120, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    backend.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>")


def as_llama() -> PreTrainedTokenizerFast:
    """As Llama 2's: a normaliser puts the space first, also before one that is there."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.Fuse(), decoders.Strip(content=" ", left=1)]
    )
    trainer = BpeTrainer(vocab_size=160, special_tokens=SPECIAL, show_progress=False)
    backend.train_from_iterator([word for text in TEXTS for word in text.split()], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>")


@pytest.fixture(params=[unigram, as_llama])
def tokenizer(request):
    made = request.param()
    assert puts_space_first(made)
    assert (made.bos_token_id, made.pad_token_id) == (None, None)
    return made


def whole(tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("prompt", ["{text} Topic:", "Topic: {text} It was", "the ( {text} ) was"])
def test_a_prompts_pieces_are_the_tokens_of_the_whole_prompt(tokenizer, prompt):
    rows = FrameRows(pd.DataFrame({"text": ["good"], "label": ["good"]}), label="label")
    task = zorba.Task(name="t", prompt=prompt, label_names=("good", "bad"), rows=rows)
    frame = pd.DataFrame({"text": ["the parcel never came"]})
    tokens = Prompts(task, frame, tokenizer).tokens(0, 40)
    assert tokens == whole(tokenizer, prompt.replace("{text}", "the parcel never came"))
    for word, pieces in zip(task.label_words, label_tokens(task, tokenizer), strict=True):
        assert tokens + pieces == whole(tokenizer, prompt.replace("{text}", "the parcel never came") + " " + word)


def test_a_piece_inside_a_word_gets_no_space_and_the_first_one_keeps_its_own(tokenizer):
    ((within,), (first,)) = piece_ids(tokenizer, ["lost"]), piece_ids(tokenizer, ["lost"], first=True)
    assert tokenizer.decode(first) == "lost"
    assert first == whole(tokenizer, "lost")
    assert "\u2581" not in "".join(tokenizer.convert_ids_to_tokens(within))
    assert piece_ids(tokenizer, [" lost"]) == [first]
    assert piece_ids(tokenizer, []) == []


def test_byte_level_pieces_stay_as_they_were(tiny_tokenizer):
    texts = ["good", " good", "\nTopic:"]
    assert not puts_space_first(tiny_tokenizer)
    assert piece_ids(tiny_tokenizer, texts) == tiny_tokenizer(texts, add_special_tokens=False)["input_ids"]


def test_words_of_one_token_are_found_with_their_space(tokenizer):
    one = [token[1:] for token in tokenizer.get_vocab() if token.startswith("\u2581") and token[1:].isalpha()]
    word = max(one, key=len)
    assert words_for([word, "bad"], tokenizer)[0] == word


@pytest.fixture
def model(tokenizer, tmp_path):
    """A model that was saved with such a tokenizer."""
    assert len(tokenizer) <= VOCABULARY
    tiny_model("llama").save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
def test_such_a_model_trains_writes_and_is_exported_as_it_was_measured(model, tmp_path, monkeypatch, capsys):
    rows = pd.DataFrame(
        {"text": [f"{text} , {number}" for number, text in enumerate(TEXTS)], "topic": ["late box", "lost card"] * 75}
    )
    common = {"model": model, "settings": SETTINGS, "runs_folder": tmp_path / "runs", "force": True}
    run = zorba.fine_tune(ALLOCATION, data=rows, label="topic", **common)
    run.export(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (tmp_path / "out" / "README.md").read_text(), re.S)
    names: dict = {}
    exec("".join(blocks), names)
    answer = run.predict("The text to judge")
    label_of = dict(zip(run.config["label_words"], ("late box", "lost card"), strict=True))
    said = capsys.readouterr().out.strip().splitlines()[-1]  # a word, or where scores are compared a label
    assert label_of.get(said, said) == answer["prediction"][0]
    if "scores" in names:  # words of several tokens
        scores = torch.tensor(list(names["scores"].values()))
        assert float(torch.softmax(scores, 0).max()) == pytest.approx(answer["probability"][0], abs=1e-5)
    written = zorba.fine_tune(ALLOCATION, data=rows, text=["text"], answer="topic", **common)
    said = written.predict(["the food was good", "it was bad"])["prediction"]
    assert not any(text.startswith(" ") for text in said)


def test_rows_of_a_tokenizer_without_padding_end_where_their_text_does(tokenizer):
    rows = FrameRows(pd.DataFrame({"text": ["good"], "label": ["good"]}), label="label")
    task = zorba.Task(name="t", prompt="{text} Topic:", label_names=("good", "bad"), rows=rows)
    frame = pd.DataFrame({"text": ["good", "the parcel never came"], "label": [0, 1]})
    encoded = encode(task, frame, tokenizer, 40)
    assert int(encoded.length_E.min()) < int(encoded.length_E.max()) <= 40
