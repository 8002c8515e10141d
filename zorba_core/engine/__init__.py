"""Federated zeroth-order fine-tuning in one process: the network, directions, estimators, methods and the round loop.

This room imports torch. The names below load when first used, so importing the package alone costs nothing.
"""

from __future__ import annotations

from zorba_core.lazy import names_on_demand

_HOME = {
    "BlockNetwork": "network",
    "Callback": "callbacks",
    "Directions": "directions",
    "ENGINE_VERSION": "engine_version",
    "Estimate": "estimators.reference",
    "Evaluation": "evaluation",
    "FederatedRows": "rounds",
    "Outcome": "loop",
    "Progress": "callbacks",
    "RoundRecord": "callbacks",
    "RoundResult": "rounds",
    "TrainSettings": "settings",
    "TrainState": "rounds",
    "average_per_block": "aggregation",
    "estimate": "estimators.reference",
    "estimate_cohort": "estimators.cohort",
    "estimate_jvp": "estimators.jvp",
    "evaluate": "evaluation",
    "init": "loop",
    "run": "loop",
    "step": "loop",
    "update_blocks": "aggregation",
}

__all__ = [*_HOME]
__getattr__, __dir__ = names_on_demand(__name__, _HOME)
