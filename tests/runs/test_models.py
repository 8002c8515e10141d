import os
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.tiny_models import tiny_model
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs.models import load_model, load_tokenizer, models_folder, recorded_model, resolve_model


@pytest.fixture
def saved(tmp_path):
    tiny_model("opt").save_pretrained(tmp_path / "model")
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
    with pytest.raises(MissingDataError, match=r"set ZORBA_MODELS .* git restore artifacts/models"):
        resolve_model("opt-mini")


def test_a_local_folder_is_loaded_in_float32_and_evaluation_mode(saved):
    model = load_model(saved)
    assert model.dtype == torch.float32
    assert not model.training
    assert model.config.num_hidden_layers == 3


def test_a_hub_name_passes_through_and_offline_is_one_clear_line():
    assert resolve_model("facebook/opt-125m") == "facebook/opt-125m"
    with pytest.raises(MissingDataError, match="no-such-model: there is no such folder, and its tokenizer") as error:
        load_tokenizer("nobody/no-such-model")
    assert "\n" not in str(error.value)


def test_what_is_neither_a_folder_nor_a_hub_name_is_refused():
    for name in ["opt-huge", "a/b/c", "./absent/folder", "~/absent", ""]:
        with pytest.raises(InvalidInputError, match="unknown model"):
            resolve_model(name)


def test_a_folder_without_a_configuration_is_no_model(tmp_path):
    with pytest.raises(MissingDataError, match=r"no config\.json"):
        resolve_model(tmp_path)


def test_pickled_weights_are_not_read(saved):
    weights = saved / "model.safetensors"
    torch.save({}, saved / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(InvalidInputError, match=r"pickle format \(pytorch_model.bin\).*convert them: AutoModel"):
        load_model(saved)


def test_what_a_folder_lacks_is_named_with_the_way_to_it(saved):
    with pytest.raises(InvalidInputError, match=r"it has no tokenizer \(tokenizer\.json\); save the model's own in it"):
        load_tokenizer(saved)
    (saved / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    with pytest.raises(InvalidInputError, match=r"model\.safetensors is a pointer of git-lfs .* git lfs pull"):
        load_model(saved)
    (saved / "model.safetensors").unlink()
    with pytest.raises(InvalidInputError, match=r"it has no weights \(model\.safetensors\); save the whole model"):
        load_model(saved)


def test_a_relative_folder_is_recorded_by_its_absolute_path(saved, monkeypatch):
    monkeypatch.chdir(saved.parent)
    assert recorded_model("model") == recorded_model("./model") == str(saved)
    assert [recorded_model(name) for name in ("opt-mini", "facebook/opt-125m")] == ["opt-mini", "facebook/opt-125m"]


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
        "from zorba_core.runs.models import load_model, load_tokenizer\n"
        "from zorba_core.runs.load import read_spec\n"
        "name = 'who/tiny'\n"
        "import atexit, gc; atexit.register(gc.freeze)\n"  # as the command does, to end two seconds sooner
        "print(read_spec(name).num_blocks, load_model(name).num_parameters(), len(load_tokenizer(name)))"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    model = load_model(tiny_opt_folder)
    expected = [model.config.num_hidden_layers, model.num_parameters(), len(load_tokenizer(tiny_opt_folder))]
    assert [int(number) for number in done.stdout.split()] == expected


def changed_weights(folder, change):
    """Write the folder's tensors again, after ``change`` of the dictionary that holds them."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("tied", [True, False])
def test_weights_that_the_files_lack_are_refused_and_not_drawn_at_random(saved, tied, capfd):
    config = saved / "config.json"
    config.write_text(
        config.read_text().replace('"tie_word_embeddings": true', f'"tie_word_embeddings": {tied}'.lower())
    )
    absent = "model.decoder.layers.1.fc1.weight"
    changed_weights(saved, lambda tensors: tensors.pop(absent))
    first = absent if tied else "lm_head.weight"
    named = rf"{1 if tied else 2} of its parameters are missing in its files, the first is {first}\)"
    with pytest.raises(InvalidInputError, match=named) as error:
        load_model(saved)
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""  # the loader's table says nothing beside it


def test_a_tensor_of_another_shape_is_refused_by_its_name(saved, capfd):
    name = "model.decoder.layers.0.fc1.bias"
    changed_weights(saved, lambda tensors: tensors.update({name: torch.zeros(3)}))
    with pytest.raises(InvalidInputError, match=rf"{name} has the shape \(3,\) and its config asks for \(\d+,\)"):
        load_model(saved)
    assert capfd.readouterr().err == ""


def test_tensors_that_are_no_parameters_are_left_out_and_said(saved, caplog):
    whole = load_model(saved).state_dict()
    changed_weights(saved, lambda tensors: tensors.update({"model.decoder.layers.9.fc1.bias": torch.zeros(3)}))
    loaded = load_model(saved).state_dict()
    assert all(torch.equal(whole[name], loaded[name]) for name in whole)
    assert "1 tensors in its files are none of its parameters and are ignored" in caplog.text
    assert "the first is 'model.decoder.layers.9.fc1.bias'" in caplog.text
    assert "LOAD REPORT" not in caplog.text


def test_adapters_among_a_models_files_are_refused(saved):
    """The loader would put them into the model, and say of the adapters alone what is missing."""
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(load_model(saved), peft.LoraConfig(r=2, target_modules=["fc1"]))
    adapted.save_pretrained(saved)
    with pytest.raises(InvalidInputError, match="adapters among its files"):
        load_model(saved)


def test_weights_that_are_no_numbers_are_refused_by_their_name(saved):
    name = "model.decoder.layers.1.fc1.weight"
    changed_weights(saved, lambda tensors: tensors[name][0].fill_(float("nan")))
    with pytest.raises(InvalidInputError, match=rf"{name} has NaN or infinity, as after a training that diverged"):
        load_model(saved)
