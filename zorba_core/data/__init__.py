"""Tasks, sources of rows, and their division among clients. The names below load when first used."""

from __future__ import annotations

from zorba_core.lazy import names_on_demand

_HOME = {
    "MadeRows": "sources",
    "PublishedRows": "sources",
    "TASKS": "tasks",
    "Task": "tasks",
    "dirichlet_partition": "partition",
    "encode": "encoding",
    "get_task": "tasks",
    "label_token_ids": "encoding",
    "load_split": "splits",
}

__all__ = [*_HOME]
__getattr__, __dir__ = names_on_demand(__name__, _HOME)
