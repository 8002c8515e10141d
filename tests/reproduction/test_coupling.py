"""D and E are what enumeration of every sign of directions and noise gives, not only what their formulas say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from notebooks.reproduction.coupling import coupled_noise, direction_coupling
from notebooks.reproduction.toy import enumerate_classes
from zorba_core.allocation import Allocation

CLASSES = enumerate_classes()


def signs(count):
    return itertools.product((-1.0, 1.0), repeat=count)


def mean_square_estimate(A_MN, gradient_NM):
    """E ||g^_m||^2 / d_m of the protocol itself, averaged over blocks: every sign vector v (one number a block), each
    client's rho, each block's mean over its clients."""
    M = len(A_MN)
    total = 0.0
    for v_M in map(np.array, signs(M)):
        rho_N = (A_MN.T * gradient_NM * v_M).sum(axis=1)
        total += np.square((A_MN * rho_N).sum(axis=1) / A_MN.sum(axis=1)).mean()
    return total / 2**M


def test_direction_coupling_is_the_square_of_the_estimate_when_every_gradient_is_one(subtests):
    for each_class in CLASSES:
        with subtests.test(each_class=each_class):
            A_MN = each_class.representative.A_MN
            assert direction_coupling(Allocation(A_MN)) == pytest.approx(
                mean_square_estimate(A_MN, np.ones(A_MN.T.shape))
            )


def test_coupled_noise_is_the_square_of_the_estimate_when_gradients_are_independent_noise(subtests):
    for each_class in CLASSES[::4]:
        with subtests.test(each_class=each_class):
            A_MN = each_class.representative.A_MN
            noises = [np.reshape(noise, A_MN.T.shape) for noise in signs(A_MN.size)]
            measured = np.mean([mean_square_estimate(A_MN, noise_NM) for noise_NM in noises])
            assert coupled_noise(Allocation(A_MN)) == pytest.approx(measured)


def test_generalists_that_carry_scarce_blocks_bring_noise_that_lambda_does_not_see():
    hub = np.zeros((12, 24), bool)
    hub[0] = True
    hub[1:, :4] = True
    even = np.zeros((12, 24), bool)
    even[(np.arange(24)[:, None] + np.arange(3)) % 12, np.arange(24)[:, None]] = True
    assert Allocation(hub).bias_lambda < Allocation(even).bias_lambda
    assert coupled_noise(Allocation(hub)) > 4 * coupled_noise(Allocation(even))


def test_a_block_without_a_client_has_no_finite_noise():
    unused = Allocation([[1, 1], [0, 0]])
    assert coupled_noise(unused) == direction_coupling(unused) == float("inf")
