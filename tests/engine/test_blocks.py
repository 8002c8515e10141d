"""Embedding, blocks and head, called one after another, against the model's own forward pass, for every layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from zorba_core.engine.blocks import Blocks
from zorba_core.errors import InvalidInputError

VOCABULARY, LABELS = 120, [11, 90, 3]
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4}
OPT = {**SIZES, "ffn_dim": 32, "max_position_embeddings": 40}
ROTARY = {**SIZES, "intermediate_size": 32, "max_position_embeddings": 40}
GROUPED = {**ROTARY, "num_key_value_heads": 2}
ROPE = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}

GPT2 = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 40}
BLOOM = {"vocab_size": VOCABULARY, "hidden_size": 18, "n_layer": 3, "n_head": 3}  # 3 heads: slopes between powers of 2
LAYERS = ["full_attention", "full_attention", "sliding_attention"]
WINDOW = {"sliding_window": 4}  # shorter than the rows
GEMMA = {**GROUPED, "head_dim": 8, "query_pre_attn_scalar": 30}
LOCAL_GLOBAL = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e2},
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e4},
}
EXPERTS = {**GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1, "experts_implementation": "eager"}
MAMBA = {**GROUPED, "mamba_n_heads": 8, "mamba_d_head": 4, "mamba_d_state": 8, "mamba_d_conv": 2, "mamba_n_groups": 1}
MAMBA["mamba_chunk_size"] = 8
FALCON = {**SIZES, "alibi": False, "new_decoder_architecture": False, "multi_query": True, "parallel_attn": True}


def built(name: str, **config: object) -> Callable[[], PreTrainedModel]:
    """The causal language model ``<name>ForCausalLM`` of ``transformers`` with this config, weights random."""
    own = {"GPT2": "GPT2LMHeadModel", "CTRL": "CTRLLMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}.get(
        name, f"{name}ForCausalLM"
    )
    return lambda: getattr(transformers, own)(getattr(transformers, f"{name}Config")(**config))


CASES = {
    "opt": built("OPT", **OPT, word_embed_proj_dim=16),
    "opt norm after": built("OPT", **OPT, word_embed_proj_dim=8, do_layer_norm_before=False),
    "gpt2": built("GPT2", **GPT2),
    "gpt2, its GELU one operation": built("GPT2", **{**GPT2, "n_embd": 32}),
    "gpt2 scaled by layer": built("GPT2", **GPT2, scale_attn_by_inverse_layer_idx=True),
    "llama": built("Llama", **GROUPED),
    "llama tied, biased": built("Llama", **GROUPED, tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    "llama scaled positions": built("Llama", **GROUPED, rope_parameters=ROPE),
    "qwen2": built("Qwen2", **GROUPED),
    "qwen2 windows": built("Qwen2", **GROUPED, **WINDOW, use_sliding_window=True, max_window_layers=1),
    "qwen3": built("Qwen3", **GROUPED, head_dim=8),
    "qwen3 windows": built("Qwen3", **GROUPED, **WINDOW, use_sliding_window=True, max_window_layers=1),
    "gpt-neox": built("GPTNeoX", **ROTARY, rotary_pct=0.5),
    "gpt-neox in sequence": built("GPTNeoX", **ROTARY, use_parallel_residual=False),
    "mistral": built("Mistral", **GROUPED, sliding_window=None),
    "mistral windows": built("Mistral", **GROUPED, **WINDOW),
    "smollm3": built("SmolLM3", **GROUPED, pad_token_id=0, no_rope_layers=[1, 0, 1]),
    "smollm3 windows": built("SmolLM3", **GROUPED, **WINDOW, pad_token_id=0, use_sliding_window=True),
    "phi": built("Phi", **ROTARY),
    "phi query and key norms": built("Phi", **GROUPED, qk_layernorm=True),
    "phi3": built("Phi3", **GROUPED, pad_token_id=0),
    "phi3 windows": built("Phi3", **GROUPED, **WINDOW, pad_token_id=0),
    "falcon": built("Falcon", **FALCON),
    "falcon in sequence": built("Falcon", **{**FALCON, "multi_query": False, "parallel_attn": False}, bias=True),
    "falcon two norms": built("Falcon", **{**FALCON, "new_decoder_architecture": True}, num_kv_heads=2),
    "falcon alibi": built("Falcon", **{**FALCON, "alibi": True}),
    "ctrl": built("CTRL", vocab_size=VOCABULARY, n_embd=16, n_layer=3, n_head=2, dff=32, n_positions=40),
    "bloom": built("Bloom", **BLOOM),
    "bloom norm passes": built("Bloom", **BLOOM, apply_residual_connection_post_layernorm=True),
    "gemma": built("Gemma", **GROUPED, head_dim=8),
    "gemma2": built("Gemma2", **GEMMA, **WINDOW, attn_logit_softcapping=0.5, final_logit_softcapping=2.0),
    "gemma3": built("Gemma3Text", **GEMMA, **WINDOW, layer_types=LAYERS, rope_parameters=LOCAL_GLOBAL),
    "mixtral": built("Mixtral", **EXPERTS),
    "bamba": built("Bamba", **MAMBA, attn_layer_indices=[1], pad_token_id=0),
    "lfm2": built("Lfm2", **GROUPED, layer_types=["conv", "full_attention", "conv"]),
    "gemma3 global last": built("Gemma3Text", **GEMMA, **WINDOW, layer_types=LAYERS[::-1], final_logit_softcapping=2.0),
}


@pytest.fixture(params=CASES)
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    """Randomly initialised, biases and norms included, so that nothing is equal by being zero or one."""
    built = CASES[request.param]().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            parameter.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, 0.25, generator=generator)
    return built


@pytest.fixture
def token_ids_RL() -> torch.Tensor:
    return torch.randint(1, VOCABULARY, (5, 12), generator=torch.Generator().manual_seed(1))


def through(blocks: Blocks, token_ids_RL: torch.Tensor) -> torch.Tensor:
    """Logits (R, L, C) of the label words at every position."""
    hidden_RLH = blocks.embed(token_ids_RL)
    for m in range(blocks.num_blocks):
        hidden_RLH = blocks.run_block(m, hidden_RLH)
    logits_SC = blocks.vocabulary_logits(hidden_RLH.flatten(0, 1), torch.tensor(LABELS))
    return logits_SC.view(*token_ids_RL.shape, -1)


@torch.no_grad()
def test_the_pieces_are_the_model(model, token_ids_RL):
    """Their logits are the model's own; a row reads nothing behind a position and nothing of other rows; a block
    computes with what is written to its weights, which come back; and sizes need no memory. In float64, since the order
    of sums differs from CPU to CPU."""
    blocks = Blocks(model, dtype=torch.float64)
    own_RLC = model(input_ids=token_ids_RL, use_cache=False).logits[..., LABELS]
    whole_RLC = through(blocks, token_ids_RL)
    torch.testing.assert_close(whole_RLC, own_RLC, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(through(blocks, token_ids_RL[1:3, :8]), whole_RLC[1:3, :8], rtol=1e-5, atol=1e-6)
    with blocks.moving([1]) as weights:
        weights[1].mul_(1.5)
        moved_RLC = through(blocks, token_ids_RL)
        own_RLC = model(input_ids=token_ids_RL, use_cache=False).logits[..., LABELS]
    assert not torch.allclose(moved_RLC, whole_RLC, rtol=1e-4)
    torch.testing.assert_close(moved_RLC, own_RLC, rtol=1e-5, atol=1e-6)
    assert torch.equal(through(blocks, token_ids_RL), whole_RLC)
    with torch.device("meta"):
        empty = type(model)(model.config)
    assert Blocks(empty, device="meta").sizes_M == blocks.sizes_M


@pytest.mark.parametrize("name", ["opt", "gpt2", "llama", "falcon", "gemma3"])
def test_gradients_flow_from_the_logits_to_every_block(name, token_ids_RL):
    blocks = Blocks(CASES[name]())
    parameters = [parameter for m in range(3) for parameter in blocks.block_parameters(m).values()]
    for parameter in parameters:
        parameter.requires_grad_(True)
    gradients = torch.autograd.grad(through(blocks, token_ids_RL).sum(), parameters)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert sum(float(gradient.abs().sum()) for gradient in gradients) > 0


@torch.no_grad()
def test_a_block_without_weights_is_the_identity_where_norms_come_first(token_ids_RL):
    for name, identity in {"opt": True, "gpt2": True, "llama": True, "opt norm after": False}.items():
        blocks = Blocks(CASES[name]())
        hidden_RLH = blocks.embed(token_ids_RL)
        assert torch.equal(blocks.run_block_without_weights(0, hidden_RLH), hidden_RLH) is identity


@pytest.mark.parametrize("name", ["BertLMHeadModel", "RobertaForCausalLM", "ElectraForCausalLM"])
def test_a_masked_model_is_refused_by_its_logits_and_passes_as_a_decoder(name):
    """A stranger loads them by AutoModelForCausalLM; nothing in their config says that they look ahead."""
    config = getattr(transformers, name).config_class(**ROTARY, embedding_size=16, pad_token_id=0)
    with pytest.raises(InvalidInputError, match=r"looks ahead: another last token moves the logits .* give a causal"):
        Blocks(getattr(transformers, name)(config)).check()
    config.is_decoder = True
    Blocks(getattr(transformers, name)(config)).check()


def test_a_model_without_a_list_of_blocks_or_that_looks_ahead_is_refused():
    bert = transformers.BertForMaskedLM(transformers.BertConfig(**ROTARY))
    bert.config.is_causal = False
    with pytest.raises(InvalidInputError, match="looks ahead"):
        Blocks(bert)
    opt = CASES["opt"]()
    opt.config.num_hidden_layers = 5
    with pytest.raises(InvalidInputError, match="no list of 5 blocks"):
        Blocks(opt)


def test_a_model_whose_pieces_differ_from_its_own_forward_pass_is_refused():
    """Here the last block's output is read twice, which no list of blocks shows."""
    model = CASES["llama"]()
    Blocks(model).check()
    norm = model.model.norm
    norm.register_forward_hook(lambda module, given, normed: normed * given[0].shape[1])
    with pytest.raises(InvalidInputError, match="differ from the model's own forward pass"):
        Blocks(model).check()
