from __future__ import annotations

import numpy as np
import pytest
import torch

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.methods.zorba import average_per_block
from zorba_core.engine.update import update_blocks

# Blocks 0, 1, 2, 3 are activated by clients {0, 1, 2}, {0}, {1, 2} and nobody.
A_MN = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 1], [0, 0, 0]], dtype=bool)
RHO_NQ = np.array([[3.0, 30.0], [6.0, 60.0], [12.0, -12.0]])


def test_each_block_averages_the_clients_that_activate_it():
    expected_MQ = [
        [(3 + 6 + 12) / 3 / 2, (30 + 60 - 12) / 3 / 2],
        [3 / 2, 30 / 2],
        [(6 + 12) / 2 / 2, (60 - 12) / 2 / 2],
        [0, 0],
    ]
    assert average_per_block(RHO_NQ, A_MN) == pytest.approx(np.array(expected_MQ))


def test_a_client_that_did_not_report_counts_neither_above_nor_below():
    rho_NQ = RHO_NQ.copy()
    rho_NQ[0] = np.nan
    expected_MQ = [[9 / 2, 24 / 2], [0, 0], [9 / 2, 24 / 2], [0, 0]]
    rho_bar_MQ = average_per_block(rho_NQ, A_MN, reported_N=np.array([False, True, True]))
    assert rho_bar_MQ == pytest.approx(np.array(expected_MQ))


def test_averaging_changes_none_of_its_inputs():
    rho_NQ, A = RHO_NQ.copy(), A_MN.copy()
    average_per_block(rho_NQ, A, np.array([True, False, True]))
    assert np.array_equal(rho_NQ, RHO_NQ)
    assert np.array_equal(A, A_MN)


def test_blocks_move_along_the_directions_and_a_block_without_reports_stays(make_tiny_model):
    network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
    directions = Directions("gaussian", network.sizes_M, dtype=torch.float64)
    before_M = [network.block_weights(m).clone() for m in range(3)]
    rho_bar_MQ = np.array([[0.5, -2.0], [0.0, 0.0], [1.0, 0.0]])
    update_blocks(network, rho_bar_MQ, [8, 9], directions, lr=0.1)
    moved_0 = -0.1 * (0.5 * directions.block(8, 0) - 2.0 * directions.block(9, 0))
    assert torch.allclose(network.block_weights(0) - before_M[0], moved_0, atol=1e-12)
    assert torch.equal(network.block_weights(1), before_M[1])
    assert torch.allclose(network.block_weights(2) - before_M[2], -0.1 * directions.block(8, 2), atol=1e-12)
