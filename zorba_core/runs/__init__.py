"""Run folders: written, read, resumed and replayed. Reading needs no torch; the other names load when first used."""

from __future__ import annotations

from zorba_core.lazy import names_on_demand
from zorba_core.runs.folder import *  # noqa: F403

_HOME = {
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
__getattr__, __dir__ = names_on_demand(__name__, _HOME)
