"""A tokenizer may have more tokens than its model has embeddings, as long as none of those occurs."""

from __future__ import annotations

import shutil

import pytest
from transformers import AutoTokenizer

from tests.runs.resumable import ALLOCATION, SETTINGS
from tests.runs.test_own_data import reviews
from zorba_core.data.task import Overrides
from zorba_core.errors import InvalidInputError
from zorba_core.runs import load
from zorba_core.runs.train import fine_tune

SHORT = SETTINGS.replace(rounds=1, eval_every=1)


@pytest.fixture
def with_tokens(tiny_opt_folder, tmp_path):
    def make(**special):
        folder = shutil.copytree(tiny_opt_folder, tmp_path / "model")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.add_special_tokens(special) if special else tokenizer.add_tokens(["zzzunused"])
        tokenizer.save_pretrained(folder)
        return folder

    return make


def test_a_token_without_an_embedding_is_refused_in_one_line_before_the_run_begins(with_tokens, tmp_path):
    folder = with_tokens(pad_token="<new>")
    with pytest.raises(InvalidInputError, match=r"model /.*/model: its tokenizer has (\d+) .* token \d+ \('<new>'\)"):
        fine_tune(ALLOCATION, model=folder, settings=SHORT, runs_folder=tmp_path / "runs", force=True)
    assert not (tmp_path / "runs").exists()


def test_tokens_that_do_not_occur_need_no_embedding(with_tokens, tmp_path, monkeypatch):
    folder = with_tokens()
    options = {"model": folder, "settings": SHORT, "runs_folder": tmp_path / "runs", "force": True}
    assert fine_tune(ALLOCATION, **options).finished
    monkeypatch.setattr(load, "MOST_ENCODED", 10)  # a large table, which is encoded when a batch is drawn
    assert fine_tune(ALLOCATION, data=reviews(), **options).finished
    with pytest.raises(InvalidInputError, match=r"token \d+ \('zzzunused'\) occurs and has none"):
        fine_tune(ALLOCATION, data=reviews().replace({"remark": "lovely"}, "zzzunused", regex=True), **options)


def test_a_label_word_without_a_row_in_the_head_is_refused(tiny_opt_folder, tmp_path):
    folder = shutil.copytree(tiny_opt_folder, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([" zzz", " yyy"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(InvalidInputError, match=r"token .* occurs and has none"):
        fine_tune(
            ALLOCATION, model=folder, overrides=Overrides(label_words=("zzz", "yyy")), settings=SHORT,
            runs_folder=tmp_path / "runs",
        )  # fmt: skip
