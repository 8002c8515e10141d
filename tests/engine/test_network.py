from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.rows import Rows
from zorba_core.runs.export import save_model

LABELS = [11, 250, 3]
VOCABULARY = 400


@pytest.fixture
def prompts() -> Rows:
    """Five prompts of different lengths, padded on the right with token 0."""
    generator = torch.Generator().manual_seed(1)
    last_B = torch.tensor([8, 2, 5, 8, 0])
    token_ids_BL = torch.randint(1, VOCABULARY, (5, 9), generator=generator)
    token_ids_BL[torch.arange(9) > last_B[:, None]] = 0
    return Rows.of_words(token_ids_BL, last_B, torch.zeros_like(last_B), LABELS)


def test_label_logits_equal_the_hugging_face_forward_pass(family, make_tiny_model, prompts, subtests):
    for dtype, tolerance in [(torch.float32, 1e-5), (torch.float64, 1e-13)]:
        with subtests.test(dtype=dtype, tolerance=tolerance):
            model = make_tiny_model(family).to(dtype)
            if family == "llama" and dtype == torch.float64:
                tolerance = 1e-6  # Hugging Face's root-mean-square norms compute in float32 whatever they are given
            expected = []
            for row, last in zip(
                prompts.token_ids_RL, prompts.last_R, strict=True
            ):  # each prompt alone, without any padding
                logits = model(row[None, : last + 1], use_cache=False).logits
                expected.append(logits[0, -1, LABELS])
            network = Blocks(model, dtype=dtype)
            logits_BC = prompts.scores(network, network(prompts))
            assert logits_BC.dtype == torch.float64
            assert torch.allclose(logits_BC.to(dtype), torch.stack(expected), rtol=tolerance, atol=tolerance)


def test_a_dropped_block_computes_as_one_whose_weights_are_zero(family, make_tiny_model, prompts):
    network = Blocks(make_tiny_model(family), dtype=torch.float64)
    dropped = network(prompts, active_M=[True, False, True], inactive="dropped")
    network.block_weights(1).zero_()
    assert torch.equal(dropped, network(prompts))


def test_block_vectors_hold_every_parameter_of_the_blocks(family, make_tiny_model, prompts):
    model = make_tiny_model(family)
    network = Blocks(model)
    inside = sum(p.numel() for name, p in model.named_parameters() if ".layers." in name or ".h." in name)
    assert sum(network.sizes_M) == inside
    before = network(prompts)
    network.block_weights(2).mul_(1.5)
    assert not torch.equal(before, network(prompts))


def test_a_saved_model_loads_with_the_same_weights(family, make_tiny_model, tmp_path):
    network = Blocks(make_tiny_model(family))
    network.block_weights(0).add_(0.125)
    save_model(network, tmp_path / "saved")
    again = Blocks(AutoModelForCausalLM.from_pretrained(tmp_path / "saved"))
    assert again.weights_sha256() == network.weights_sha256()


def test_the_fingerprint_sees_one_changed_bit(make_tiny_model):
    network = Blocks(make_tiny_model("opt"))
    before = network.weights_sha256()
    weights = network.block_weights(1)
    weights[5] = torch.nextafter(weights[5], torch.tensor(torch.inf))
    assert network.weights_sha256() != before
