"""Run folders: written, read, resumed and replayed. Reading needs no torch; the other names load when first used."""

from __future__ import annotations

from zorba_core.lazy import names_on_demand
from zorba_core.runs.folder import *  # noqa: F403

_HOME = {
    "fine_tune": "session",
    "load_model": "models",
    "load_tokenizer": "models",
    "read_spec": "session",
    "read_trajectory": "trajectory",
    "replay": "resume",
    "resolve_model": "models",
    "tune": "tuning",
}

__all__ = [*_HOME]
__getattr__, __dir__ = names_on_demand(__name__, _HOME)
