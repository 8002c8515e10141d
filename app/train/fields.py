"""The form's fields: a model and a dataset of this machine, the method, and the few settings that decide."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import components
from app.links import linked
from app.train import choices
from zorba_core.errors import ZorbaError
from zorba_core.methods import METHODS, MethodFacts, method_facts

OWN_FOLDER = "a folder of mine …"
_TARGET = {"toy-reviews": 0.75, "sst2": 0.75, "ag-news": 0.8, "snli": 0.4}


def model() -> choices.Model | None:
    """A model folder of this machine; None until one is named that can be used."""
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


def dataset() -> choices.Dataset:
    """One of the datasets that are here; the others with how to get them."""
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


def method() -> MethodFacts:
    """How to fine-tune."""
    name = linked(
        st.segmented_control,
        "Method",
        list(METHODS),
        required=True,
        format_func=lambda name: METHODS[name].title,
        key="train_method",
        help="\n\n".join(f"**{facts.title}**: {facts.what}." for facts in METHODS.values()),
    )
    return method_facts(name)


def settings(dataset: choices.Dataset, method: MethodFacts) -> dict[str, Any]:
    """The settings, as options of ``zorba train``."""
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
        "Directions Q",
        1,
        4096,
        method.default_directions or 1,
        key=f"train_q_{method.name}",
        disabled=method.first_order,
        help="FedIT takes the gradient itself." if method.first_order else "Random directions tried in each round.",
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
        disabled=method.first_order,
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
        "perturbations": None if method.first_order else int(directions),
        "mu": None if method.first_order else float(mu),
        "batch_size": int(batch),
        "seq_len": int(length),
        "seed": int(seed),
        "eval_every": int(every),
        "target": float(target),
        "stop_at_target": bool(stops),
    }
