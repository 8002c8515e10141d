"""The controls of `07_your_own_fleet`, and what they ask for as plain functions that need no front end.

Shapes: N clients that can take part, M blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import ipywidgets
import numpy as np
import pandas as pd
import plotly.graph_objects as go
from IPython.display import display

from zorba_core.allocation import SOLVERS, Solution, solve
from zorba_core.data import TASKS
from zorba_core.data.load import missing
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.methods.registry import METHODS
from zorba_core.errors import InfeasibleError, InvalidInputError, ZorbaError
from zorba_core.fleet import Fleet
from zorba_core.plots import allocation_figure, client_order
from zorba_core.vram import (
    DTYPE_BYTES,
    GIB,
    PRESETS,
    ModelSpec,
    Workload,
    model_spec,
    psi_block_bytes,
    psi_client_bytes,
    psi_model_bytes,
)

_SECONDS = 5.0  # that a solver with a time limit may take


@dataclass(frozen=True)
class Request:
    """What the controls ask for."""

    clients: str  # CSV: client,vram_gib
    model: str = "opt-1.3b"  # a preset, or the path of a Hugging Face folder or config.json
    batch_size: int = 8
    seq_len: int = 128
    dtype: str = "float32"
    share: float = 0.9  # of each card that fine-tuning may use
    solver: str = "balanced"
    method: str = "zorba"  # of the rehearsal, as what follows
    dataset: str = "toy-reviews"
    estimator: str = "cohort"


def choices(name: str) -> list[tuple[str, str]]:
    """Titles and names of what there is for a field of :class:`Request`, those of installed packages included."""
    parts = {
        "solver": SOLVERS,
        "method": {name: part for name, part in METHODS.items() if part.allocates},  # a rehearsal of the allocation
        "dataset": {name: task for name, task in TASKS.items() if not missing(task)},
        "estimator": ESTIMATORS,
    }
    return [(part.title, name) for name, part in parts[name].items()]


@dataclass(frozen=True, eq=False)
class Plan:
    """Who trains what. ``left_out`` names the clients that cannot hold the parameters and one block."""

    spec: ModelSpec
    workload: Workload
    fleet: Fleet  # those that take part
    left_out: tuple[str, ...]
    solution: Solution


def plan_of(request: Request) -> Plan:
    """The allocation for these clients and this model.

    Raises:
        InvalidInputError: a field that makes no sense.
        InfeasibleError: no card is large enough, or those that are cannot train every block.
    """
    if not 0 < request.share <= 1:
        raise InvalidInputError(f"share of the card is {request.share}; it must be above 0 and at most 1")
    spec = model_spec(request.model)
    workload = Workload(batch_size=request.batch_size, seq_len=request.seq_len, dtype=request.dtype)
    listed = Fleet.from_csv(request.clients.encode(), spec, workload=workload)
    everyone = replace(listed, capacity_N_bytes=listed.capacity_N_bytes * request.share)
    blocks = everyone.affordable_N()
    taken = np.flatnonzero(blocks >= 1)
    left_out = tuple(listed.names[n] for n in np.flatnonzero(blocks < 1))
    if not taken.size:
        need = (psi_model_bytes(spec, workload) + psi_block_bytes(spec, workload)) / GIB
        raise InfeasibleError(
            f"no card can hold {spec.name} and one block, {need:.2f} GiB; the largest has "
            f"{everyone.capacity_N_gib.max():.2f} GiB to give: take a smaller model, batch or sequence, or bfloat16"
        )
    fleet = everyone.select(taken)
    return Plan(spec, workload, fleet, left_out, solve(fleet, request.solver, time_limit=_SECONDS))


def summary(plan: Plan) -> pd.Series:
    """The plan in the numbers that decide."""
    allocation, solution = plan.solution.allocation, plan.solution
    need = (psi_model_bytes(plan.spec, plan.workload) + psi_block_bytes(plan.spec, plan.workload)) / GIB
    return pd.Series(
        {
            "clients that take part": allocation.num_clients,
            "left out, cannot hold one block": len(plan.left_out),
            "needed for one block, GiB": f"{need:.2f}",
            "activated blocks": f"{allocation.total_blocks} of {allocation.num_clients * allocation.num_blocks}",
            "Λ": f"{allocation.bias_lambda:.3f}, none below {solution.lower_bound:.3f}",
            "V": f"{allocation.mean_inverse_popularity:.3f}",
            "N_eff": f"{allocation.effective_clients:.1f}",
            "clients on the scarcest block": allocation.min_popularity,
        }
    )


def picture(plan: Plan) -> go.Figure:
    """The allocation, largest cards first, under each client's VRAM."""
    allocation, capacity = plan.solution.allocation, plan.fleet.capacity_N_bytes
    return allocation_figure(
        allocation.A_MN,
        names=plan.fleet.names,
        used_N_gib=psi_client_bytes(plan.spec, plan.workload, allocation.blocks_held_N) / GIB,
        capacity_N_gib=plan.fleet.capacity_N_gib,
        parameters_gib=psi_model_bytes(plan.spec, plan.workload) / GIB,
        order_N=client_order(allocation.A_MN, capacity, "vram"),
    ).update_layout(width=900)


class Controls:
    """A widget for each field of :class:`Request`; whatever is changed redraws the plan below them.

    Without a front end nobody changes anything: :attr:`request` is then the one given.
    """

    def __init__(self, request: Request) -> None:
        wide = ipywidgets.Layout(width="420px")
        self._widgets: dict[str, ipywidgets.Widget] = {
            "clients": ipywidgets.Textarea(request.clients, layout=ipywidgets.Layout(width="420px", height="150px")),
            "model": ipywidgets.Combobox(
                value=request.model, options=list(PRESETS), ensure_option=False, layout=wide, continuous_update=False
            ),
            "batch_size": ipywidgets.BoundedIntText(request.batch_size, min=1, max=4096, layout=wide),
            "seq_len": ipywidgets.BoundedIntText(request.seq_len, min=1, max=32_768, layout=wide),
            "dtype": ipywidgets.Dropdown(value=request.dtype, options=list(DTYPE_BYTES), layout=wide),
            "share": ipywidgets.FloatSlider(
                request.share, min=0.1, max=1.0, step=0.05, layout=wide, continuous_update=False
            ),
        }
        for name in ("solver", "method", "dataset", "estimator"):
            value, options = getattr(request, name), choices(name)
            self._widgets[name] = ipywidgets.Dropdown(value=value, options=options, layout=wide)
        self._widgets["clients"].continuous_update = False
        labels = {
            "clients": "Clients: client,vram_gib",
            "model": "Model, or path of one",
            "batch_size": "B, sequences a batch",
            "seq_len": "L, tokens a sequence",
            "dtype": "Numbers as",
            "share": "Share of each card",
            "solver": "Solver",
            "method": "Rehearsed by",
            "dataset": "On the dataset",
            "estimator": "With the estimator",
        }
        self._area = ipywidgets.Output()
        rows = [
            ipywidgets.HBox([ipywidgets.Label(labels[name], layout=ipywidgets.Layout(width="180px")), widget])
            for name, widget in self._widgets.items()
        ]
        self.box = ipywidgets.VBox([*rows, self._area])
        for widget in self._widgets.values():
            widget.observe(lambda change: self._redraw(), "value")

    @property
    def request(self) -> Request:
        return Request(**{field.name: self._widgets[field.name].value for field in fields(Request)})

    def set(self, name: str, value: object) -> None:
        """What moving a control does."""
        self._widgets[name].value = value

    def _redraw(self, show: Callable[[object], object] = display) -> None:
        with self._area:
            self._area.clear_output(wait=True)
            try:
                plan = plan_of(self.request)
                show(summary(plan).to_frame("plan"))
                show(picture(plan))
            except ZorbaError as error:
                print(error)
