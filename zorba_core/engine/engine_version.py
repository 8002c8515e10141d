"""Which engine made a run: the number grows whenever one and the same config ends with other bits.

Runs of different numbers are not to be compared seed by seed, and a run that is resumed across them says so.

1. The last block attends from every position; what follows attention is computed at the label position.
2. The last block attends from the label position alone, as a step of generation does.

Answers that take more than eight paths of tokens stand as a tree since (zorba_core.engine.tree_rows), which rounds
otherwise. The number stayed: no experiment has such answers, and all others kept their bits.

Exact scalars are sums over smaller pieces of a block, of other clients together, since directions are looked up side by
side: their last bits are others (1e-7 of rho), those of every other estimator the same. The number stayed: a run by
exact scalars is replayed from the scalars in its log, and tables compare such runs by their accuracy over seeds.
"""

ENGINE_VERSION = 2
