"""DeComFL (Li et al., 2024): shared directions and scalars as in ZorBA, and every client trains every block.

With a_mn = 1 for all m and n, c_m is N, and eq. (1) and (2) of :mod:`zorba_core.engine.methods.zorba` become

    rho[n, q] = (F_n(w + mu v_q) - F_n(w)) / mu
    w <- w - lr (1/N) sum_n (1/Q) sum_q rho[n, q] v_q        over the N clients that reported

So the whole model has one average a direction, and no allocation.
"""

from __future__ import annotations

from zorba_core.engine.methods.zorba import ZorBA


class DeComFL(ZorBA):
    """ZorBA's report and update, for a matrix A of ones."""

    name, title = "decomfl", "DeComFL"
    help = "shared directions, all blocks, exchanges scalars"
    default_directions = 1
    allocates = False
