"""Every adapter's pieces, in order, against the model's own forward pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.reference import estimate
from zorba_core.engine.families import ADAPTERS, family_of
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rows import Encoded
from zorba_core.errors import InvalidInputError

VOCABULARY, LABELS = 120, [11, 90, 3]
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4}
OPT = {**SIZES, "ffn_dim": 32, "max_position_embeddings": 40}
ROTARY = {**SIZES, "intermediate_size": 32, "max_position_embeddings": 40}
GROUPED = {**ROTARY, "num_key_value_heads": 2}
ROPE = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}

CASES = {
    "opt": lambda: OPTForCausalLM(OPTConfig(**OPT, word_embed_proj_dim=16)),
    "opt norm after": lambda: OPTForCausalLM(OPTConfig(**OPT, word_embed_proj_dim=8, do_layer_norm_before=False)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=3, n_head=2, n_positions=40)),
    "gpt2 scaled by layer": lambda: GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY, n_embd=16, n_layer=3, n_head=2, n_positions=40, scale_attn_by_inverse_layer_idx=True
        )
    ),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**GROUPED)),
    "llama tied, biased": lambda: LlamaForCausalLM(
        LlamaConfig(**GROUPED, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)
    ),
    "llama scaled positions": lambda: LlamaForCausalLM(LlamaConfig(**GROUPED, rope_parameters=ROPE)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**GROUPED)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**GROUPED, head_dim=8)),
    "gpt-neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**ROTARY, rotary_pct=0.5)),
    "gpt-neox in sequence": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**ROTARY, use_parallel_residual=False)),
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
def prompts() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(1, VOCABULARY, (5, 12), generator=generator), torch.tensor([11, 2, 5, 11, 0])


def label_logits(network: BlockNetwork, token_ids_BL: torch.Tensor, last_B: torch.Tensor) -> torch.Tensor:
    """By the network's pieces."""
    return network.head(network(Encoded(token_ids_BL, last_B, torch.zeros_like(last_B))))


def own_label_logits(model: PreTrainedModel, token_ids_BL: torch.Tensor, last_B: torch.Tensor) -> torch.Tensor:
    """Each prompt alone and without padding, by the model's own forward pass."""
    rows = [
        model(row[None, : last + 1], use_cache=False).logits[0, -1, LABELS]
        for row, last in zip(token_ids_BL, last_B, strict=True)
    ]
    return torch.stack(rows)


@torch.no_grad()
def test_pieces_in_order_are_the_models_own_forward_pass(model, prompts):
    model = model.double()
    expected = own_label_logits(model, *prompts)
    network = BlockNetwork(model, LABELS, dtype=torch.float64)
    assert torch.allclose(label_logits(network, *prompts), expected, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_a_block_computed_at_one_position_is_the_block_at_that_position(model, prompts):
    network = BlockNetwork(model, LABELS, dtype=torch.float64)
    hidden_BLH, last_B = network.embed(prompts[0]), prompts[1]
    expected = network.run_block(network.num_blocks - 1, hidden_BLH)[torch.arange(5), last_B]
    assert torch.allclose(network.run_last_block(hidden_BLH, last_B), expected, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_float32_pieces_agree_to_float32_rounding(model, prompts):
    expected = own_label_logits(model, *prompts)
    assert torch.allclose(label_logits(BlockNetwork(model, LABELS), *prompts).float(), expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_lengths_may_follow_each_other_in_any_order(model, prompts):
    """Nothing that a family keeps between calls (rotations of positions) may survive a change of length."""
    network = BlockNetwork(model, LABELS, dtype=torch.float64)
    token_ids_BL, last_B = prompts
    long_BC = label_logits(network, token_ids_BL, last_B)
    short_BC = label_logits(network, token_ids_BL[:, :6], last_B.clamp(max=5))
    assert torch.equal(label_logits(network, token_ids_BL, last_B), long_BC)
    assert torch.allclose(short_BC[[1, 2, 4]], long_BC[[1, 2, 4]], rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_a_rows_label_logits_do_not_depend_on_the_rows_beside_it(model, prompts):
    """What lets many clients share a forward pass in float32, where rho magnifies each rounding by 1 / mu."""
    network = BlockNetwork(model, LABELS)
    token_ids_BL = prompts[0].repeat(8, 1)
    last_B = prompts[1].repeat(8)
    together = label_logits(network, token_ids_BL, last_B)
    assert (together[:2] - label_logits(network, token_ids_BL[:2], last_B[:2])).abs().max() < 1e-12


@torch.no_grad()
def test_a_block_with_zero_weights_is_as_the_family_says(model, prompts):
    network = BlockNetwork(model, LABELS, dtype=torch.float64)
    hidden_BLH = network.embed(prompts[0])
    network.block_weights(1).zero_()
    assert torch.equal(network.run_block(1, hidden_BLH), hidden_BLH) == family_of(model).residual_passes_through


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_one_forward_pass_for_all_clients_gets_the_rho_of_one_for_each(model, inactive, dtype, tolerance):
    network = BlockNetwork(model, LABELS, dtype=dtype)
    generator = torch.Generator().manual_seed(3)
    batches_N = [
        Encoded(
            torch.randint(1, VOCABULARY, (4, length), generator=generator),
            torch.randint(0, length, (4,), generator=generator),
            torch.randint(0, 3, (4,), generator=generator),
        )
        for length in (6, 12, 12, 9, 6)
    ]
    A_MN = np.array([[1, 0, 0, 0, 1], [0, 0, 1, 0, 1], [1, 1, 0, 0, 1]], dtype=bool)
    directions = Directions("rademacher", network.sizes_M, dtype=dtype)
    reference = estimate(network, batches_N, A_MN, [5, 6], directions, mu=1e-3, inactive=inactive).rho_NQ
    cohort = estimate_cohort(network, batches_N, A_MN, [5, 6], directions, mu=1e-3, inactive=inactive).rho_NQ
    assert np.abs(cohort - reference).max() <= tolerance * np.abs(reference).max()
    assert (reference[[0, 1, 4]] != 0).all()


def test_every_adapter_is_tested():
    tested = {build().config.model_type for build in CASES.values()}
    assert tested == set(ADAPTERS)


def test_an_unknown_architecture_is_told_what_an_adapter_needs():
    bloom = BloomForCausalLM(BloomConfig(vocab_size=50, hidden_size=8, n_layer=1, n_head=2))
    with pytest.raises(InvalidInputError, match=r"'bloom'.*opt, gpt2, llama.*blocks.*embed.*run.*logits.*residual"):
        family_of(bloom)


@pytest.mark.parametrize(("config", "build"), [(Qwen2Config, Qwen2ForCausalLM), (Qwen3Config, Qwen3ForCausalLM)])
def test_a_sliding_window_is_refused_rather_than_ignored(config, build):
    sliding = build(config(**GROUPED, use_sliding_window=True, sliding_window=4, max_window_layers=1))
    with pytest.raises(InvalidInputError, match="sliding window"):
        family_of(sliding)
