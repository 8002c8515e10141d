"""Parameter counts are checked against the real models, built without weights on torch's meta device."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

from zorba_core.engine.blocks import block_list
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.planning.models import PRESETS, model_spec, spec_from_config
from zorba_core.planning.parameter_counts import parameter_counts

SMALL = {"num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 4, "vocab_size": 101}
GROUPED = {**SMALL, "intermediate_size": 96, "num_key_value_heads": 2}
CONFIGS = {
    "opt": transformers.OPTConfig(**SMALL, ffn_dim=96, max_position_embeddings=64, word_embed_proj_dim=48),
    "opt-350m-style": transformers.OPTConfig(
        **SMALL, ffn_dim=96, max_position_embeddings=64, word_embed_proj_dim=24, do_layer_norm_before=False
    ),
    "opt-no-bias": transformers.OPTConfig(
        **SMALL, ffn_dim=96, max_position_embeddings=64, word_embed_proj_dim=48, enable_bias=False
    ),
    "gpt2": transformers.GPT2Config(n_layer=3, n_embd=48, n_head=4, vocab_size=101, n_positions=64),
    "llama": transformers.LlamaConfig(**SMALL, intermediate_size=96, num_key_value_heads=2),
    "llama-bias": transformers.LlamaConfig(**SMALL, intermediate_size=96, attention_bias=True, mlp_bias=True),
    "mistral": transformers.MistralConfig(**SMALL, intermediate_size=96, num_key_value_heads=2),
    "qwen2": transformers.Qwen2Config(**SMALL, intermediate_size=96, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3": transformers.Qwen3Config(**SMALL, intermediate_size=96, num_key_value_heads=2, head_dim=16),
    "gpt_neox": transformers.GPTNeoXConfig(**SMALL, intermediate_size=96),
    "smollm3": transformers.SmolLM3Config(**GROUPED, pad_token_id=0, attention_bias=True),
    "phi": transformers.PhiConfig(**GROUPED, qk_layernorm=True),
    "phi3": transformers.Phi3Config(**GROUPED, pad_token_id=0),
    "falcon": transformers.FalconConfig(**SMALL),
    "falcon-in-sequence": transformers.FalconConfig(**SMALL, bias=True, multi_query=False, parallel_attn=False),
    "falcon-newer": transformers.FalconConfig(**SMALL, new_decoder_architecture=True, num_kv_heads=2),
    "bloom": transformers.BloomConfig(n_layer=3, hidden_size=48, n_head=4, vocab_size=101),
    "gemma": transformers.GemmaConfig(**GROUPED),
    "gemma2": transformers.Gemma2Config(**GROUPED, head_dim=8),
    "gemma3": transformers.Gemma3TextConfig(**GROUPED, head_dim=8),
}
PUBLISHED_OPT = {  # hidden, blocks, heads, word embedding, exact parameters
    "opt-125m": (768, 12, 12, 768, 125_239_296),
    "opt-350m": (1024, 24, 16, 512, 331_196_416),
    "opt-1.3b": (2048, 24, 32, 2048, 1_315_758_080),
    "opt-2.7b": (2560, 32, 32, 2560, 2_651_596_800),
    "opt-30b": (7168, 48, 56, 7168, 29_974_540_288),
}


@pytest.mark.parametrize("family", CONFIGS)
def test_a_config_counts_as_many_parameters_as_the_model_built_from_it(family):
    config = CONFIGS[family]
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    exact = sum(parameter.numel() for parameter in model.parameters())
    for as_saved in (True, False):
        spec = spec_from_config(json.loads(config.to_json_string(use_diff=as_saved)), family)
        assert spec.num_parameters == exact
    assert (spec.num_blocks, spec.hidden_size, spec.num_heads) == (3, 48, 4)


@pytest.mark.parametrize("family", CONFIGS)
def test_a_block_is_counted_layer_by_layer(family):
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(CONFIGS[family])
    counts = parameter_counts(CONFIGS[family].to_dict(), family)
    block = block_list(model)[1]
    assert counts.block == sum(parameter.numel() for parameter in block.parameters())
    layers = {name: module for name, module in block.named_modules() if name and hasattr(module, "weight")}
    for ending, linear in counts.linears.items():
        (weight,) = [module.weight for name, module in layers.items() if name.endswith(ending)]
        assert {linear.inputs, linear.outputs} == set(weight.shape)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_published_shape_and_nearly_the_published_size(name):
    hidden, blocks, heads, embedding, exact = PUBLISHED_OPT[name]
    config = transformers.OPTConfig(
        hidden_size=hidden,
        num_hidden_layers=blocks,
        num_attention_heads=heads,
        ffn_dim=4 * hidden,
        word_embed_proj_dim=embedding,
        do_layer_norm_before=name != "opt-350m",
    )
    assert spec_from_config(config.to_dict(), name).num_parameters == exact
    preset = model_spec(f"facebook/{name}")
    assert (preset.num_blocks, preset.hidden_size, preset.num_heads) == (blocks, hidden, heads)
    assert preset.num_parameters == pytest.approx(exact, rel=0.013)


def test_a_hugging_face_folder_and_its_config_file_give_the_same_spec(tmp_path):
    CONFIGS["opt"].save_pretrained(tmp_path)
    assert model_spec(tmp_path) == model_spec(str(tmp_path / "config.json"))
    assert model_spec(tmp_path).name == tmp_path.name
    assert model_spec(tmp_path).ffn_ratio == 2.0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("not json", "not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"model_type": "bert"}', "model_type 'bert'"),
        ('{"model_type": "opt", "hidden_size": 8}', "no field num_hidden_layers"),
        ('{"model_type": "opt", "hidden_size": "8"}', "hidden_size is '8'"),
        ('{"model_type": "opt", "hidden_size": -8}', "hidden_size is -8"),
    ],
)
def test_a_bad_config_is_refused_in_one_line(tmp_path, content, says):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=says) as error:
        model_spec(path)
    assert "\n" not in str(error.value)


def test_an_unknown_name_lists_the_presets():
    with pytest.raises(InvalidInputError, match="unknown model 'opt-9000b'; choose one of opt-125m"):
        model_spec("opt-9000b")


def test_a_folder_without_config_says_so(tmp_path):
    with pytest.raises(MissingDataError, match=r"no config\.json"):
        model_spec(tmp_path)
