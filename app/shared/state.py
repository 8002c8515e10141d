"""The sidebar: it turns widgets into a :class:`~app.shared.scenario.Scenario`, and the page's address into widgets.

The scenario itself is what lasts: a control that is not drawn (on another page, for another kind of fleet) keeps its
value there, and every run writes the scenario into the address, so that a pasted link restores it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from app.shared.links import keep
from app.shared.own_fleet import rows_of
from app.shared.remedies import Remedy
from app.shared.scenario import FLEET_KINDS, SCALED_KINDS, Scenario
from app.shared.scenario_fields import CHOICES, KEYS, LIMITS, PERCENT, TAU_LABELS, is_whole
from app.shared.scenario_link import ROWS, scenario_from_link, scenario_to_link
from app.shared.studies import solution, solved, solved_or_error
from zorba_core.errors import ZorbaError
from zorba_core.fields import declared
from zorba_core.planning.gpu_catalogue import MIXES
from zorba_core.planning.memory import DTYPE_BYTES
from zorba_core.planning.models import PRESETS

__all__ = [
    "apply",
    "apply_remedy",
    "begin",
    "current",
    "kind_controls",
    "sidebar",
    "solution",
    "solved",
    "solved_or_error",
    "update",
]

SOLVER_LABELS = {
    "balanced": "Balanced (default)",
    "lexicographic": "The paper's (lexicographic)",
    "two-level": "Two-level (smaller Λ)",
    "exact": "Exact (proven, few points)",
}
_SCENARIO, _IGNORED = "scenario", "ignored_parameters"
_HELP = {name: field.full_help() or None for name, field in declared(Scenario).items()}


def current() -> Scenario:
    """The scenario as of now."""
    return st.session_state[_SCENARIO]


def update(**fields: Any) -> Scenario:
    """Change fields of the scenario in this run; the address follows."""
    st.session_state[_SCENARIO] = replace(current(), **fields)
    _write_address(current())
    return current()


def apply(scenario: Scenario) -> None:
    """Go over to another scenario. For callbacks: its controls are drawn anew from it."""
    st.session_state[_SCENARIO] = scenario
    for key in KEYS.values():
        st.session_state.pop(key, None)


def apply_remedy(remedy: Remedy) -> None:
    """Go over to the remedy's scenario (a button's callback)."""
    apply(remedy.scenario)


def begin() -> bool:
    """Read the scenario from the address. False where the session has one already."""
    if _SCENARIO in st.session_state:
        return False
    st.session_state[_SCENARIO], st.session_state[_IGNORED] = scenario_from_link(st.query_params.to_dict())
    return True


def sidebar() -> Scenario:
    """Draw the controls that every page shares and return what they say."""
    with st.sidebar:
        st.subheader("Fleet", anchor=False)
        fields = _fleet_controls()
        st.subheader("Model and batch", anchor=False)
        fields |= _workload_controls()
        st.subheader("Search", anchor=False)
        fields |= _search_controls()
    scenario = update(**fields)
    _tell_ignored()
    return scenario


def control(widget: Callable[..., Any], label: str, name: str, **arguments: Any) -> Any:
    """``widget`` for a field of the scenario, started from it; returns the field's value."""
    key = KEYS[name]
    if key not in st.session_state:
        value = getattr(current(), name)
        st.session_state[key] = round(100 * value) if name in PERCENT else value
    arguments = {"key": key, "help": _HELP.get(name), "on_change": _take_over, "args": (name,), **arguments}
    if name in CHOICES:
        return widget(label, list(CHOICES[name]), **arguments)
    if name in LIMITS:
        limits, scale = LIMITS[name], 100 if name in PERCENT else 1
        kind = int if is_whole(name) or name in PERCENT else float
        steps = (kind(round(scale * value, 6)) for value in (limits.low, limits.high, limits.step))
        arguments |= dict(zip(("min_value", "max_value", "step"), steps, strict=True))
    value = widget(label, **arguments)
    return value / 100 if name in PERCENT else value


def _take_over(name: str) -> None:
    """A control's callback: the scenario follows before any page runs, so that a page may be drawn before its controls.
    What cannot be is left to the page, which says why."""
    value = st.session_state[KEYS[name]]
    if (name, value) == ("fleet_kind", "table"):
        _start_table()
    with contextlib.suppress(ZorbaError):
        st.session_state[_SCENARIO] = replace(current(), **{name: value / 100 if name in PERCENT else value})


def side_by_side(place: Any, names: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Number boxes for (label, field) next to each other."""
    columns = place.columns(len(names))
    return {
        name: control(column.number_input, label, name) for column, (label, name) in zip(columns, names, strict=True)
    }


def _fleet_controls() -> dict[str, Any]:
    kind = control(
        st.selectbox,
        "How much VRAM clients have",
        "fleet_kind",
        format_func=FLEET_KINDS.get,
        help="A client is one participant with one GPU. *Uniform* draws each client's VRAM between what the model and "
        "one block need and what the model and all blocks need, as the paper does. The Fleet page shows who takes "
        "part, and has the finer settings.",
    )
    if kind == "table":
        _start_table()
        count = len(current().table)
        st.caption(f"{count} client{'' if count == 1 else 's'}, typed or uploaded on the Fleet page.")
        return {"fleet_kind": kind}
    return {"fleet_kind": kind, **side_by_side(st, [("Clients N", "num_clients"), ("Seed", "seed")])}


def _start_table() -> None:
    """Whoever turns to clients of their own finds the fleet that was there, to be typed over."""
    before = current()
    if before.fleet_kind != "table" and not before.table:
        with contextlib.suppress(ZorbaError):
            update(table=rows_of(before.fleet()))


def _workload_controls() -> dict[str, Any]:
    model = control(
        st.selectbox,
        "Model",
        "model",
        format_func=lambda name: f"{name.upper()} · {PRESETS[name].num_blocks} blocks",
        help="A block is one transformer layer. Each client trains some of the blocks and keeps the others frozen.",
    )
    sizes = side_by_side(st, [("Batch B", "batch_size"), ("Length L", "seq_len")])
    dtype = control(
        st.selectbox,
        "Number format",
        "dtype",
        format_func=lambda name: f"{name} · {DTYPE_BYTES[name]} bytes",
        help="Bytes per number, for parameters and activations alike.",
    )
    return {"model": model, "dtype": dtype, **sizes}


def _search_controls() -> dict[str, Any]:
    solver = control(
        st.selectbox,
        "Solver",
        "solver",
        format_func=SOLVER_LABELS.get,
        help="*Balanced* deals the blocks out in turn: every budget used, popularities within one of each other. "
        "*The paper's* is Dinic's flow and the greedy update of Algorithm 1 (about 10 s for 1000 reductions). "
        "*Two-level* lowers Λ by letting a few large clients carry the scarce blocks; watch V and the effective "
        "clients. *Exact* proves the smallest Λ for 16 totals.",
    )
    num_epsilons = control(st.number_input, "Points E", "num_epsilons")
    tau_mode = control(
        st.selectbox,
        "VRAM is saved by",
        "tau_mode",
        format_func=TAU_LABELS.get,
        disabled=solver == "exact",
        help="A reduction holds back $\\epsilon_n = \\tau\\,\\psi_{\\max,n}$ of client *n*'s VRAM with "
        "$\\tau \\sim U[0, 1]$: one τ for all clients, or one for each client. A limit on the total leaves every "
        "client its full budget and limits how many blocks are activated in all; *exact* always has one.",
    )
    if solver == "lexicographic" and tau_mode == "total":
        st.caption("The paper's method takes no total: one τ for all is used.")
    return {"solver": solver, "num_epsilons": num_epsilons, "tau_mode": tau_mode}


def kind_controls(place: Any) -> None:
    """The finer settings of the fleet's kind; for the Fleet page, before it solves anything."""
    kind = current().fleet_kind
    fields: dict[str, Any] = {}
    with place:
        if kind == "normal":
            fields = side_by_side(st, [("Mean (0 to 1)", "mean_fraction"), ("Spread", "spread")])
        elif kind == "lognormal":
            fields = side_by_side(st, [("Median (0 to 1)", "median_fraction"), ("Sigma", "sigma")])
        elif kind in ("two-kinds", "three-kinds"):
            three = kind == "three-kinds"
            medium = [("Medium (GiB)", "medium_gib")] if three else []
            fields = side_by_side(st, [("Small (GiB)", "small_gib"), *medium, ("Large (GiB)", "large_gib")])
            if three:
                fields["medium_fraction"] = control(st.slider, "Share of medium GPUs (%)", "medium_fraction")
            fields["large_fraction"] = control(st.slider, "Share of large GPUs (%)", "large_fraction")
        elif kind in MIXES:
            fields["card_share"] = control(st.slider, "Share of each card available (%)", "card_share")
        if kind in SCALED_KINDS:
            st.caption("Drawn between what one block needs and what all blocks need, so it grows with the model.")
        fields["leave_out_small"] = control(
            st.toggle,
            "Leave out clients that are too small",
            "leave_out_small",
            help="A client that cannot hold the model's parameters and one block cannot train anything.",
        )
    update(**fields)


def _write_address(scenario: Scenario) -> None:
    wanted = scenario_to_link(scenario)
    for key in (*KEYS.values(), ROWS):
        keep(key, wanted.get(key))


def _tell_ignored() -> None:
    ignored = st.session_state.pop(_IGNORED, None)
    if ignored:
        st.toast(
            f"The link has values that cannot be used ({', '.join(ignored)}); their defaults are shown instead.",
            icon=":material/link_off:",
        )
