"""Which engine made a run: the number grows whenever one and the same config ends with other bits.

Runs of different numbers are not to be compared seed by seed, and a run that is resumed across them says so.

1. The last block attends from every position; what follows attention is computed at the label position.
2. The last block attends from the label position alone, as a step of generation does.

The number stayed, since no experiment is concerned, when other last bits came of trees for answers of more than eight
paths (zorba_core.engine.tree_rows), of norms in float64 (Llama's float64 runs), of one operation for GPT-2's GELU and
oneDNN for its products, and of other lengths and kernels on CUDA devices. And when exact scalars (``estimator =
"exact"``) added in another order, several times: such runs are replayed from their logged scalars and compared by
their accuracy over seeds.
"""

ENGINE_VERSION = 2
