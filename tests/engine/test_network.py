from __future__ import annotations

import pytest
import torch

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.rows import Rows

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


def test_the_fingerprint_sees_one_changed_bit(make_tiny_model):
    network = Blocks(make_tiny_model("opt"))
    before = network.weights_sha256()
    weights = network.block_weights(1)
    weights[5] = torch.nextafter(weights[5], torch.tensor(torch.inf))
    assert network.weights_sha256() != before
