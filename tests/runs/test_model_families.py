"""Runs of models that are not OPT: from a folder to a trained model and its facts."""

from __future__ import annotations

import pytest
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from tests.engine.test_blocks import CASES, built
from tests.runs.resumable import ALLOCATION
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError
from zorba_core.runs.load import read_spec
from zorba_core.runs.models import load_tokenizer
from zorba_core.runs.predict import predict
from zorba_core.runs.replay import replay
from zorba_core.runs.train import fine_tune

SETTINGS = Settings(lr=1e-4, rounds=2, directions=2, num_seeds=8, batch_size=2, seq_len=32, eval_every=2, eval_rows=9)
SIZES = {"vocab_size": 400, "max_position_embeddings": 64, "num_hidden_layers": 3, "hidden_size": 16}
WITHOUT_FORMULA = {**SIZES, "intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
MODELS = {
    "gemma2": lambda: built("Gemma2", **{**WITHOUT_FORMULA, "head_dim": 8, "sliding_window": 4})(),
    "bloom": lambda: built("Bloom", vocab_size=400, hidden_size=16, n_layer=3, n_head=2)(),
    "without a formula": lambda: built("StableLm", **WITHOUT_FORMULA)(),
}


@pytest.fixture
def saved(request, tmp_path, tiny_tokenizer):
    folder = tmp_path / "model"
    MODELS[request.param]().save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("saved", MODELS, indirect=True)
def test_a_run_trains_saves_and_replays(saved, tmp_path):
    exact = sum(parameter.numel() for parameter in AutoModelForCausalLM.from_pretrained(saved).parameters())
    assert (read_spec(saved).num_blocks, read_spec(saved).num_parameters) == (3, exact)
    run = fine_tune(ALLOCATION, model=saved, settings=SETTINGS, runs_folder=tmp_path / "runs", force=True)
    trained = Blocks(AutoModelForCausalLM.from_pretrained(run.export(tmp_path / "exported")))
    assert trained.weights_sha256() == run.summary["weights_sha256"]
    assert replay(run.path, 2).network.weights_sha256() != run.environment["base_weights_sha256"]
    assert replay(run.path).network.weights_sha256() == run.summary["weights_sha256"]


def test_a_tokenizer_without_padding_beginning_and_end_trains(tmp_path, tiny_tokenizer):
    MODELS["bloom"]().save_pretrained(tmp_path / "model")
    PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer.backend_tokenizer).save_pretrained(tmp_path / "model")
    loaded = load_tokenizer(tmp_path / "model")
    assert loaded.pad_token_id is loaded.bos_token_id is loaded.eos_token_id is None
    run = fine_tune(ALLOCATION, model=tmp_path / "model", settings=SETTINGS, runs_folder=tmp_path / "runs", force=True)
    assert run.summary["rounds_done"] == 2
    assert len(predict(run, ["a dull film", "a splendid film that lasts longer"]).probability_RC) == 2


def test_a_row_longer_than_the_models_positions_is_refused(tmp_path, tiny_tokenizer):
    CASES["phi"]().save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(InvalidInputError, match="seq_len is 64 and the model has 40 positions; use at most that"):
        fine_tune(ALLOCATION, model=tmp_path / "model", settings=Settings(), runs_folder=tmp_path)


@pytest.mark.parametrize("name", ["mixtral", "bamba"])
def test_experts_and_hybrids_train_by_finite_differences_and_exact_scalars_name_the_way(name, tmp_path, tiny_tokenizer):
    """No derivative of their layers is computed here: the comparison with it is left out."""
    config = CASES[name]().config
    config.vocab_size, config.max_position_embeddings, config.experts_implementation = 400, 64, None
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    common = {"model": tmp_path / "model", "runs_folder": tmp_path / "runs", "force": True}
    run = fine_tune(ALLOCATION, settings=SETTINGS.replace(estimator="cohort"), **common)
    assert run.rounds[2].weights_sha256 != run.environment["base_weights_sha256"]
    assert run.environment["preflight"]["checks"][0]["name"] == "perturbation"
    assert "finite_differences" not in run.environment["preflight"]
    with pytest.raises(InvalidInputError, match=r"estimator exact supports linear layers .* use estimator cohort"):
        fine_tune(ALLOCATION, settings=SETTINGS, **common)


def test_a_model_without_attention_is_refused_in_one_line(tmp_path):
    for name in ("mamba", "rwkv"):
        AutoConfig.for_model(name, vocab_size=400, hidden_size=16, num_hidden_layers=3).save_pretrained(tmp_path / name)
        with pytest.raises(InvalidInputError, match=rf"a {name} model has no attention heads, .* give a model with"):
            read_spec(tmp_path / name)
