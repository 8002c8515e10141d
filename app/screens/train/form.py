"""What to run: the allocation that was chosen, a model and a dataset of this machine, and the few settings that decide.

The form asks; the ``zorba train`` process decides whether it can be done, and says so in one sentence.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from app.screens.train import choices, fields, own_data
from app.screens.train.processes import room_for_one_more, start_training, train_command
from app.screens.train.words import ERROR
from app.shared import components, selection, state
from app.shared.links import keep
from zorba_core.allocation import Allocation
from zorba_core.engine.methods.registry import MethodFacts
from zorba_core.errors import ZorbaError
from zorba_core.plots import allocation_figure, client_order
from zorba_core.vram import GIB, PRESETS, Workload

_PRESSED = "train_start_pressed"


@dataclass(frozen=True)
class TrainRequest:
    """A run as the form describes it. ``options`` are those of ``zorba train``; without an allocation every client
    trains every block."""

    allocation: Allocation | None
    options: dict[str, Any]
    title: str


def allocation_or_explained() -> tuple[Allocation, str] | None:
    """The allocation in use and where it is from; None when the fleet has none, after saying why."""
    try:
        return selection.current_allocation()
    except ZorbaError as error:
        components.problem("There is no allocation to train yet", components.sentence(error))
        st.page_link("screens/tradeoff/tradeoff.py", label="Repair the fleet", icon=":material/arrow_forward:")
        return None


def draw(runs_folder: Path) -> None:
    """The form and its Start button."""
    _draw(runs_folder)
    st.session_state.pop(_PRESSED, None)  # pressed for what cannot be started, and has been explained


def _draw(runs_folder: Path) -> None:
    choice = allocation_or_explained()
    if choice is None:
        return
    allocation, origin = choice
    left, right = st.columns([0.42, 0.58], gap="large")
    with right:
        st.markdown("## On what, and how")
        model, dataset = fields.model(allocation.num_blocks), fields.dataset()
        own = None if dataset is not None else own_data.ask(runs_folder, None if model is None else model.source)
        method = fields.method()
        task = own.task if own is not None else dataset
        options = None if task is None else fields.settings(task, method)
    if model is not None and not method.allocates:
        allocation = Allocation(np.ones((model.spec.num_blocks, allocation.num_clients), dtype=bool))
        origin = f"{method.title} has every client train every block; only the number of clients is the plan's"
    with left:
        _allocation(allocation, origin)
    if model is None or task is None:
        return
    if own is not None and own.num_clients not in (None, allocation.num_clients):
        with right:
            components.problem(
                f"The rows are those of {own.num_clients} clients; the plan is for {allocation.num_clients}",
                "Plan for as many clients, or let no column say whose row it is: rows are then divided by label.",
            )
        return
    if own is not None:
        with left:
            own_data.who_holds_what(own, allocation.num_clients, options["seed"])
    counted = {} if method.allocates else {"clients": allocation.num_clients}
    request = TrainRequest(
        allocation if method.allocates else None,
        {
            "method": method.name,
            "model": model.source,
            **({"dataset": task.name} if own is None else own.options),
            **counted,
            **options,
        },
        f"{task.title} · {method.title} · {Path(model.source).name} · {allocation.num_clients} clients",
    )
    with right:
        if not _fits(allocation, model):
            return
        _start(runs_folder, request, _vram_gib(allocation, model, method, options))
    with st.expander("The same as a command", icon=":material/terminal:"):
        file = None if request.allocation is None else "allocation.npz"
        st.code(shlex.join(train_command(file, choices.command_options(request.options))), language="bash")
        st.caption("The Allocation page saves allocation.npz.")


def _allocation(allocation: Allocation, origin: str) -> None:
    st.markdown("## Which allocation")
    st.markdown(
        f"**{allocation.num_clients} clients** activate **{allocation.total_blocks}** of "
        f"{allocation.num_clients * allocation.num_blocks} blocks, Λ = {allocation.bias_lambda:.3g}: "
        f"{components.plain(origin)}."
    )
    components.figure(
        allocation_figure(
            allocation.A_MN,
            order_N=client_order(allocation.A_MN, allocation.blocks_held_N, "blocks"),
            palette=components.palette(),
        ),
        key="train_allocation",
        name="zorba-allocation",
        alt=f"Which of {allocation.num_blocks} blocks each of {allocation.num_clients} clients will train; a block is "
        f"trained by {allocation.min_popularity} to {int(allocation.popularity_M.max())} clients.",
    )
    st.page_link("screens/tradeoff/tradeoff.py", label="Choose another", icon=":material/scatter_plot:")


def _fits(allocation: Allocation, model: choices.Model) -> bool:
    """Whether the allocation is over as many blocks as the model has; where not, why and what to do."""
    wanted, there = allocation.num_blocks, model.spec.num_blocks
    if wanted == there:
        return True
    name = Path(model.source).name
    components.problem(
        f"This allocation is for a model of {wanted} blocks; {name} has {there}",
        "An allocation says for each block who trains it, so both must have the same number of blocks.",
    )
    planned = [preset for preset, spec in PRESETS.items() if spec.num_blocks == there]
    if planned:
        st.button(
            f"Plan with {planned[0].upper()} instead ({there} blocks)",
            key="train_other_model",
            on_click=_plan_with,
            args=(planned[0],),
            help="Changes the model in the sidebar. The fleet's budgets are worked out anew for it.",
        )
    else:
        st.caption(f"Choose a model folder of {wanted} blocks above, or a planned model of {there} in the sidebar.")
    return False


def _plan_with(preset: str) -> None:
    state.apply(state.current().replace(model=preset))


def _vram_gib(allocation: Allocation, model: choices.Model, method: MethodFacts, options: dict[str, Any]) -> float:
    """All clients together, by the paper's model."""
    workload = Workload(batch_size=options["batch_size"], seq_len=options["seq_len"])
    total = allocation.total_blocks if method.allocates else None
    return method.total_bytes(model.spec, workload, allocation.num_clients, total) / GIB


def _start(runs_folder: Path, request: TrainRequest, vram_gib: float) -> None:
    running, most = room_for_one_more(runs_folder)
    full = running >= most
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.button(
            "Start",
            key="train_start",
            type="primary",
            icon=":material/play_arrow:",
            disabled=full,
            on_click=_press,
            help="Starts `zorba train` as a separate process: it continues when this page is closed.",
        )
        st.caption(
            f"By the paper's VRAM model all clients together need {vram_gib:.2g} GiB with this model. Before "
            "its first round the run measures whether these settings can learn at all, and is refused if not."
        )
    # Here and not in the callback: the value of a field that was left by this press is in this run's request.
    if st.session_state.get(_PRESSED) and not full:
        del st.session_state[_PRESSED]
        _begin(runs_folder, request)
        st.rerun()
    if full:
        st.info(
            f"{running} run{'s are' if running > 1 else ' is'} in progress, one for each of this machine's {most} "
            "cores. Stop one, or wait until one has finished.",
            icon=":material/hourglass_top:",
        )
    elif running:
        st.warning(
            f"{running} of {most} cores is busy with a run. A second run gets the other core; both, and this page, may "
            "become slower.",
            icon=":material/speed:",
        )


def _press() -> None:
    st.session_state[_PRESSED] = True


def _begin(runs_folder: Path, request: TrainRequest) -> None:
    try:
        job = start_training(
            runs_folder, request.allocation, choices.command_options(request.options), title=request.title
        )
    except ZorbaError as error:
        st.session_state[ERROR] = f"{error}"
    else:
        keep("job", job.id)
