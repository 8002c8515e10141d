"""What noise an allocation causes, by derivation: coupled noise E and direction coupling D.

With shared directions the estimate of a block mixes in what each of its clients measured along that client's other
blocks. For c_{m,m'} the number of clients that activate both blocks and k_n the blocks of client n,

    E||g_m||^2 ~ (d_m / Q) sum_m' [ (c_{m,m'} / c_m)^2 ||g_m'||^2 + (c_{m,m'} / c_m^2) s^2 ].

Shapes: M blocks, N clients. ``A_MN`` bool.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import AllocationMetrics

METRIC_NAMES = ("lambda", "V", "E", "D", "inverse_N_eff", "inverse_T", "inverse_min_c")


def coupled_noise(A_MN: NDArray[np.bool_]) -> float:
    """E = (1/M) sum_m (1/c_m^2) sum over clients n of block m of k_n: M/N for every balanced allocation. Blocks that
    nobody activates are left out of the mean."""
    weight_MN = A_MN.astype(float)
    popularity_M, held_N = weight_MN.sum(axis=1), weight_MN.sum(axis=0)
    used_M = popularity_M > 0
    return float(((weight_MN @ held_N)[used_M] / popularity_M[used_M] ** 2).mean())


def direction_coupling(A_MN: NDArray[np.bool_]) -> float:
    """D = (1/M) sum_m sum_m' (c_{m,m'} / c_m)^2: M for full activation, 1 for one block a client. Blocks that nobody
    activates are left out of the mean."""
    weight_MN = A_MN[A_MN.any(axis=1)].astype(float)
    both_MM = weight_MN @ weight_MN.T
    return float(np.square(both_MM / weight_MN.sum(axis=1)[:, None]).sum(axis=1).mean())


def allocation_measures(allocation: AllocationMetrics) -> dict[str, float]:
    """Every number that might predict convergence, each the smaller the better by its own theory. ``T``, ``N_eff`` and
    ``min_c`` stand beside their inverses. Infinite where a block has no client."""
    minimum = allocation.min_popularity
    return {
        "lambda": allocation.bias_lambda,
        "V": allocation.mean_inverse_popularity,
        "E": coupled_noise(allocation.A_MN),
        "D": direction_coupling(allocation.A_MN),
        "N_eff": allocation.effective_clients,
        "T": allocation.total_blocks,
        "min_c": minimum,
        "inverse_N_eff": 1.0 / allocation.effective_clients,
        "inverse_T": 1.0 / allocation.total_blocks,
        "inverse_min_c": 1.0 / minimum if minimum else float("inf"),
    }
