"""Federated zeroth-order fine-tuning, and what it needs: tasks, rows, the base model. This half imports torch.

The names below are loaded when first used, so importing the package alone costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "ENGINE_VERSION": "engine_version",
    "TASKS": "tasks",
    "BlockNetwork": "network",
    "Callback": "callbacks",
    "Directions": "perturbation",
    "Encoded": "tasks",
    "Estimate": "estimator",
    "Evaluation": "evaluation",
    "FederatedRows": "trainer",
    "Outcome": "trainer",
    "Progress": "callbacks",
    "RoundRecord": "callbacks",
    "RoundResult": "trainer",
    "Task": "tasks",
    "TrainSettings": "settings",
    "TrainState": "trainer",
    "average_per_block": "aggregation",
    "client_peak": "memory_estimate",
    "dirichlet_partition": "partition",
    "encode": "tasks",
    "estimate": "estimator",
    "estimate_cohort": "cohort",
    "estimate_jvp": "jvp",
    "evaluate": "evaluation",
    "fine_tune": "session",
    "get_task": "tasks",
    "init": "trainer",
    "label_token_ids": "tasks",
    "load_model": "model_source",
    "load_split": "datasets",
    "load_tokenizer": "model_source",
    "read_spec": "session",
    "read_trajectory": "trajectory",
    "replay": "resume",
    "resolve_model": "model_source",
    "run": "trainer",
    "step": "trainer",
    "tune": "tuning",
    "update_blocks": "aggregation",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
