"""A model that stays in its files, block after block, against the same model in memory: the same bits."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.engine.test_cohort import LABELS, MU, SEEDS, batch, batches, random_allocation
from tests.engine.test_families import CASES
from zorba_core.engine import along
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.block_major import estimate_block_major
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.network import BlockNetwork
from zorba_core.errors import InvalidInputError
from zorba_core.runs.streaming.network import StreamedNetwork, skeleton
from zorba_core.runs.streaming.tensor_files import INDEX, TensorFiles, paths_in


@pytest.fixture
def both_networks(tmp_path):
    """The same weights in memory and in files."""

    def make(model, shards=None, label_ids=LABELS, **options):
        folder = tmp_path / f"model-{len(list(tmp_path.iterdir()))}"
        model.save_pretrained(folder, **({} if shards is None else {"max_shard_size": shards}))
        streamed = StreamedNetwork(skeleton(model.config), TensorFiles(paths_in(folder)), label_ids, **options)
        whole = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        return BlockNetwork(whole, label_ids, dtype=options.get("dtype", torch.float32)), streamed

    return make


def rounds(network, estimator, A_MN, rows, count=2, inactive="frozen", kind="gaussian", scale_M=()):
    """Scalars of each round, and the weights' fingerprint after the last."""
    directions, scalars = Directions(kind, network.shapes_M, dtype=network.dtype, scale_M=scale_M), []
    for t in range(count):
        seeds = [seed - t for seed in SEEDS] + [7 + t]
        done = estimator(network, rows, A_MN, seeds, directions, mu=MU, inactive=inactive)
        scalars += [done.rho_NQ, done.loss_N[:, None]]
        update_blocks(network, np.repeat(done.rho_NQ[:1], network.num_blocks, 0), seeds, directions, 1e-2)
    return np.concatenate(scalars, axis=1), network.weights_sha256()


def assert_same_bits(one, other):
    assert np.array_equal(one[0], other[0])
    assert one[1] == other[1]
    assert np.abs(one[0]).max() > 0.1


@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_every_family_has_the_cohorts_bits(family, make_tiny_model, both_networks, inactive):
    whole, streamed = both_networks(make_tiny_model(family, num_blocks=4))
    A_MN = random_allocation(0, 4, 9)
    assert streamed.weights_sha256() == whole.weights_sha256()
    expected = rounds(whole, estimate_cohort, A_MN, batches(9), inactive=inactive)
    assert_same_bits(rounds(streamed, estimate_block_major, A_MN, batches(9), inactive=inactive), expected)


@pytest.mark.parametrize("case", ["gpt-neox", "mistral windows", "phi", "falcon", "bloom", "gemma", "gemma2"])
def test_families_by_their_own_forward_pass(both_networks, case):
    model = CASES[case]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)), alpha=0.2)
    whole, streamed = both_networks(model.eval(), label_ids=[11, 90, 3])
    rows = [batch(torch.Generator().manual_seed(n), 4, 7, vocabulary=120) for n in range(4)]
    expected = rounds(whole, estimate_cohort, random_allocation(0, 3, 4), rows, count=1)
    assert_same_bits(rounds(streamed, estimate_block_major, random_allocation(0, 3, 4), rows, count=1), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["rademacher", "gaussian", "sphere"])
def test_every_kind_of_direction_and_dtype(make_tiny_model, both_networks, dtype, kind):
    whole, streamed = both_networks(make_tiny_model("llama"), dtype=dtype)
    A_MN, rows = random_allocation(1, 3, 5, 0.6), batches(5, rows=(1, 3, 8), lengths=(3, 9))
    expected = rounds(whole, estimate_cohort, A_MN, rows, kind=kind)
    assert_same_bits(rounds(streamed, estimate_block_major, A_MN, rows, kind=kind), expected)


@pytest.mark.parametrize("kind", ["rademacher", "gaussian"])
def test_blocks_with_lengths_of_their_own(make_tiny_model, both_networks, kind):
    whole, streamed = both_networks(make_tiny_model("opt"))
    A_MN, how = random_allocation(1, 3, 5, 0.6), {"kind": kind, "scale_M": (1.0, 2.5, 0.3)}
    expected = rounds(whole, estimate_cohort, A_MN, batches(5), **how)
    assert_same_bits(rounds(streamed, estimate_block_major, A_MN, batches(5), **how), expected)


@pytest.mark.parametrize("least_width", [0, 10**6])
def test_low_rank_directions_whether_weights_are_moved_or_not(make_tiny_model, both_networks, monkeypatch, least_width):
    monkeypatch.setattr(along, "LEAST_WIDTH_CPU", least_width)
    whole, streamed = both_networks(make_tiny_model("gpt2", num_blocks=4))
    A_MN, rows = random_allocation(1, 4, 6, 0.6), batches(6, rows=(1, 3, 8), lengths=(3, 9))
    expected = rounds(whole, estimate_cohort, A_MN, rows, kind="low-rank")
    assert_same_bits(rounds(streamed, estimate_block_major, A_MN, rows, kind="low-rank"), expected)


@pytest.mark.parametrize("hidden_bytes", [1, 8_000, None])
@pytest.mark.parametrize("prefetch", [True, False])
def test_few_hidden_states_at_a_time_give_the_same_bits(make_tiny_model, both_networks, hidden_bytes, prefetch):
    whole, streamed = both_networks(make_tiny_model("opt"), hidden_bytes=hidden_bytes, prefetch=prefetch)
    A_MN = np.ones((3, 4), dtype=bool)
    expected = rounds(whole, estimate_cohort, A_MN, batches(4))
    assert_same_bits(rounds(streamed, estimate_block_major, A_MN, batches(4)), expected)
    rows = batch(torch.Generator().manual_seed(3), 150, 12)
    assert evaluate(streamed, rows, 16) == evaluate(whole, rows, 16)


def test_several_files_of_half_precision_and_a_tied_head(make_tiny_model, both_networks, tmp_path):
    model = make_tiny_model("opt").to(torch.bfloat16)
    whole, streamed = both_networks(model, shards="20KB")
    assert model.config.tie_word_embeddings
    assert len(json.loads(next(tmp_path.glob(f"*/{INDEX}")).read_text())["weight_map"]) > 3
    A_MN = random_allocation(2, 3, 6, 0.6)
    expected = rounds(whole, estimate_cohort, A_MN, batches(6))
    assert_same_bits(rounds(streamed, estimate_block_major, A_MN, batches(6)), expected)


def test_the_exchanged_loops_have_the_cohorts_bits_in_memory_too(make_tiny_model):
    A_MN, rows = random_allocation(3, 5, 8), batches(8)
    results = []
    for estimator in (estimate_cohort, estimate_block_major):
        network = BlockNetwork(make_tiny_model("gpt2", num_blocks=5), LABELS)
        results.append(rounds(network, estimator, A_MN, rows))
    assert_same_bits(*results)


def test_a_saved_model_is_that_of_the_network_in_memory(family, make_tiny_model, both_networks, tmp_path):
    whole, streamed = both_networks(make_tiny_model(family))
    rounds(streamed, estimate_block_major, np.ones((3, 2), dtype=bool), batches(2))
    streamed.save(tmp_path / "saved")
    again = BlockNetwork(AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype=torch.float32), LABELS)
    assert again.weights_sha256() == streamed.weights_sha256() != whole.weights_sha256()


def test_one_block_is_held_and_what_is_written_into_it_is_forgotten(make_tiny_model, both_networks):
    whole, streamed = both_networks(make_tiny_model("opt"))
    for m in range(3):
        streamed.block_weights(m).zero_()
    assert torch.equal(streamed.block_weights(0), whole.block_weights(0))
    assert (
        streamed.block_module(1).fc1.weight.data_ptr()
        == streamed.block_weights(1)[4 * (16 * 16 + 16) + 32 :].data_ptr()
    )
    assert torch.isnan(next(streamed._blocks[0].parameters())).all()  # holds nothing
    streamed.store.close()


def test_a_file_without_a_weight_is_refused_by_its_name(make_tiny_model, tmp_path):
    model = make_tiny_model("opt", num_blocks=2)
    model.save_pretrained(tmp_path)
    config = make_tiny_model("opt", num_blocks=3).config
    with pytest.raises(InvalidInputError, match=r"no model\.decoder\.layers\.2\."):
        StreamedNetwork(skeleton(config), TensorFiles(paths_in(tmp_path)), LABELS)
