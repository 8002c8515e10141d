"""What Lambda does not include: shared directions couple the blocks of a client.

With directions v_q (E[v v'] = I) the estimate of block m is h_m v_m with h_m = sum_n (a_mn / c_m) rho_n, where rho_n is
the sum of <g_nm', v_m'> over all blocks m' of client n. Let g_n = g + xi_n with independent xi_n of variance s^2 a
block, d_m the size of block m, and c_mm' the number of clients that activate both blocks. Then

    E ||g^_m||^2 = (d_m / Q) sum_m' [ (c_mm' / c_m)^2 ||g_m'||^2 + (c_mm' / c_m^2) s^2 ]   (Q = 1: exact; else leading).

The two sums, averaged over blocks for equal gradients, are D (:func:`direction_coupling`) and E
(:func:`coupled_noise`).

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import numpy as np

from zorba_core.allocation import Allocation


def coupled_noise(allocation: Allocation) -> float:
    """E = (1/M) sum_m (1/c_m^2) sum_{n activates m} k_n, k_n the blocks of client n: the factor of the mini-batch noise
    that a block's estimate gets from all blocks of its clients.

    M/N if all popularities are equal and all clients have equally many blocks; large if unpopular blocks are on few
    clients with many blocks. Infinite with an empty block. O(M N).
    """
    if allocation.min_popularity == 0:
        return float("inf")
    noise_M = (allocation.A_MN @ allocation.blocks_held_N) / allocation.popularity_M.astype(float) ** 2
    return float(noise_M.mean())


def direction_coupling(allocation: Allocation) -> float:
    """D = (1/M) sum_m sum_m' (c_mm' / c_m)^2: the number of blocks whose gradients are in a block's estimate.

    M if every client activates every block, 1 if each activates one. The average over clients does not lower it,
    because they share the directions. Infinite with an empty block. O(M^2 N).
    """
    if allocation.min_popularity == 0:
        return float("inf")
    columns = allocation.A_MN.astype(np.float32)  # counts are exact up to 2**24 clients
    shared_MM = (columns @ columns.T).astype(np.float64)
    return float(np.square(shared_MM / allocation.popularity_M[:, None]).sum() / allocation.num_blocks)
