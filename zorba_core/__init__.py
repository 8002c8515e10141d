"""Block allocation and zeroth-order federated fine-tuning across clients whose GPUs differ.

The names below are what most programs need. They load at first use: importing this package or planning a fleet loads
neither torch nor plotly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zorba_core.lazy import names_on_demand
from zorba_core.version import __version__ as __version__

if TYPE_CHECKING:
    from zorba_core.allocation import Allocation, Problem, Solution, front, solve, sweep
    from zorba_core.data.task import Overrides, TableRows, Task, read_task
    from zorba_core.engine.settings import Settings
    from zorba_core.errors import ZorbaError
    from zorba_core.fleet import Fleet
    from zorba_core.runs import Run, list_runs, read_run
    from zorba_core.runs.train import fine_tune
    from zorba_core.vram import GIB, Workload, model_spec

_HOME = {  # in the order of use: a fleet, an allocation, a run
    "Fleet": "fleet",
    "front": "allocation",
    "solve": "allocation",
    "sweep": "allocation",
    "Solution": "allocation",
    "Allocation": "allocation",
    "Problem": "allocation",
    "model_spec": "vram",
    "Workload": "vram",
    "GIB": "vram",
    "Task": "data.task",
    "TableRows": "data.task",
    "Overrides": "data.task",
    "read_task": "data.task",
    "Settings": "engine.settings",
    "fine_tune": "runs.train",
    "list_runs": "runs",
    "read_run": "runs",
    "Run": "runs",
    "ZorbaError": "errors",
}

__all__ = [*_HOME]
__getattr__, __dir__ = names_on_demand(__name__, _HOME)
