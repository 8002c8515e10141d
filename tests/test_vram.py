"""The VRAM model, and the budgets that follow from it. Table II is in ``tests/reproduction/test_counts.py``."""

from __future__ import annotations

import json

import numpy as np
import pytest
import transformers

from tests.engine.test_blocks import built
from zorba_core.engine.parts import method_facts
from zorba_core.errors import InfeasibleError, InvalidInputError, MissingDataError
from zorba_core.vram import (
    GIB,
    PRESETS,
    Workload,
    affordable_blocks,
    model_spec,
    psi_block_bytes,
    psi_client_bytes,
    psi_model_bytes,
    spec_from_config,
    whole_block_budgets,
)

OPT = model_spec("opt-125m")
WORKLOAD = Workload(batch_size=8, seq_len=128)


def test_half_precision_halves_every_byte():
    half = Workload(batch_size=8, seq_len=128, dtype="bfloat16")
    assert 2 * psi_block_bytes(OPT, half) == psi_block_bytes(OPT, WORKLOAD)
    assert 2 * psi_model_bytes(OPT, half) == psi_model_bytes(OPT, WORKLOAD)


def test_a_client_holds_the_parameters_and_its_blocks():
    parameters, block = psi_model_bytes(OPT, WORKLOAD), psi_block_bytes(OPT, WORKLOAD)
    assert psi_client_bytes(OPT, WORKLOAD, [0, 1, 12]).tolist() == [
        parameters,
        parameters + block,
        parameters + 12 * block,
    ]


def test_a_capacity_of_exactly_k_blocks_affords_k():
    for name in ("opt-125m", "opt-1.3b", "opt-2.7b"):
        for workload in (WORKLOAD, Workload(seq_len=7), Workload(batch_size=1, dtype="float16")):
            model = model_spec(name)
            blocks = np.arange(1, model.num_blocks + 1)
            capacity = psi_client_bytes(model, workload, blocks)
            assert whole_block_budgets(capacity, model, workload).tolist() == blocks.tolist()
            assert affordable_blocks(capacity - 1000, model, workload).tolist() == (blocks - 1).tolist()


def test_budgets_never_exceed_the_number_of_blocks():
    assert whole_block_budgets([1000 * GIB], OPT, WORKLOAD).tolist() == [12]


def test_a_client_that_cannot_hold_one_block_is_named():
    capacity = psi_client_bytes(OPT, WORKLOAD, [3, 0, 5, 0])
    with pytest.raises(InfeasibleError, match=r"2 of 4 clients cannot hold opt-125m and one block .* client 1, 3"):
        whole_block_budgets(capacity, OPT, WORKLOAD)
    with pytest.raises(InfeasibleError, match=r"bea, dan; leave"):
        whole_block_budgets(capacity, OPT, WORKLOAD, names=("al", "bea", "cy", "dan"))


def test_reserves_of_many_vectors_give_as_many_vectors_of_blocks():
    capacity = psi_client_bytes(OPT, WORKLOAD, [12, 6])
    reserve_EN = np.array([[0.0, 0.0], [0.5, 0.5]]) * capacity
    blocks_EN = affordable_blocks(capacity, OPT, WORKLOAD, reserve_EN)
    assert blocks_EN[0].tolist() == [12, 6]
    for row, vector in zip(blocks_EN, reserve_EN, strict=True):
        assert row.tolist() == affordable_blocks(capacity, OPT, WORKLOAD, vector).tolist()


def test_what_is_no_amount_of_memory_no_workload_and_no_total_is_refused_by_name():
    for bad in (np.nan, np.inf, -1.0):
        with pytest.raises(InvalidInputError, match="client 1: capacity"):
            whole_block_budgets([GIB, bad], OPT, WORKLOAD)
    for says, settings in {
        "batch_size is 0": {"batch_size": 0},
        "dtype is 'int4'; choose one of float32": {"dtype": "int4"},
    }.items():
        with pytest.raises(InvalidInputError, match=says):
            Workload(**settings)
    for says, (clients, total, method) in {
        "give the total of activated blocks": (50, None, "zorba"),
        "total blocks is 49; .* from 50 .* to 600": (50, 49, "zorba"),
        "total blocks is 601; .* from 50 .* to 600": (50, 601, "zorba"),
        "fedit activates all 600 blocks": (50, 300, "fedit"),
        "number of clients is 0": (0, None, "fedit"),
    }.items():
        with pytest.raises(InvalidInputError, match=says):
            method_facts(method).total_bytes(OPT, WORKLOAD, clients, total)


SMALL = {"num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 4, "vocab_size": 101}
FAMILIES = {  # the feed-forward width of each is 96
    "OPT": {**SMALL, "ffn_dim": 96, "word_embed_proj_dim": 24, "do_layer_norm_before": False},
    "GPT2": {"n_layer": 3, "n_embd": 48, "n_head": 4, "vocab_size": 101, "n_positions": 64, "n_inner": 96},
    "Llama": {**SMALL, "intermediate_size": 96, "num_key_value_heads": 2, "attention_bias": True},
    "Falcon": {**SMALL, "ffn_hidden_size": 96, "new_decoder_architecture": True, "num_kv_heads": 2},
    "Qwen3": {**SMALL, "intermediate_size": 96, "num_key_value_heads": 2, "tie_word_embeddings": True},
}
PUBLISHED_OPT = {  # hidden, blocks, heads, word embedding, exact parameters
    "opt-125m": (768, 12, 12, 768, 125_239_296),
    "opt-350m": (1024, 24, 16, 512, 331_196_416),
    "opt-1.3b": (2048, 24, 32, 2048, 1_315_758_080),
    "opt-2.7b": (2560, 32, 32, 2560, 2_651_596_800),
    "opt-30b": (7168, 48, 56, 7168, 29_974_540_288),
}


def test_a_config_gives_the_sizes_of_the_model_built_from_it():
    for family, config in FAMILIES.items():
        model = built(family, **config)()
        for as_saved in (True, False):
            spec = spec_from_config(json.loads(model.config.to_json_string(use_diff=as_saved)), family)
            assert spec.num_parameters == model.num_parameters(), family
            assert (spec.num_blocks, spec.hidden_size, spec.num_heads, spec.ffn_ratio) == (3, 48, 4, 2), family


def test_a_preset_has_the_published_shape_and_nearly_the_published_size():
    for name, (hidden, blocks, heads, embedding, exact) in PUBLISHED_OPT.items():
        config = transformers.OPTConfig(
            hidden_size=hidden,
            num_hidden_layers=blocks,
            num_attention_heads=heads,
            ffn_dim=4 * hidden,
            word_embed_proj_dim=embedding,
            do_layer_norm_before=name != "opt-350m",
        )
        assert spec_from_config(config, name).num_parameters == exact
        preset = model_spec(f"facebook/{name}")
        assert (preset.num_blocks, preset.hidden_size, preset.num_heads) == (blocks, hidden, heads)
        assert preset.num_parameters == pytest.approx(exact, rel=0.013)


def test_smollm2_is_counted_from_its_config():
    config = transformers.LlamaConfig(
        num_hidden_layers=30,
        hidden_size=576,
        intermediate_size=1536,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=49152,
        tie_word_embeddings=True,
    )
    assert spec_from_config(config, "smollm2-135m") == PRESETS["smollm2-135m"]


def test_a_hugging_face_folder_and_its_config_file_give_the_same_spec(tmp_path):
    transformers.OPTConfig(**FAMILIES["OPT"]).save_pretrained(tmp_path)
    assert model_spec(tmp_path) == model_spec(str(tmp_path / "config.json"))
    assert model_spec(tmp_path).name == tmp_path.name


def test_a_model_that_reads_images_is_refused_as_such(tmp_path):
    transformers.LlavaConfig().save_pretrained(tmp_path)
    with pytest.raises(InvalidInputError, match="a llava model has a part for vision, and only language"):
        model_spec(tmp_path)


def test_what_names_no_model_is_refused_in_one_line(tmp_path):
    path = tmp_path / "config.json"
    with pytest.raises(MissingDataError, match=r"no config\.json"):
        model_spec(tmp_path)
    with pytest.raises(InvalidInputError, match="unknown model 'opt-9000b'; choose one of opt-125m"):
        model_spec("opt-9000b")
    for content, says in {
        "not json": "not JSON",
        "[1]": "must be a JSON object",
        "{}": "cannot build a causal language model",
        '{"model_type": "t5"}': "cannot build a causal language model",
        '{"model_type": "opt", "hidden_size": "8"}': "hidden_size",
        '{"model_type": "opt", "hidden_size": -8}': "cannot build a causal language model",
    }.items():
        path.write_text(content)
        with pytest.raises(InvalidInputError, match=says) as error:
            model_spec(path)
        assert "\n" not in str(error.value)
