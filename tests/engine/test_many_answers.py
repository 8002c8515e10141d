"""Many answers in one row an example: the numbers of a row for each path, for a fraction of the positions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from tests.engine.test_families import CASES, VOCABULARY
from zorba_core.engine.choice_rows import ChoiceRows
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.reference import batch_loss, estimate
from zorba_core.engine.evaluation import evaluate, label_log_probabilities
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.row_kinds import answer_shape, from_tensors, to_tensors
from zorba_core.engine.tree_rows import ManyLabelRows, in_trees, packed

# 27 answers of three to five tokens that start alike by threes: nine paths.
ANSWERS = [(a, b, *(9,) * (a - 2), c) for a, b, c in itertools.product((2, 3, 4), (5, 6, 7), (2, 5, 8))]


def prompts(rows: int, seed: int) -> tuple[list[list[int]], np.ndarray]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 9, rows)
    return [rng.integers(2, VOCABULARY, length).tolist() for length in lengths], rng.integers(0, len(ANSWERS), rows)


def slow(rows: int, seed: int) -> ChoiceRows:
    texts, label_E = prompts(rows, seed)
    return ChoiceRows.of(texts, [ANSWERS] * rows, label_E, seq_len=20, pad_id=0).trimmed()


def many(rows: int, seed: int) -> ManyLabelRows:
    texts, label_E = prompts(rows, seed)
    return ManyLabelRows.of(texts, ANSWERS, label_E, 20, 0)


def network_of(family: str) -> BlockNetwork:
    model, generator = CASES[family]().eval(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, 0.25, generator=generator)
    return BlockNetwork(model, [], dtype=torch.float64)


@pytest.mark.parametrize("family", CASES)
def test_every_family_scores_answers_in_a_tree_as_path_by_path(family):
    network, rows = network_of(family), slow(4, 0)
    (tree,) = in_trees(network, [rows])
    assert (tree is rows) == (not network.lays_out)
    assert network.lays_out == (family not in ("bloom", "bloom norm passes", "falcon alibi"))
    if network.lays_out:
        with torch.no_grad():
            expected = rows.log_scores(network, network(rows))
            close = 1e-5 if family == "gemma2" else 1e-10  # its attention takes the softmax in float32
            assert torch.allclose(tree.log_scores(network, network(tree)), expected, rtol=close, atol=close)


@pytest.mark.parametrize("family", ["opt", "gpt2", "qwen3", "gemma3"])
@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_the_cohort_in_trees_is_the_reference_path_by_path(family, inactive):
    network = network_of(family)
    batches_N = [slow(2 + n % 2, n) for n in range(4)]
    A_MN = np.random.default_rng(1).random((network.num_blocks, 4)) < 0.6
    probe = (network, batches_N, A_MN, [4, 9], Directions("rademacher", network.sizes_M, dtype=torch.float64))
    reference = estimate(*probe, mu=1e-3, inactive=inactive)
    for max_rows in (None, 2):
        cohort = estimate_cohort(*probe, mu=1e-3, inactive=inactive, max_rows=max_rows)
        scale = max(np.abs(reference.rho_NQ).max(), 1)
        assert np.abs(cohort.rho_NQ - reference.rho_NQ).max() <= 1e-9 * scale


def test_a_client_gets_the_same_bits_alone_as_in_company():
    model, generator = CASES["opt"]().eval(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.25, generator=generator)
    network = BlockNetwork(model, [])
    batches_N = [slow(2 + n % 2, n) for n in range(4)]
    few = ChoiceRows.of([[7, 8, 9]] * 8, [[(2, 3), (4, 5)]] * 8, np.arange(8) % 2, seq_len=8, pad_id=0)
    batches_N.append(few)  # not worth a tree, beside the others
    directions = Directions("rademacher", network.sizes_M)
    A_MN = np.random.default_rng(1).random((network.num_blocks, 5)) < 0.7
    together = estimate_cohort(network, batches_N, A_MN, [4, 9], directions, mu=1e-3).rho_NQ
    for n, batch in enumerate(batches_N):
        alone = estimate_cohort(network, [batch], A_MN[:, [n]], [4, 9], directions, mu=1e-3).rho_NQ
        assert np.array_equal(alone[0], together[n])


def test_a_tree_runs_each_prompt_once_and_each_shared_token_once():
    rows = slow(3, 5)
    tree = packed(rows)
    shared = len({answer[:step] for answer in ANSWERS for step in range(1, len(answer))})
    longest = max(map(len, prompts(3, 5)[0]))
    assert tree.token_ids_RL.shape == (3, longest + shared)
    assert tree.token_ids_RL.numel() < rows.token_ids_RL.numel() / 2
    assert answer_shape(many(3, 5)).beside == shared


def test_rows_of_many_labels_are_kept_once_and_evaluated_as_their_paths():
    network, rows = network_of("opt"), many(9, 3)
    whole = slow(9, 3)
    assert rows.rows([4, 1]).trimmed().sha256() == whole.rows(np.array([4, 1])).trimmed().sha256()
    assert (len(rows), rows.length_E.tolist()) == (9, whole.length_E.tolist())
    assert rows.sequences_E.tolist() == whole.sequences_E.tolist()
    kept = ChoiceRows.of(prompts(9, 3)[0], [ANSWERS] * 9, prompts(9, 3)[1], seq_len=20, pad_id=0)
    assert from_tensors(to_tensors(rows)).sha256() == rows.sha256() == kept.sha256()
    expected = label_log_probabilities(network, whole)
    assert np.allclose(label_log_probabilities(network, rows, batch_size=4), expected, atol=1e-10)
    assert evaluate(network, rows, batch_size=4).loss == pytest.approx(batch_loss(network, whole), abs=1e-10)
