"""Every adapter's pieces, in order, against the model's own forward pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import transformers
from transformers import PreTrainedModel
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from tests.engine.forward_mode import estimate_jvp
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.reference import estimate
from zorba_core.engine.families import ADAPTERS, OWN_FORWARD, LabelPositions, attention_of, family_of
from zorba_core.engine.families.norms import keep_float64
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rows import Encoded
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
    "bloom": built("Bloom", **BLOOM),
    "bloom norm passes": built("Bloom", **BLOOM, apply_residual_connection_post_layernorm=True),
    "gemma": built("Gemma", **GROUPED, head_dim=8),
    "gemma2": built("Gemma2", **GEMMA, **WINDOW, attn_logit_softcapping=0.5, final_logit_softcapping=2.0),
    "gemma3": built("Gemma3Text", **GEMMA, **WINDOW, layer_types=LAYERS, rope_parameters=LOCAL_GLOBAL),
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
    model.set_attn_implementation(attention_of(model))
    as_published = own_label_logits(model, *prompts)  # root-mean-square norms in float32
    network = BlockNetwork(model, LABELS, dtype=torch.float64)
    logits = label_logits(network, *prompts)
    assert torch.allclose(logits, as_published, rtol=1e-5, atol=1e-5)
    assert torch.allclose(logits, own_label_logits(model, *prompts), rtol=1e-12, atol=1e-12)  # the norms in float64 too


@torch.no_grad()
def test_a_block_computed_at_several_positions_is_the_block_at_them(model, prompts):
    network, family = BlockNetwork(model, LABELS, dtype=torch.float64), family_of(model)
    hidden_BLH, read_BP = (
        network.embed(prompts[0]),
        torch.tensor([[2, 3, 11], [0, 1, 2], [7, 7, 7], [4, 5, 9], [0, 9, 10]]),
    )
    expected = network.run_block(network.num_blocks - 1, hidden_BLH)[torch.arange(5)[:, None], read_BP]
    at = LabelPositions(read_BP, 12, 16)
    read_RPH = family.run_at(family.blocks()[-1], hidden_BLH, at)
    assert torch.allclose(read_RPH[:5], expected, rtol=1e-12, atol=1e-12)


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
    assert tested == {*ADAPTERS, *OWN_FORWARD}


@torch.no_grad()
@pytest.mark.parametrize("name", ["StableLm", "Olmo2", "Starcoder2", "Cohere"])
def test_an_architecture_without_adapter_works_where_its_pieces_are_its_own_forward_pass(name, prompts):
    model = built(name, **GROUPED, logit_scale=1.0, pad_token_id=0)().double()
    network = BlockNetwork(model, LABELS, dtype=torch.float64)
    assert torch.allclose(label_logits(network, *prompts), own_label_logits(model, *prompts), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "config", "says"),
    [
        ("Granite", {**GROUPED, "logits_scaling": 8.0}, "'granite' has no adapter.*differ from its own"),
        ("CTRL", {"vocab_size": 50, "n_embd": 8, "n_layer": 3, "n_head": 2, "dff": 16}, "'ctrl'.*no list of 3 blocks"),
        ("Gemma3Text", {**GROUPED, "head_dim": 8, "use_bidirectional_attention": True}, "'gemma3_text'.*looks ahead"),
    ],
)
def test_a_model_whose_pieces_are_not_known_is_refused_with_what_is_supported(name, config, says):
    with pytest.raises(InvalidInputError, match=rf"{says}.*; supported are the model types opt, gpt2,.*gemma3_text$"):
        family_of(built(name, **config)().eval())


def test_what_is_no_causal_language_model_is_refused():
    with pytest.raises(InvalidInputError, match="a Linear is no causal language model"):
        family_of(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_root_mean_square_norms_are_as_exact_as_their_input(kind):
    """In float64, with Gemma's weights beside 1 as with Llama's; in float32 they are Hugging Face's own, to the bit."""
    norm = (LlamaRMSNorm if kind == "llama" else GemmaRMSNorm)(24)
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(5, 24, dtype=torch.float64)
    published, shift = norm(x.float()), 0 if kind == "llama" else 1
    keep_float64(norm)
    exact = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * (norm.weight.double() + shift)
    assert torch.equal(norm(x.float()), published)
    assert torch.allclose(norm.double()(x), exact, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_exact_scalars_are_the_derivatives_of_every_family(model, inactive):
    """Also of layers that are linear ones by kind and have a forward pass of their own, such as Falcon's. Where a model
    computes scores in float32 whatever the dtype, both estimators do."""
    network = BlockNetwork(model, LABELS, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    rows_N = [
        Encoded(
            torch.randint(1, 100, (8, 12), generator=generator),
            torch.randint(0, 12, (8,), generator=generator),
            torch.randint(0, len(LABELS), (8,), generator=generator),
        )
        for _ in range(5)
    ]
    A_MN = np.random.default_rng(2).random((network.num_blocks, 5)) < 0.7
    directions = Directions("rademacher", network.sizes_M, dtype=torch.float64)
    exact, derivative = (
        run(network, rows_N, A_MN, [1, 2], directions, inactive=inactive).rho_NQ
        for run in (estimate_exact, estimate_jvp)
    )
    in_float32 = model.config.model_type in ("bloom", "gemma2")
    assert np.abs(exact - derivative).max() <= (1e-5 if in_float32 else 1e-10) * np.abs(derivative).max()
