"""Tasks, their rows, and the division of rows among clients. The names below load at first use."""

from __future__ import annotations

from zorba_core.lazy import names_on_demand

_HOME = {
    "MadeRows": "task",
    "PublishedRows": "task",
    "TASKS": "task",
    "TableRows": "task",
    "Task": "task",
    "dirichlet_partition": "divide",
    "encode": "encode",
    "get_task": "task",
}

__all__ = [*_HOME]
__getattr__, __dir__ = names_on_demand(__name__, _HOME)
