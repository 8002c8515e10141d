"""Federated zeroth-order fine-tuning in one process: the network, directions, estimators, methods and the round loop.

Where the paper is: eq. (1) in ``estimators/reference``, eq. (2) in ``aggregation``, Algorithm 3 in ``loop``.

The room computes with torch. The names below load when first used, so importing the package alone costs nothing.
"""

from __future__ import annotations

from zorba_core.lazy import names_on_demand

# Which engine made a run: the number grows whenever one and the same config ends with other bits. Runs of different
# numbers are not to be compared seed by seed, and a run that is resumed across them says so.
#
# 1. The last block attends from every position; what follows attention is computed at the label position.
# 2. The last block attends from the label position alone, as a step of generation does.
# 3. Every product on the CPU is PyTorch's: attention of short rows and exact scalars no longer use NumPy's or oneDNN's.
#
# The number stays where no experiment is concerned, and where exact scalars are added in another order: such runs are
# replayed from their logged scalars and compared by their accuracy over seeds.
ENGINE_VERSION = 3

_HOME = {
    "Blocks": "blocks",
    "DIRECTIONS": "parts",
    "DirectionKind": "parts",
    "Directions": "directions",
    "ESTIMATORS": "parts",
    "Estimate": "estimators.reference",
    "Estimator": "parts",
    "METHODS": "parts",
    "Method": "methods.interface",
    "MethodFacts": "parts",
    "Round": "round",
    "Rows": "rows",
    "ScalarMethod": "methods.interface",
    "Settings": "settings",
    "estimate": "estimators.reference",
    "evaluate": "evaluation",
}

__all__ = ["ENGINE_VERSION", *_HOME]
__getattr__, __dir__ = names_on_demand(__name__, _HOME)
