"""Run folders: written, read, resumed and replayed. Reading needs no torch; the other names load when first used."""

from __future__ import annotations

import importlib
from typing import Any

from zorba_core.runs.folder import *  # noqa: F403

_HOME = {
    "client_peak": "memory_estimate",
    "fine_tune": "session",
    "load_model": "model_source",
    "load_tokenizer": "model_source",
    "read_spec": "session",
    "read_trajectory": "trajectory",
    "replay": "resume",
    "resolve_model": "model_source",
    "tune": "tuning",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
