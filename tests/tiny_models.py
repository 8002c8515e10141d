"""Randomly initialised models of the supported families, small enough to run in milliseconds, and a tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from tests.runs.resumable import ALLOCATION, SETTINGS
from zorba_core.data.load import load
from zorba_core.data.task import get_task
from zorba_core.runs import Run
from zorba_core.runs import resume as resuming
from zorba_core.runs import train as training
from zorba_core.runs.train import fine_tune

torch.set_num_threads(1)

VOCABULARY = 400
FAMILIES = ("opt", "opt-post-norm", "gpt2", "llama")


def tiny_model(family: str, num_blocks: int = 3, seed: int = 0, activation: str = "relu") -> PreTrainedModel:
    """A model whose weights, biases included, are all random, so that nothing is equal by being zero."""
    opt = {
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "ffn_dim": 32,
        "num_hidden_layers": num_blocks,
        "num_attention_heads": 2,
        "max_position_embeddings": 64,
        "activation_function": activation,
    }
    if family == "opt":
        model = OPTForCausalLM(OPTConfig(**opt, word_embed_proj_dim=16))
    elif family == "opt-post-norm":  # as OPT-350M: norm after, and projections around the blocks
        model = OPTForCausalLM(OPTConfig(**opt, word_embed_proj_dim=8, do_layer_norm_before=False))
    elif family == "gpt2":
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=num_blocks, n_head=2, n_positions=64)
        )
    else:
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=VOCABULARY,
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=num_blocks,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=64,
            )
        )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.normal_(mean, 0.25, generator=generator)
    return model.eval()


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """Each supported family in turn, for :func:`make_tiny_model`."""
    return request.param


@pytest.fixture(scope="session")
def make_tiny_model() -> Callable[..., PreTrainedModel]:
    return tiny_model


@pytest.fixture(scope="session")
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer()


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE that knows the toy reviews' words."""
    task = get_task("toy-reviews")
    texts = load("toy-reviews", "federated")["text"].head(300).tolist()
    texts += [f" {word}" for word in (*task.label_words, "terrible", "great")] * 200
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<pad>", "</s>"], initial_alphabet=alphabet),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="</s>", eos_token="</s>", padding_side="right"
    )


@pytest.fixture(scope="session")
def tiny_opt_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: PreTrainedTokenizerFast) -> Path:
    """A randomly initialised OPT in a Hugging Face folder, as a user's own model would be."""
    folder = tmp_path_factory.mktemp("models") / "tiny-opt"
    tiny_model("opt").save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def rows_divided_once():
    """Loading and dividing the rows takes longer than these runs: each division is made once."""
    divide, made = training.federated_rows, {}

    def remembered(task, tokenizer, num_clients, settings, **options):
        given = (settings.seed, settings.seq_len, settings.eval_rows, *options.values())
        key = (task, tokenizer.name_or_path, num_clients, *given)
        if key not in made:
            made[key] = divide(task, tokenizer, num_clients, settings, **options)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "federated_rows", remembered)
        patch.setattr(resuming, "federated_rows", remembered)
        yield


@pytest.fixture(scope="module")
def whole(rows_divided_once, tiny_opt_folder, tmp_path_factory) -> Run:
    """The run that nothing interrupted."""
    return fine_tune(
        ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path_factory.mktemp("whole")
    )  # fmt: skip
