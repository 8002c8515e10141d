"""Weights of 16 bits: computed with in 32, rounded alike by every replica, and nothing lost in the mean.

The reference is a network in float32 whose weights are bfloat16 numbers: all that reads weights must have its bits.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.engine.test_cohort import LABELS, MU, SEEDS, batches, random_allocation
from zorba_core.engine import noise
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.jvp import estimate_jvp
from zorba_core.engine.estimators.reference import estimate
from zorba_core.engine.methods.first_order import gradient_cohort
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rounding import Rounding, rounding_of, stochastically, subtract
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError
from zorba_core.runs.model_folder import save_model

ROUNDING = Rounding("stochastic", 2**63 + 12345)


@pytest.fixture
def make_pair(make_tiny_model):
    """The network in bfloat16, and one in float32 with the same weights."""

    def make(family: str = "opt") -> tuple[BlockNetwork, BlockNetwork]:
        rounded = make_tiny_model(family, num_blocks=4)
        for parameter in rounded.parameters():
            parameter.data = parameter.data.bfloat16().float()
        narrow = BlockNetwork(make_tiny_model(family, num_blocks=4), LABELS, dtype=torch.bfloat16)
        return narrow, BlockNetwork(rounded, LABELS)

    return make


def directions_for(network: BlockNetwork, kind: str = "gaussian") -> Directions:
    return Directions(kind, network.shapes_M)


@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_scalars_have_the_bits_of_a_float32_network_with_those_weights(make_pair, family, inactive):
    narrow, wide = make_pair(family)
    before = narrow.weights_sha256()
    A_MN, rows = random_allocation(0, 4, 9), batches(9)
    for estimator in (estimate, estimate_cohort):
        ours, theirs = (
            estimator(network, rows, A_MN, SEEDS, directions_for(network), mu=MU, inactive=inactive)
            for network in (narrow, wide)
        )
        assert ours.rho_NQ.tobytes() == theirs.rho_NQ.tobytes()
        assert ours.loss_N.tobytes() == theirs.loss_N.tobytes()
        assert np.abs(ours.rho_NQ).max() > 0.1
    assert narrow.weights_sha256() == before


def test_exact_derivatives_and_gradients_too(make_pair, family):
    narrow, wide = make_pair(family)
    before = narrow.weights_sha256()
    A_MN, rows = random_allocation(1, 4, 3, 0.7), batches(3)
    ours, theirs = (
        estimate_jvp(network, rows, A_MN, SEEDS, directions_for(network)).rho_NQ for network in (narrow, wide)
    )
    assert ours.tobytes() == theirs.tobytes()
    ours_M, theirs_M = (gradient_cohort(network, rows).sum_M for network in (narrow, wide))
    assert all(torch.equal(*pair) for pair in zip(ours_M, theirs_M, strict=True))
    assert narrow.weights_sha256() == before


def test_a_copy_is_made_anew_when_the_weights_have_moved(make_pair):
    narrow, _ = make_pair()
    rows = batches(1)[0]
    with torch.no_grad():
        before = narrow(rows)
        narrow.block_weights(1).mul_(1.5)
        assert not torch.equal(narrow(rows), before)
        narrow.block_weights(1).div_(1.5)


def test_weights_embeddings_and_head_take_half_the_memory_and_a_last_norm_its_own(make_pair):
    narrow, wide = make_pair()
    ours, theirs = (dict(network.model.named_parameters()) for network in (narrow, wide))
    small = {name for name, parameter in ours.items() if parameter.dtype == torch.float32}
    assert small == {"model.decoder.final_layer_norm.weight", "model.decoder.final_layer_norm.bias"}
    assert all(torch.equal(ours[name].float(), theirs[name]) for name in ours)
    assert sum(p.nbytes for p in ours.values()) < 0.51 * sum(p.nbytes for p in theirs.values())


def test_a_saved_model_has_the_networks_weights(make_pair, tmp_path):
    narrow, _ = make_pair("llama")
    save_model(narrow, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    for name, parameter in narrow.model.named_parameters():
        assert torch.equal(parameter.float(), loaded.get_parameter(name))


def test_rounding_is_up_or_down_with_the_probability_of_the_share_of_the_way():
    count = 200_000
    bits = noise.rounding_bits(1, 2, 0, count)
    assert (bits.min().item(), bits.max().item()) == (0, 2**16 - 1)
    step = 2.0**-7  # between neighbouring bfloat16 numbers from 1 to 2
    for value, below in [(1 + 0.25 * step, 1.0), (-1 - 0.7 * step, -1 - step), (1.5 + 0.01 * step, 1.5)]:
        rounded = stochastically(torch.full((count,), value), bits).double()
        assert set(rounded.unique().tolist()) == {below, below + step}
        share = (value - below) / step
        assert (rounded.mean().item() - below) / step == pytest.approx(
            share, abs=5 * (share * (1 - share) / count) ** 0.5
        )


def test_what_needs_no_rounding_keeps_its_bits():
    values = torch.tensor([0.0, -0.0, 1.0, -3.5, 2.0**-130, torch.inf, -torch.inf])
    for first in range(0, 70_000, 7):
        rounded = stochastically(values, noise.rounding_bits(3, 0, first, first + 7))
        assert torch.equal(rounded.float(), values)
    assert stochastically(torch.tensor([torch.nan]), torch.tensor([2**16 - 1], dtype=torch.int32)).isnan().all()


def test_small_updates_add_up_in_the_mean_where_the_nearest_number_loses_them_all():
    size, rounds = 5000, 300
    start, step = torch.full((size,), 0.5, dtype=torch.bfloat16), torch.ones(size)
    ends = {}
    for kind in ("stochastic", "nearest"):
        weights = start.clone()
        for t in range(1, rounds + 1):
            subtract(weights, step, 1e-5, 3, rounding_of(TrainSettings(dtype="bfloat16", rounding=kind), t))
        ends[kind] = weights.double()
    assert torch.equal(ends["nearest"], start.double())
    # A weight's rounding is a random walk of steps of 2**-9: known mean, known spread.
    spread = (rounds * 1e-5 * 2.0**-9) ** 0.5
    assert ends["stochastic"].mean().item() == pytest.approx(0.5 - rounds * 1e-5, abs=5 * spread / size**0.5)
    assert ends["stochastic"].std().item() == pytest.approx(spread, rel=0.1)


def test_rounding_differs_between_rounds_blocks_and_runs_and_is_not_the_directions_noise():
    settings = TrainSettings(dtype="bfloat16")
    seeds = [rounding_of(settings, 1).seed, rounding_of(settings, 2).seed, rounding_of(TrainSettings(seed=1), 1).seed]
    drawn = [noise.rounding_bits(seed, block, 0, 20_000).double() for seed in seeds for block in (0, 1)]
    drawn.append(noise.normals(seeds[0], 0, 0, 20_000).double())
    correlation = np.corrcoef(torch.stack(drawn).numpy()) - np.eye(len(drawn))
    assert np.abs(correlation).max() < 5 / 20_000**0.5
    assert rounding_of(settings, 2) == rounding_of(TrainSettings(dtype="bfloat16"), 2)


def test_weights_far_beyond_a_piece_are_rounded_as_element_by_element():
    size = 2**17 + 1000
    start = Directions("gaussian", [size]).block(5, 0)
    whole, parts = start.bfloat16(), start.bfloat16()
    subtract(whole, start, 1e-3, 2, ROUNDING)
    moved = parts.float() - start * torch.tensor(1e-3)
    bits = torch.cat([noise.rounding_bits(ROUNDING.seed, 2, at, min(at + 999, size)) for at in range(0, size, 999)])
    assert torch.equal(whole, stochastically(moved, bits))


CHILD = """
import hashlib, torch
from tests.tiny_models import tiny_model
from tests.engine.test_bfloat16 import updated
print(updated(tiny_model))
"""


def updated(make_tiny_model) -> str:
    network = BlockNetwork(make_tiny_model("opt", num_blocks=4), LABELS, dtype=torch.bfloat16)
    rho_bar_MQ = np.linspace(-1, 1, 8).reshape(4, 2)
    for t in (1, 2):
        rounding = rounding_of(TrainSettings(dtype="bfloat16"), t)
        update_blocks(network, rho_bar_MQ, SEEDS, directions_for(network), 1e-3, rounding)
    return hashlib.sha256("".join(network.weights_sha256()).encode()).hexdigest()


@pytest.mark.slow
def test_another_process_rounds_to_the_same_bits(make_tiny_model, root):
    command = [sys.executable, "-c", CHILD]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert answer.stdout.split()[-1] == updated(make_tiny_model)


def test_an_update_that_is_not_told_how_to_round_is_a_mistake(make_pair):
    narrow, wide = make_pair()
    with pytest.raises(ValueError, match="say how an update is rounded"):
        update_blocks(narrow, np.ones((4, 2)), SEEDS, directions_for(narrow), 1e-3)
    update_blocks(wide, np.ones((4, 2)), SEEDS, directions_for(wide), 1e-3)


def test_rounding_belongs_to_bfloat16():
    with pytest.raises(InvalidInputError, match="rounding is nearest and dtype is float32"):
        TrainSettings(rounding="nearest")
    assert TrainSettings(dtype="bfloat16", precision="bf16").rounding == "stochastic"
