import os
import shutil
import subprocess
import sys

import pytest
import torch

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs.model_source import load_model, load_tokenizer, models_folder, resolve_model
from zorba_core.study.base_model.model import build_model
from zorba_core.study.base_model.recipe import TINY


@pytest.fixture
def saved(tmp_path):
    model = build_model(TINY, vocab_size=64, seed=0)
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_opt_mini_is_the_bundled_folder_or_that_of_the_variable(root, saved, monkeypatch):
    monkeypatch.delenv("ZORBA_MODELS", raising=False)
    assert resolve_model("opt-mini") == str(root / "artifacts" / "models" / "opt-mini")
    shutil.copytree(saved, saved.parent / "opt-mini")
    monkeypatch.setenv("ZORBA_MODELS", str(saved.parent))
    assert models_folder() == saved.parent
    assert resolve_model("opt-mini") == str(saved.parent / "opt-mini")


def test_a_missing_bundled_model_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_MODELS", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"set ZORBA_MODELS .* zorba make-base"):
        resolve_model("opt-mini")


def test_a_local_folder_is_loaded_in_float32_and_evaluation_mode(saved):
    model = load_model(saved)
    assert model.dtype == torch.float32
    assert not model.training
    assert model.config.num_hidden_layers == TINY.num_blocks


def test_a_hub_name_passes_through_and_offline_is_one_clear_line():
    assert resolve_model("facebook/opt-125m") == "facebook/opt-125m"
    with pytest.raises(MissingDataError, match="no-such-model: it is no folder here and the hub did not") as error:
        load_tokenizer("nobody/no-such-model")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["opt-huge", "a/b/c", "./absent/folder", "~/absent", ""])
def test_what_is_neither_a_folder_nor_a_hub_name_is_refused(name):
    with pytest.raises(InvalidInputError, match="unknown model"):
        resolve_model(name)


def test_a_folder_without_a_configuration_is_no_model(tmp_path):
    with pytest.raises(MissingDataError, match=r"no config\.json"):
        resolve_model(tmp_path)


def test_pickled_weights_are_not_read(saved):
    weights = saved / "model.safetensors"
    torch.save({}, saved / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(InvalidInputError, match=r"pickle format \(pytorch_model.bin\).*convert them once: AutoModel"):
        load_model(saved)


def test_code_that_comes_with_a_model_is_not_run(saved, tmp_path):
    config = saved / "config.json"
    theirs = '"model_type": "theirs", "auto_map": {"AutoConfig": "evil.Config"}'
    config.write_text(config.read_text().replace('"model_type": "opt"', theirs))
    (saved / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(InvalidInputError, match="cannot be loaded"):
        load_model(saved)
    assert not (tmp_path / "ran").exists()


def test_a_hub_model_that_was_fetched_before_is_used_without_a_network(tiny_opt_folder, tmp_path):
    """In the layout of the hub's cache, by a process of its own: the library reads its folder when it is imported."""
    repository, commit = tmp_path / "hub" / "models--who--tiny", "0" * 40
    shutil.copytree(tiny_opt_folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    code = (
        "from zorba_core.runs.model_source import load_model, load_tokenizer\n"
        "from zorba_core.runs.session import read_spec\n"
        "name = 'who/tiny'\n"
        "print(read_spec(name).num_blocks, load_model(name).num_parameters(), len(load_tokenizer(name)))"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    model = load_model(tiny_opt_folder)
    expected = [model.config.num_hidden_layers, model.num_parameters(), len(load_tokenizer(tiny_opt_folder))]
    assert [int(number) for number in done.stdout.split()] == expected
