"""Arrays kept between runs: the same as made anew, bounded, and never in the way."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from zorba_core.data import cache, prompts
from zorba_core.data.cache import fingerprint, kept
from zorba_core.data.encoding import encode
from zorba_core.data.splits import load_split
from zorba_core.data.tasks import get_task


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def counted():
    calls = []

    def make():
        calls.append(1)
        return {"x": np.arange(5)}

    return calls, make


def test_what_was_made_is_read_back_and_not_made_again(folder):
    calls, make = counted()
    first, second = (kept("numbers", fingerprint(["a"]), make)["x"] for _ in range(2))
    assert (first == second).all()
    assert len(calls) == 1
    assert folder.stat().st_mode & 0o077 == 0
    kept("numbers", fingerprint(["b"]), make)
    assert len(calls) == 2


def test_texts_that_join_alike_are_told_apart():
    assert fingerprint(["ab", "c"]) != fingerprint(["a", "bc"])
    assert fingerprint(["a", ""]) != fingerprint(["a"])


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 half of one"])
def test_a_damaged_file_is_made_anew(folder, content):
    calls, make = counted()
    key = fingerprint(["a"])
    kept("numbers", key, make)
    (folder / f"numbers-{key}.npz").write_bytes(content)
    assert kept("numbers", key, make)["x"].tolist() == [0, 1, 2, 3, 4]
    assert len(calls) == 2
    kept("numbers", key, make)
    assert len(calls) == 2


def test_a_pickle_is_not_opened(folder):
    calls, make = counted()
    key = fingerprint(["a"])
    kept("numbers", key, make)
    np.savez(folder / f"numbers-{key}.npz", x=np.array([{"a": 1}], dtype=object))
    assert kept("numbers", key, make)["x"].tolist() == [0, 1, 2, 3, 4]
    assert len(calls) == 2


def test_the_oldest_go_when_there_are_too_many(folder, monkeypatch):
    monkeypatch.setattr(cache, "MOST_BYTES", 1_000)
    for text in "abcdef":
        kept("numbers", fingerprint([text]), lambda: {"x": np.arange(40)})
    sizes = [path.stat().st_size for path in folder.glob("*.npz")]
    assert 0 < sum(sizes) <= 1_000


def test_nothing_is_kept_where_nothing_can_be(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    calls, make = counted()
    for value in ("off", str(tmp_path / "file" / "below")):
        monkeypatch.setenv("ZORBA_CACHE", value)
        assert kept("numbers", "key", make)["x"].tolist() == [0, 1, 2, 3, 4]
    assert len(calls) == 2


def test_rows_of_kept_tokens_are_the_rows_of_tokens_made_anew(folder, tiny_tokenizer, monkeypatch):
    monkeypatch.setattr(prompts, "_WORTH_KEEPING", 1)
    task, frame = get_task("toy-reviews"), load_split("toy-reviews", "federated").head(50)
    first, read = (encode(task, frame, tiny_tokenizer, 32) for _ in range(2))
    assert len(list(folder.glob("tokens-*.npz"))) == 1
    monkeypatch.setenv("ZORBA_CACHE", "off")
    plain = encode(task, frame, tiny_tokenizer, 32)
    for rows in (first, read):
        assert torch.equal(rows.token_ids_RL, plain.token_ids_RL)
        assert rows.sha256() == plain.sha256()
    monkeypatch.setenv("ZORBA_CACHE", str(folder))
    other = pd.concat([frame.iloc[:-1], frame.iloc[:1]])
    assert encode(task, other, tiny_tokenizer, 32).sha256() != plain.sha256()
