"""Models that stand for larger ones: as many blocks, made of opt-mini's, that know what it knew."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from zorba_core.errors import InvalidInputError
from zorba_core.planning.models import model_spec
from zorba_core.runs.model_source import load_model, load_tokenizer, resolve_model
from zorba_core.runs.rehearsal import origins, rehearsal_blocks, rehearsal_name


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_CACHE", str(tmp_path / "cache"))


def test_a_model_of_24_blocks_predicts_nearly_what_opt_mini_does():
    assert model_spec(resolve_model("opt-mini-24")).num_blocks == 24
    tokens = load_tokenizer("opt-mini-24")("a kind waiter and a warm room. It was", return_tensors="pt").input_ids
    with torch.no_grad():
        logits = {name: load_model(name)(tokens).logits[0, -1] for name in ("opt-mini", "opt-mini-24", "opt-mini-6")}
    spoken = {name: torch.log_softmax(value, -1) for name, value in logits.items()}

    def apart(name):
        return float((spoken["opt-mini"].exp() * (spoken["opt-mini"] - spoken[name])).sum())

    assert apart("opt-mini-24") < 0.25  # nats; a model that knew nothing would be several apart
    assert apart("opt-mini-6") < 0.25


def test_it_is_made_once_and_to_the_same_bytes(tmp_path):
    first = resolve_model("opt-mini-32")
    content = Path(first, "model.safetensors").read_bytes()
    assert resolve_model("opt-mini-32") == first
    shutil.rmtree(tmp_path / "cache")
    assert Path(resolve_model("opt-mini-32"), "model.safetensors").read_bytes() == content


def test_blocks_are_repeated_evenly_and_in_order():
    assert origins(24, 12) == sorted([*range(12), *range(12)])
    assert origins(6, 12) == [0, 2, 4, 6, 8, 10]
    assert len(set(np.bincount(origins(32, 12)))) == 2


def test_names_that_are_none_or_too_large_are_told():
    assert rehearsal_name(12) == "opt-mini"
    assert rehearsal_blocks(rehearsal_name(48)) == 48
    assert rehearsal_blocks("opt-mini-") is rehearsal_blocks("facebook/opt-mini-24") is None
    with pytest.raises(InvalidInputError, match="up to 128"):
        resolve_model("opt-mini-500")


def test_a_damaged_one_is_made_again():
    folder = Path(resolve_model("opt-mini-6"))
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    middle = len(content) // 2
    weights.write_bytes(content[:middle] + bytes(512) + content[middle + 512 :])
    assert Path(resolve_model("opt-mini-6")) == folder
    assert weights.read_bytes() == content
    (folder / "SHA256SUMS").unlink()  # as earlier versions made them
    weights.write_bytes(content[:middle] + bytes(512) + content[middle + 512 :])
    resolve_model("opt-mini-6")
    assert weights.read_bytes() == content


@pytest.mark.parametrize("change", ["config", "weights", "cut weights", "cut config", "a field"])
def test_none_is_made_of_a_damaged_base(tmp_path, monkeypatch, change):
    base = Path(shutil.copytree(resolve_model("opt-mini"), tmp_path / "models" / "opt-mini"))
    monkeypatch.setenv("ZORBA_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("ZORBA_CACHE", str(tmp_path / "cache"))
    config, weights = base / "config.json", base / "model.safetensors"
    text, content = config.read_text(encoding="utf-8"), weights.read_bytes()
    if change == "config":
        config.write_text(text.replace('"relu"', '"gelu"'), encoding="utf-8")
    elif change == "weights":
        weights.write_bytes(content[:500_000] + b"\0" + content[500_001:])
    else:  # also where nobody wrote checksums
        (base / "SHA256SUMS").unlink()
        if change == "cut weights":
            weights.write_bytes(content[:100_000])
        else:
            config.write_text(text[:50] if change == "cut config" else text.replace("num_hidden_layers", "layers"))
    with pytest.raises(InvalidInputError, match=r"opt-mini"):
        resolve_model("opt-mini-14")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
