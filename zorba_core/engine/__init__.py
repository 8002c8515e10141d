"""Federated zeroth-order fine-tuning in one process: the network, directions, estimators, methods and the round loop.

Equations (1) and (2) of the paper are in ``methods/zorba``, Algorithm 3 in ``loop``.

The names below are imported when they are first used, so the import of the package loads no torch.
"""

from __future__ import annotations

from zorba_core.lazy import names_on_demand

# Part of every run's config. The number grows when the same config gives other bits: runs of different numbers must not
# be compared seed by seed, and a resumed run reports the change.
#
# 1. The last block attends from every position; after attention only the label position is computed.
# 2. The last block attends from the label position alone, like a step of generation.
# 3. PyTorch computes every product on the CPU: attention of short rows and exact scalars no longer use NumPy or oneDNN.
#
# The number does not grow for a change that affects no experiment, nor for another order of summation of exact scalars:
# such runs are replayed from their logged scalars, and compared by their accuracy over seeds.
ENGINE_VERSION = 4

_HOME = {
    "AVERAGES": "parts",
    "Average": "parts",
    "Blocks": "blocks",
    "DIRECTIONS": "parts",
    "DirectionKind": "parts",
    "Directions": "directions",
    "ESTIMATORS": "parts",
    "Estimate": "estimators.reference",
    "Estimator": "parts",
    "METHODS": "parts",
    "Method": "methods.interface",
    "Round": "round",
    "Rows": "rows",
    "Settings": "settings",
    "Step": "round",
    "ZorBA": "methods.zorba",
    "estimate": "estimators.reference",
    "evaluate": "evaluation",
    "per_block": "averages",
}

__all__ = ["ENGINE_VERSION", *_HOME]
__getattr__, __dir__ = names_on_demand(__name__, _HOME)
