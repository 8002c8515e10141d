"""Tasks, sources of rows, and their division among clients. The names below load when first used."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "TASKS": "tasks",
    "Task": "tasks",
    "dirichlet_partition": "partition",
    "encode": "tasks",
    "get_task": "tasks",
    "label_token_ids": "tasks",
    "load_split": "sources",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
