"""Block allocation and zeroth-order federated fine-tuning across clients whose GPUs differ.

The names below are what most programs need. They load on first use: importing this package loads neither torch nor
plotly, and planning a fleet never does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zorba_core.allocation import Allocation, Problem, solve, sweep
    from zorba_core.data.fleet_tables import read_fleet_table
    from zorba_core.data.task import TableRows, Task
    from zorba_core.data.task_file import read_task
    from zorba_core.engine.settings import Settings
    from zorba_core.errors import ZorbaError
    from zorba_core.planning.fleets import Fleet, uniform_fleet
    from zorba_core.planning.memory import GIB, Workload, total_bytes, whole_block_budgets
    from zorba_core.planning.models import model_spec
    from zorba_core.runs import list_runs, read_run
    from zorba_core.runs.session import fine_tune

__version__ = "0.1.0"

_HOME = {
    "zorba_core.allocation": ("Allocation", "Problem", "solve", "sweep"),
    "zorba_core.errors": ("ZorbaError",),
    "zorba_core.data.fleet_tables": ("read_fleet_table",),
    "zorba_core.data.task_file": ("read_task",),
    "zorba_core.data.task": ("TableRows", "Task"),
    "zorba_core.planning.fleets": ("Fleet", "uniform_fleet"),
    "zorba_core.planning.memory": ("GIB", "Workload", "total_bytes", "whole_block_budgets"),
    "zorba_core.planning.models": ("model_spec",),
    "zorba_core.runs": ("list_runs", "read_run"),
    "zorba_core.runs.session": ("fine_tune",),
    "zorba_core.engine.settings": ("Settings",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [  # noqa: RUF022 - in the order of use: a model, a fleet, an allocation, a run
    "model_spec",
    "Workload",
    "GIB",
    "total_bytes",
    "whole_block_budgets",
    "Fleet",
    "uniform_fleet",
    "read_fleet_table",
    "Problem",
    "Allocation",
    "solve",
    "sweep",
    "Task",
    "TableRows",
    "read_task",
    "Settings",
    "fine_tune",
    "list_runs",
    "read_run",
    "ZorbaError",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
