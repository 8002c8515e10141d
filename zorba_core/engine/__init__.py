"""Federated zeroth-order fine-tuning in one process: the network, directions, estimators, methods and the round loop.

This room imports torch. The names below load when first used, so importing the package alone costs nothing.
"""

from __future__ import annotations

from zorba_core.lazy import names_on_demand

_HOME = {
    "Blocks": "blocks",
    "DIRECTIONS": "direction_kinds",
    "DirectionKind": "direction_kinds",
    "Directions": "directions",
    "ENGINE_VERSION": "engine_version",
    "ESTIMATORS": "estimators.registry",
    "Estimate": "estimators.reference",
    "Estimator": "estimators.registry",
    "Evaluation": "evaluation",
    "FederatedRows": "round",
    "METHODS": "methods.registry",
    "Method": "methods.interface",
    "Round": "round",
    "RoundContext": "round",
    "Rows": "rows",
    "ScalarMethod": "methods.interface",
    "Scalars": "methods.interface",
    "Settings": "settings",
    "TrainState": "loop",
    "average_per_block": "aggregation",
    "estimate": "estimators.reference",
    "estimate_cohort": "estimators.cohort",
    "estimate_exact": "estimators.exact",
    "evaluate": "evaluation",
    "init": "loop",
    "label_log_probabilities": "evaluation",
    "label_prior": "evaluation",
    "step": "loop",
    "train": "loop",
    "update_blocks": "aggregation",
}

__all__ = [*_HOME]
__getattr__, __dir__ = names_on_demand(__name__, _HOME)
