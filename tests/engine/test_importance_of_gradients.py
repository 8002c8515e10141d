"""Energies and noises read of scalars, against those of the clients' exact gradients."""

from __future__ import annotations

import numpy as np
import torch

from tests.engine.test_cohort import batches
from zorba_core.allocation import AllocationProblem, solve
from zorba_core.allocation.importance import ScalarRound, importance_of
from zorba_core.allocation.varied import varied
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.methods.first_order import gradient_reference
from zorba_core.engine.network import BlockNetwork


def test_scalars_alone_say_what_the_gradients_energies_and_noises_are(make_tiny_model):
    M, N, Q = 6, 7, 60
    network = BlockNetwork(make_tiny_model("opt", num_blocks=M), [70, 71, 72], dtype=torch.float64)
    batches_N = batches(N)
    gradient_NM = [gradient_reference(network, [batch]).sum_M for batch in batches_N]
    product_MNN = np.array(
        [[[float(gradient_NM[n][m] @ gradient_NM[k][m]) for k in range(N)] for n in range(N)] for m in range(M)]
    )
    own_M = np.einsum("mnn->m", product_MNN) / N
    energy_M = (product_MNN.sum(axis=(1, 2)) - own_M * N) / (N * (N - 1))
    # As many blocks for each: gradients of fixed rows differ by client, and who has more blocks would count for more.
    plain = solve(AllocationProblem([3] * N, M)).allocation
    directions = Directions("gaussian", network.sizes_M, dtype=torch.float64)
    rounds = []
    for t in range(1, 31):
        A_MN = varied(plain, "permute", 0, t).A_MN
        seeds_Q = np.arange(t * Q, (t + 1) * Q, dtype=np.uint32)
        rho_NQ = estimate_exact(network, batches_N, A_MN, seeds_Q, directions).rho_NQ
        rounds.append(ScalarRound(A_MN, rho_NQ, np.ones(N, bool)))
    read = importance_of(rounds)
    assert read.identifiable_M.all()
    assert np.abs(read.energy_M - energy_M).max() < 0.15 * own_M.max()
    assert np.abs(read.energy_M + read.noise_M - own_M).max() < 0.15 * own_M.max()
    assert np.corrcoef(read.energy_M + read.noise_M, own_M)[0, 1] > 0.95
    wide = read.energy_high_M - read.energy_low_M
    assert (np.abs(read.energy_M - energy_M) <= 2 * wide + 0.05 * own_M.max()).all()
