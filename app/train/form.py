"""What to run: the allocation that was chosen, a model and a dataset of this machine, and the few settings that decide.

The form asks; the ``zorba train`` process decides whether it can be done, and says so in one sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from app import components, selection
from app.links import keep, linked
from app.processes import room_for_one_more, start_training
from app.train import choices
from app.train.take_along import Request, take_along
from zorba_core.allocation import Allocation
from zorba_core.errors import ZorbaError
from zorba_core.memory import Workload, psi_client_bytes
from zorba_core.models import PRESETS
from zorba_core.plots import allocation_figure, client_order

OWN_FOLDER = "a folder of mine …"
_TARGET = {"toy-reviews": 0.75, "sst2": 0.75, "ag-news": 0.8, "snli": 0.4}


def allocation_or_explained() -> tuple[Allocation, str] | None:
    """The allocation in use and where it is from; None when the fleet has none, after saying why."""
    try:
        return selection.current_allocation()
    except ZorbaError as error:
        components.problem("There is no allocation to train yet", f"{str(error)[:1].upper()}{str(error)[1:]}.")
        st.page_link(
            "views/tradeoff.py", label="Repair the fleet on the Trade-off page", icon=":material/arrow_forward:"
        )
        return None


def draw(runs_folder: Path) -> None:
    """The form and its Start button."""
    found = allocation_or_explained()
    if found is None:
        return
    allocation, origin = found
    left, right = st.columns([0.42, 0.58], gap="large")
    with left:
        _allocation(allocation, origin)
    with right:
        st.markdown("##### On what")
        model = _model()
        dataset = _dataset()
        options = _settings(dataset)
    if model is None or not _fits(allocation, model):
        return
    if not dataset.available:
        components.problem(f"{dataset.label} is not on this machine", f"To get it: {dataset.missing}.")
        return
    options = {"model": model.source, "dataset": dataset.name, **options}
    title = f"{dataset.label} · {Path(model.source).name} · {allocation.num_clients} clients"
    _start(runs_folder, Request(allocation, options, title), model)


def _allocation(allocation: Allocation, origin: str) -> None:
    st.markdown("##### Which allocation")
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
    st.page_link("views/tradeoff.py", label="Choose another", icon=":material/scatter_plot:")


def _model() -> choices.Model | None:
    models, problems = choices.local_models()
    by_source = {model.source: model for model in models}
    source = st.selectbox(
        "Model",
        [*by_source, OWN_FOLDER],
        format_func=lambda name: by_source[name].label if name in by_source else name,
        key="train_model",
        bind="query-params",
        help="opt-mini (1.9 M parameters) comes with the checkout: it knows sentiment, news and inference, but not the "
        "label words it is asked for, which is what a run teaches it. Any local Hugging Face folder of a supported "
        "family works too.",
    )
    for problem in problems:
        st.caption(f":material/folder_off: {components.plain(problem)}")
    if source in by_source:
        return by_source[source]
    path = st.text_input(
        "Folder", key="train_folder", bind="query-params", placeholder="/models/opt-125m", max_chars=1000
    )
    if not path.strip():
        st.caption("Its folder on this machine, as `save_pretrained` writes it: config.json, weights as safetensors.")
        return None
    try:
        return choices.model_at(path)
    except (ZorbaError, OSError) as error:
        components.problem("This model cannot be used", f"{error}")
        return None


def _dataset() -> choices.Dataset:
    known = {dataset.name: dataset for dataset in choices.datasets()}
    here = [name for name, dataset in known.items() if dataset.available]
    name = linked(
        st.selectbox,
        "Dataset",
        here,
        format_func=lambda name: f"{known[name].label} · {known[name].about}",
        key="train_dataset",
        help="Rows are divided among the clients by a Dirichlet draw, so that each sees labels in its own proportions.",
    )
    absent = [dataset for dataset in known.values() if not dataset.available]
    if absent:
        with st.popover(
            f"{', '.join(dataset.label for dataset in absent)}: how to get them", icon=":material/download:"
        ):
            for dataset in absent:
                st.markdown(f"**{dataset.label}**: {components.plain(dataset.missing)}.")
    return known[name]


def _settings(dataset: choices.Dataset) -> dict[str, Any]:
    st.markdown("##### How")
    first, second, third, fourth = st.columns(4)
    rounds = first.number_input(
        "Rounds T", 1, 100_000, 60, 10, key="train_rounds", bind="query-params", help="A run can be stopped earlier."
    )
    lr = second.number_input(
        "Rate η",
        1e-8,
        10.0,
        1e-2,
        format="%.3g",
        step=1e-3,
        key="train_lr",
        bind="query-params",
        help="Learning rate. Its size decides more than the allocation does: on SST-2, 5e-3, 1e-2 and 2e-2 took 35–45, "
        "20–30 and 10–15 rounds to 0.75, and 3e-2 diverged. `zorba tune` finds one in a few tens of rounds.",
    )
    directions = third.number_input(
        "Directions Q", 1, 4096, 10, key="train_q", bind="query-params", help="Random directions tried in each round."
    )
    mu = fourth.number_input(
        "Step μ",
        1e-8,
        1.0,
        1e-3,
        format="%.3g",
        step=1e-3,
        key="train_mu",
        bind="query-params",
        help="Length of a finite difference, in units of the direction. Too small drowns in rounding.",
    )
    with st.expander("More settings", icon=":material/tune:"):
        one, two, three, four = st.columns(4)
        batch = one.number_input(
            "Batch B", 1, 512, 8, key="train_batch", bind="query-params", help="Rows of a client in a round."
        )
        length = two.number_input(
            "Length L", 8, 4096, 64, 8, key="train_length", bind="query-params", help="Longest prompt, in tokens."
        )
        seed = three.number_input(
            "Seed", 0, 2**31 - 1, 0, key="train_seed", bind="query-params", help="Of rows, batches and directions."
        )
        every = four.number_input(
            "Evaluate every", 1, 10_000, 10, key="train_every", bind="query-params", help="Rounds between evaluations."
        )
        five, six = st.columns(2, vertical_alignment="bottom")
        target = five.slider(
            "Target accuracy", 0.05, 1.0, _TARGET[dataset.name], 0.05, key=f"train_target_{dataset.name}"
        )
        stops = six.toggle("Stop when the target is reached", key="train_stops", bind="query-params")
    return {
        "rounds": int(rounds),
        "lr": float(lr),
        "perturbations": int(directions),
        "mu": float(mu),
        "batch_size": int(batch),
        "seq_len": int(length),
        "seed": int(seed),
        "eval_every": int(every),
        "target": float(target),
        "stop_at_target": bool(stops),
    }


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
            type="primary",
            on_click=_plan_with,
            args=(planned[0],),
            help="Changes the model in the sidebar. The fleet's budgets are worked out anew for it.",
        )
    else:
        st.caption(f"Choose a model folder of {wanted} blocks above, or a planned model of {there} in the sidebar.")
    return False


def _plan_with(preset: str) -> None:
    st.session_state["model"] = preset


def _start(runs_folder: Path, request: Request, model: choices.Model) -> None:
    running, most = room_for_one_more(runs_folder)
    full = running >= most
    vram_N = psi_client_bytes(
        model.spec,
        Workload(request.options["batch_size"], request.options["seq_len"]),
        request.allocation.blocks_held_N,
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.button(
            "Start",
            key="train_start",
            type="primary",
            icon=":material/play_arrow:",
            disabled=full,
            on_click=_begin,
            args=(runs_folder, request),
            help="Starts `zorba train` as a process of its own: it goes on when this page is closed.",
        )
        st.caption(
            f"By the paper's model {Path(model.source).name} takes {vram_N.min():.2g} to {vram_N.max():.2g} GiB a "
            f"client, {vram_N.sum():.2g} GiB in all. Before the first round the run measures whether these settings "
            "can learn at all, and is refused if not."
        )
    if full:
        st.info(
            f"{running} run{'s are' if running > 1 else ' is'} going on, one for each of this machine's {most} cores. "
            "Stop one, or wait until one has finished.",
            icon=":material/hourglass_top:",
        )
    elif running:
        st.warning(
            f"{running} of {most} cores is busy with a run. A second run gets the other core; both, and this page, may "
            "become slower.",
            icon=":material/speed:",
        )
    error = st.session_state.pop("train_error", None)
    if error:
        components.problem("The run was not started", error)
    take_along(request)


def _begin(runs_folder: Path, request: Request) -> None:
    try:
        job = start_training(
            runs_folder, request.allocation, choices.command_options(request.options), title=request.title
        )
    except ZorbaError as error:
        st.session_state["train_error"] = f"{error}"
    else:
        keep("job", job.id)
