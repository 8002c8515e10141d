"""The centred loss: log-probabilities of the label words minus their mean over the client's batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.engine.forward_mode import estimate_jvp
from tests.engine.test_cohort import SEEDS, batches, random_allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.reference import batch_loss, estimate
from zorba_core.engine.methods.fedit import mean_gradient
from zorba_core.engine.rows import Rows

CENTRED = [batch.centred() for batch in batches(5)]


@pytest.fixture
def network(make_tiny_model) -> Blocks:
    return Blocks(make_tiny_model("opt", activation="gelu"), dtype=torch.float64)


class _Scores:
    """A network whose scores of the label words are given, minus a constant that all rows share."""

    vocabulary_size = 3

    def __init__(self, score_EC: torch.Tensor, shared_C: torch.Tensor) -> None:
        self.score_EC = score_EC + shared_C

    def vocabulary_logits(self, hidden_SH, token_ids_V):
        return self.score_EC


def test_the_loss_is_the_cross_entropy_of_log_probabilities_minus_their_mean_over_the_batch(network):
    batch = CENTRED[0]
    score_EC = network.vocabulary_logits(network(batch)[:, 0], batch.words_C)
    log_p_EC = score_EC.log_softmax(1)
    centred_EC = (log_p_EC - log_p_EC.mean(0)).log_softmax(1)
    expected = -centred_EC[torch.arange(len(batch)), batch.label_E].mean()
    assert batch_loss(network, batch) == pytest.approx(float(expected), rel=1e-12)


def test_a_preference_that_all_rows_share_changes_no_loss():
    batch = CENTRED[0]
    score_EC, final = torch.randn(4, 3, dtype=torch.float64), torch.zeros(4, 1, 2)
    plain, tilted = (
        batch.losses(_Scores(score_EC, torch.tensor(shared, dtype=torch.float64)), final)
        for shared in ([0.0, 0.0, 0.0], [5.0, -3.0, 0.1])
    )
    assert torch.allclose(plain, tilted, atol=1e-12)


@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_all_three_estimators_agree_on_it(network, inactive):
    A_MN, directions = random_allocation(3, 3, 5, 0.6), Directions("rademacher", network.shapes_M, dtype=torch.float64)
    call = (network, CENTRED, A_MN, SEEDS, directions)
    reference = estimate(*call, mu=1e-3, inactive=inactive)
    cohort = estimate_cohort(*call, mu=1e-3, inactive=inactive)
    forward_mode, exact = (each(*call, inactive=inactive) for each in (estimate_jvp, estimate_exact))
    assert np.abs(reference.rho_NQ).max() > 0.1
    assert cohort.rho_NQ == pytest.approx(reference.rho_NQ, rel=1e-9, abs=1e-10)
    assert exact.rho_NQ == pytest.approx(forward_mode.rho_NQ, rel=1e-9, abs=1e-12)
    assert exact.loss_N == pytest.approx(reference.loss_N, rel=1e-10)


def test_fedit_takes_the_gradient_of_the_same_loss(network):
    """Finite differences along the mean gradient give its squared length."""
    gradient_M, loss_N, _ = mean_gradient(network, CENTRED[:2])
    square = sum(float(gradient.square().sum()) for gradient in gradient_M)
    before = np.mean([batch_loss(network, batch) for batch in CENTRED[:2]])
    for m, gradient in enumerate(gradient_M):
        network.block_weights(m).add_(gradient, alpha=1e-6)
    after = np.mean([batch_loss(network, batch) for batch in CENTRED[:2]])
    assert loss_N.mean() == pytest.approx(before)
    assert (after - before) / 1e-6 == pytest.approx(square, rel=1e-3)


def test_a_batch_of_one_row_has_no_gradient(network):
    one = CENTRED[0].rows([0])
    directions = Directions("rademacher", network.shapes_M, dtype=torch.float64)
    exact = estimate_exact(network, [one], np.ones((3, 1)), SEEDS, directions)
    assert exact.loss_N == pytest.approx(math.log(3))
    assert np.abs(exact.rho_NQ).max() < 1e-12


def test_a_batch_of_one_label_has_a_gradient_but_none_towards_its_label():
    """Its rows learn to differ from each other, and the label that they share gains nothing."""
    batch = CENTRED[0]
    batch = Rows(**{**batch.tensors(), "label_E": torch.zeros_like(batch.label_E)})
    score_EC = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    batch.losses(_Scores(score_EC, torch.zeros(3)), torch.zeros(4, 1, 2)).sum().backward()
    assert score_EC.grad.abs().max() > 1e-3
    assert score_EC.grad.sum(0).abs().max() < 1e-12


def test_joined_rows_are_centred_batch_by_batch(network):
    joined = Rows.joined(CENTRED)
    of_clients = [batch_loss(network, batch) * len(batch) for batch in CENTRED]
    assert float(joined.losses(network, network(joined)).sum()) == pytest.approx(sum(of_clients), rel=1e-10)
