"""The words of the dashboard, for readers new to the field."""

from __future__ import annotations

import streamlit as st

_TABLE = r"""
| word | symbol | meaning |
| --- | --- | --- |
| client | *n* of *N* | one participant with a GPU and data of its own |
| block | *m* of *M* | one transformer layer; the unit that is trained or kept frozen |
| activated | $a_{m,n} = 1$ | client *n* trains block *m* |
| popularity | $c_m = \sum_n a_{m,n}$ | how many clients train block *m* |
| least popularity | $\underline{c}_n$ | the smallest popularity among client *n*'s blocks |
| convergence bias | $\Lambda = \sum_n 1/\underline{c}_n^2$ | its error bound grows with it; training: undecided |
| mean inverse popularity | $V = \frac{1}{M}\sum_m 1/c_m$ | how unequal clients' weights in the blocks' averages are |
| effective clients | $N_{\mathrm{eff}}$ | how many equal clients would weigh on the result as these do |
| coupled noise | $E$ | mini-batch noise that a block gets from all blocks of its clients (page *Theory*) |
| direction coupling | $D$ | how many blocks' random directions a block's estimate carries (page *Theory*) |
| budget | $\lambda_n$ | whole blocks that fit into client *n*'s VRAM after the reduction |
| reduction | $\epsilon_n = \tau\,\psi_{\max,n}$ | VRAM held back on purpose; sampling it draws the points of the plot |
| γ\* | $\lfloor \frac{1}{M}\sum_n \min(\lambda_n, M) \rfloor$ | the largest least popularity that the budgets allow |
| Pareto front | | points where nothing uses less VRAM without more bias |
"""


def glossary() -> None:
    with st.expander("What the words mean", icon=":material/menu_book:"):
        st.markdown(_TABLE)
