"""The form's fields: a model and a dataset of this machine, the method, and the few settings that decide."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app.screens.train import choices
from app.shared import components
from app.shared.links import choose, linked, linked_number, linked_switch, linked_text, remembered
from zorba_core.checked import bound_of, help_of, kind_of
from zorba_core.data.load import missing as how_to_get
from zorba_core.data.task import METRIC_TITLES, Task
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.methods.registry import METHODS, MethodFacts, method_facts
from zorba_core.engine.settings import Settings
from zorba_core.errors import ZorbaError

OWN_FOLDER, OWN_ROWS = "folder", "own"
_FITTING = "fitting_model"  # in the session: the model that was offered first


def model(num_blocks: int) -> choices.Model | None:
    """A model folder of this machine; None until one is named that can be used. The first choice has the allocation's
    number of blocks, where a model here has."""
    models, problems = choices.local_models()
    fitting = next((model.source for model in models if model.spec.num_blocks == num_blocks), None)
    before = st.session_state.get(_FITTING)
    if fitting is not None and before not in (None, fitting) and remembered("train_model", None, str) == before:
        choose("train_model", fitting)  # the plan has changed, and nobody had chosen the model
    st.session_state[_FITTING] = fitting
    by_source = {model.source: model for model in models}
    source = linked(
        st.selectbox,
        "Model",
        [*by_source, OWN_FOLDER],
        fitting,
        format_func=lambda name: by_source[name].label if name in by_source else "A folder of mine …",
        key="train_model",
        help="opt-mini (1.9 M parameters) comes with the checkout: it knows sentiment, news and inference, but not the "
        "label words it is asked for, which is what a run teaches it. Any local Hugging Face folder of a supported "
        "family works too.",
    )
    for problem in problems:
        st.caption(f":material/folder_off: {components.plain(problem)}")
    if source in by_source:
        return by_source[source]
    path = linked_text("Folder", key="train_folder", longest=300, placeholder="/models/opt-125m").strip()
    if not path:
        st.caption("Its folder on this machine, as `save_pretrained` writes it: config.json, weights as safetensors.")
        return None
    try:
        return choices.model_at(path)
    except (ZorbaError, OSError) as error:
        components.problem("This model cannot be used", f"{error}")
        return None


def dataset() -> Task | None:
    """One of the datasets that are here, the others with how to get them; None for rows of the reader's own."""
    tasks = {task.name: task for task in choices.datasets()}
    missing = {name: how_to_get(task) for name, task in tasks.items()}
    here = [name for name in tasks if not missing[name]]
    name = linked(
        st.selectbox,
        "Dataset",
        [*here, OWN_ROWS],
        format_func=lambda name: (
            "Rows of my own …" if name == OWN_ROWS else f"{tasks[name].title} · {tasks[name].about}"
        ),
        key="train_dataset",
        help="Rows are divided among the clients by a Dirichlet draw, so that each sees labels in its own proportions.",
    )
    absent = [task for task in tasks.values() if missing[task.name]]
    if absent:
        titles = [task.title for task in absent]
        named = ", ".join(titles) if len(titles) < 4 else f"{len(titles)} more, such as {titles[0]} and {titles[1]}"
        with st.popover(f"{named}: how to get them", icon=":material/download:"):
            for task in absent:
                st.markdown(
                    f"**{task.title}**: {components.plain(missing[task.name])}. Then start the dashboard again."
                )
    return tasks.get(name)


def method() -> MethodFacts:
    """How to fine-tune."""
    name = linked(
        st.segmented_control,
        "Method",
        list(METHODS),
        required=True,
        format_func=lambda name: METHODS[name].title,
        key="train_method",
        wrap=True,
        help="\n\n".join(f"**{facts.title}**: {facts.help}." for facts in METHODS.values()),
    )
    return method_facts(name)


def settings(dataset: Task, method: MethodFacts) -> dict[str, Any]:
    """The settings, as options of ``zorba train``."""
    first, second, third, fourth = st.columns(4)
    early = "A run can be stopped earlier."
    rounds = _number(first, "Rounds T", "rounds", 100_000, key="train_rounds", default=60, step=10, help=early)
    lr = _number(
        second,
        "Rate η",
        "lr",
        10.0,
        key=_for_method("train_lr", method),
        default=method.usual_lr,
        low=1e-8,
        format="%.3g",
        step=1e-3,
        help="Its size decides more than the allocation does: with ZorBA on SST-2, 5e-3, 1e-2 and 2e-2 "
        "took 35–45, 20–30 and 10–15 rounds to 0.75, and 3e-2 diverged. `zorba tune` finds one.",
    )
    directions = _number(
        third,
        "Directions Q",
        "directions",
        Settings().num_seeds,
        key=_for_method("train_q", method),
        default=method.default_directions or 1,
        low=1,
        disabled=method.first_order,
        help="FedIT takes the gradient itself." if method.first_order else "",
    )
    mu = _number(
        fourth,
        "Step μ",
        "mu",
        1.0,
        key="train_mu",
        low=1e-8,
        format="%.3g",
        step=1e-4,
        disabled=method.first_order,
        help="Too small drowns in rounding.",
    )
    with st.expander("More settings", icon=":material/tune:"):
        one, two, three, four = st.columns(4)
        batch = _number(one, "Batch B", "batch_size", 512, key="train_batch")
        length = _number(two, "Length L", "seq_len", 4096, key="train_length", low=8, step=8)
        seed = _number(three, "Seed", "seed", 2**31 - 1, key="train_seed")
        every = _number(four, "Evaluate every", "eval_every", 10_000, key="train_every")
        estimator = linked(
            st.selectbox,
            "Estimator",
            list(ESTIMATORS),
            format_func=lambda name: f"{ESTIMATORS[name].title} · {ESTIMATORS[name].help}",
            key="train_estimator",
            disabled=method.first_order,
            help="FedIT takes the gradient itself."
            if method.first_order
            else "How a client gets its number for a direction.",
        )
        five, six = st.columns(2, vertical_alignment="bottom")
        key, usual = f"train_target_{dataset.name}", dataset.target
        aim = f"Target {METRIC_TITLES[dataset.counted]}"
        target = _number(five, aim, "target", 1.0, key=key, default=usual, low=0.05, step=0.05)
        with six:
            stops = linked_switch("Stop when the target is reached", False, key="train_stops")
            forced = linked_switch(
                "Train even if found unable to learn",
                False,
                key="train_force",
                help="Goes on although the check before the first round says that these settings cannot learn.",
            )
    return {
        "rounds": rounds,
        "lr": lr,
        "directions": None if method.first_order else directions,
        "mu": None if method.first_order else mu,
        "estimator": None if method.first_order or estimator == Settings().estimator else estimator,
        "batch_size": batch,
        "seq_len": length,
        "seed": seed,
        "eval_every": every,
        "target": target,
        "stop_at_target": stops,
        "force": forced,
    }


def _for_method(key: str, method: MethodFacts) -> str:
    """What suits one method does not suit another: each has a field of its own."""
    return key if method.name == "zorba" else f"{key}_{method.name}"


def _number(
    place: Any,
    label: str,
    name: str,
    high: float,
    *,
    default: Any = None,
    low: float | None = None,
    help: str = "",
    **arguments: Any,
) -> Any:
    """A setting of the run, kept in the address. Its least value, usual value and help are those that the setting is
    declared with, unless this form has its own."""
    field = Settings.model_fields[name]
    widget = place.slider if name == "target" else place.number_input
    bounds = (
        bound_of(field, "ge") if low is None else low,
        high,
        field.default if default is None else default,
    )
    help = f"{help_of(field)} {help}".rstrip()
    return linked_number(widget, label, *map(kind_of(field)[0], bounds), help=help, **arguments)
