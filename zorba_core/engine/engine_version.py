"""Which engine made a run: the number grows whenever one and the same config ends with other bits.

Runs of different numbers are not to be compared seed by seed, and a run that is resumed across them says so.

1. The last block attends from every position; what follows attention is computed at the label position.
2. The last block attends from the label position alone, as a step of generation does.

Answers that take more than eight paths of tokens stand as a tree since (zorba_core.engine.tree_rows), which rounds
otherwise. The number stayed: no experiment has such answers, and all others kept their bits.

Exact scalars (``estimator = "exact"``) have other last bits, about 1e-7 of rho, since directions are looked up side by
side, and again since up to 128 of them are and a share's clients are multiplied together. The number stayed: such runs
are replayed from their logged scalars and compared by their accuracy over seeds. They have other last bits once more
since norms are made again and pieces have other sizes (twice), and since OPT's and GPT-2's blocks are written out.

Root-mean-square norms compute in float64 where the run does: float64 runs of Llama and its like have other bits in the
eighth place. GPT-2's GELU is one operation, and its products are oneDNN's where a linear layer's are: GPT-2 and its
like have other last bits. The number stayed: no experiment is one.
"""

ENGINE_VERSION = 2
