"""What clients that share directions and weights do to the noise of the aggregate; nothing of it shows in Lambda.

Every client perturbs with the same directions v_q (E[v v'] = I), so the estimate of block m is h_m v_m with
h_m = sum_n (a_mn / c_m) rho_n, and rho_n sums <g_nm', v_m'> over all blocks m' that client n activates. Then, with
g_n = g + xi_n, independent xi_n of variance s^2 a block, and d_m the size of block m,

    E ||g^_m||^2 = (d_m / Q) sum_m' [ (c_mm' / c_m)^2 ||g_m'||^2 + (c_mm' / c_m^2) s^2 ]   (Q = 1: exact; else leading),

where c_mm' counts the clients that activate both blocks. The two sums, averaged over blocks for equal gradients, are
the two numbers below.

Shapes: M blocks, N clients. ``A_MN`` bool, rows are blocks; ``shared_MM`` int64, c_mm'.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.measures import popularity


def direction_coupling(A_MN: NDArray[np.bool_]) -> float:
    """D = (1/M) sum_m sum_m' (c_mm' / c_m)^2: how many blocks' directions a block's estimate carries.

    M when every client activates every block, 1 when each activates one. Averaging over clients does not lower it,
    since they share the directions. Infinite with an empty block. O(M^2 N).
    """
    popularity_M = popularity(A_MN)
    if popularity_M.min() == 0:
        return float("inf")
    columns = A_MN.astype(np.float32)  # counts are exact up to 2**24 clients
    shared_MM = (columns @ columns.T).astype(np.float64)
    return float(np.square(shared_MM / popularity_M[:, None]).sum() / len(popularity_M))


def coupled_noise(A_MN: NDArray[np.bool_]) -> float:
    """E = (1/M) sum_m (1/c_m^2) sum_{n activates m} k_n, k_n the blocks of client n: how much mini-batch noise of all
    its clients' blocks enters a block.

    M/N for every allocation whose popularities and numbers of blocks are each equal; large where few clients with many
    blocks carry scarce ones. Infinite with an empty block. O(M N).
    """
    popularity_M = popularity(A_MN)
    if popularity_M.min() == 0:
        return float("inf")
    held_N = A_MN.sum(axis=0, dtype=np.int64)
    return float(((A_MN @ held_N) / popularity_M.astype(float) ** 2).mean())
