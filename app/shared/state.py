"""The sidebar: it turns widgets into a :class:`~app.shared.scenario.Scenario`, and the page's address into widgets.

The scenario itself is what lasts: a control that is not drawn (on another page, for another kind of fleet) keeps its
value there, and every run writes the scenario into the address, so that a pasted link restores it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from app.shared.links import keep, opened, went_back
from app.shared.own_fleet import rows_of
from app.shared.scenario import FLEET_KINDS, PROVER, SCALED_KINDS, WITHOUT_TOTAL, Scenario
from app.shared.scenario_fields import CHOICES, KEYS, LIMITS, PERCENT, TAU_LABELS, is_whole
from app.shared.scenario_link import ROWS, is_held, scenario_from_link, scenario_to_link
from app.shared.studies import solution, solved, solved_or_error
from app.shared.widget_keys import as_typed, is_report, starting_at, widget_key
from zorba_core.allocation import SOLVERS
from zorba_core.errors import ZorbaError
from zorba_core.fleet import MIXES
from zorba_core.vram import DTYPE_BYTES, PRESETS

__all__ = [
    "apply",
    "begin",
    "current",
    "kind_controls",
    "sidebar",
    "solution",
    "solved",
    "solved_or_error",
    "update",
]

_SCENARIO, _IGNORED, _LONG_TABLE = "scenario", "ignored_parameters", "table_too_long_for_a_link"
_HELP = {name: field.description or None for name, field in Scenario.model_fields.items()}


def current() -> Scenario:
    """The scenario as of now."""
    return st.session_state[_SCENARIO]


def update(**fields: Any) -> Scenario:
    """Change fields of the scenario in this run; the address follows."""
    st.session_state[_SCENARIO] = current().replace(**fields)
    _write_address(current())
    return current()


def apply(scenario: Scenario) -> None:
    """Switch to another scenario. For callbacks: controls that show another value are drawn anew."""
    st.session_state[_SCENARIO] = scenario


def begin() -> None:
    """Read the scenario from the address, where the session has none yet or the reader goes back to an earlier address.
    Call before anything is drawn: from then on a run may be interrupted."""
    first = _SCENARIO not in st.session_state
    if not first and not went_back():
        return
    scenario, ignored = scenario_from_link(st.query_params.to_dict())
    if first:
        opened()
        st.session_state[_IGNORED] = ignored
    elif scenario.fleet_kind == "table" and ROWS not in st.query_params:
        scenario = scenario.replace(table=st.session_state.get(_LONG_TABLE, ()))
    st.session_state[_SCENARIO] = scenario


def sidebar(used: bool = True) -> None:
    """Draw the controls that pages share, and write the scenario into the address. Where the scenario decides nothing
    (``used``) they fold to one line."""
    with st.sidebar if used else st.sidebar.expander(f"Scenario: {in_short(current())}", icon=":material/tune:"):
        if not used:
            st.caption("Decides nothing on this page: Fleet, Trade-off, Allocation, Theory and Train follow it.")
        st.subheader("Fleet", anchor=False)
        _fleet_controls()
        st.subheader("Model and batch", anchor=False)
        _workload_controls()
        st.subheader("Search", anchor=False)
        _search_controls()
    _write_address(current())
    _tell_ignored()


def in_short(scenario: Scenario) -> str:
    """``50 clients, OPT-125M``."""
    count = len(scenario.table) if scenario.fleet_kind == "table" else scenario.num_clients
    return f"{count} client{'' if count == 1 else 's'}, {scenario.model.upper()}"


def control(widget: Callable[..., Any], label: str, name: str, **arguments: Any) -> None:
    """``widget`` shows a field of the scenario, and changes it when the reader changes the widget."""
    value, options = getattr(current(), name), ()
    arguments = {"help": _HELP.get(name), **arguments}
    if name in CHOICES:
        arguments["options"] = options = list(CHOICES[name]())
    elif name in LIMITS:
        limits, scale = LIMITS[name], 100 if name in PERCENT else 1
        kind = int if is_whole(name) or name in PERCENT else float
        value = kind(round(scale * value)) if name in PERCENT else kind(value)
        low, high, step = (kind(round(scale * bound, 6)) for bound in (limits.low, limits.high, limits.step))
        arguments |= as_typed(widget, low, high, value, step)
    key = widget_key(KEYS[name], value)
    arguments = starting_at(widget, value, options) | arguments
    widget(label, key=key, on_change=_take_over, args=(name, key), **arguments)


def _take_over(name: str, key: str) -> None:
    """A control's callback, and the only way from a control to the scenario: it follows before any page runs, so that a
    page may be drawn before its controls."""
    if not is_report(KEYS[name], key):
        return
    value = st.session_state[key]
    if (name, value) == ("fleet_kind", "table"):
        _start_table()
    if name in LIMITS and is_whole(name):
        value = int(value)
    st.session_state[_SCENARIO] = current().replace(**{name: value / 100 if name in PERCENT else value})


def side_by_side(place: Any, names: Sequence[tuple[str, str]]) -> None:
    """Number boxes for (label, field) next to each other."""
    for column, (label, name) in zip(place.columns(len(names)), names, strict=True):
        control(column.number_input, label, name)


def _fleet_controls() -> None:
    control(
        st.selectbox,
        "How much VRAM clients have",
        "fleet_kind",
        format_func=FLEET_KINDS.get,
        help="A client is one participant with one GPU. *Uniform* draws each client's VRAM between what the model and "
        "one block need and what the model and all blocks need, as the paper does. The Fleet page shows who takes "
        "part, and has the finer settings.",
    )
    if current().fleet_kind == "table":
        count = len(current().table)
        st.caption(f"{count} client{'' if count == 1 else 's'}, typed or uploaded on the Fleet page.")
        if not is_held(current()):
            st.caption(
                ":material/link_off: This table is too long for a link, and a reload loses it. The Fleet page saves "
                "it as CSV."
            )
    else:
        side_by_side(st, [("Clients N", "num_clients"), ("Seed", "seed")])


def _start_table() -> None:
    """The table of own clients starts with the fleet shown before, for editing."""
    before = current()
    if before.fleet_kind != "table" and not before.table:
        with contextlib.suppress(ZorbaError):
            update(table=rows_of(before.fleet()))


def _workload_controls() -> None:
    control(
        st.selectbox,
        "Model",
        "model",
        format_func=lambda name: f"{name.upper()} · {PRESETS[name].num_blocks} blocks",
        help="A block is one transformer layer. Each client trains some of the blocks and keeps the others frozen.",
    )
    side_by_side(st, [("Batch B", "batch_size"), ("Length L", "seq_len")])
    control(
        st.selectbox,
        "Number format",
        "dtype",
        format_func=lambda name: f"{name} · {DTYPE_BYTES[name]} bytes",
        help="Bytes per number, for parameters and activations alike.",
    )


def _search_controls() -> None:
    control(
        st.selectbox,
        "Solver",
        "solver",
        format_func=lambda name: SOLVERS[name].title,
        help=" ".join(f"*{part.title}*: {part.help}." for part in SOLVERS.values()),
    )
    control(st.number_input, "Points E", "num_epsilons")
    control(
        st.selectbox,
        "VRAM is saved by",
        "tau_mode",
        format_func=TAU_LABELS.get,
        disabled=current().solver == PROVER,
        help="A reduction holds back $\\epsilon_n = \\tau\\,\\psi_{\\max,n}$ of client *n*'s VRAM with "
        "$\\tau \\sim U[0, 1]$: one τ for all clients, or one for each client. A limit on the total leaves every "
        "client its full budget and limits how many blocks are activated in all; *exact* always has one.",
    )
    if current().tau_mode == "total" and current().solver == WITHOUT_TOTAL:
        st.caption(f"{current().solved_by.title} takes no total: one τ for all is used.")


def kind_controls(place: Any) -> None:
    """The finer settings of the fleet's kind; for the Fleet page, before it solves anything."""
    kind = current().fleet_kind
    with place:
        if kind == "normal":
            side_by_side(st, [("Mean (0 to 1)", "mean_fraction"), ("Spread", "spread")])
        elif kind == "lognormal":
            side_by_side(st, [("Median (0 to 1)", "median_fraction"), ("Sigma", "sigma")])
        elif kind in ("two-kinds", "three-kinds"):
            three = kind == "three-kinds"
            medium = [("Medium (GiB)", "medium_gib")] if three else []
            side_by_side(st, [("Small (GiB)", "small_gib"), *medium, ("Large (GiB)", "large_gib")])
            if three:
                control(st.slider, "Share of medium GPUs (%)", "medium_fraction")
            control(st.slider, "Share of large GPUs (%)", "large_fraction")
        elif kind in MIXES:
            control(st.slider, "Share of each card available (%)", "card_share")
        if kind in SCALED_KINDS:
            st.caption("Drawn between what one block needs and what all blocks need, so it grows with the model.")
        control(
            st.toggle,
            "Leave out clients that are too small",
            "leave_out_small",
            help="A client that cannot hold the model's parameters and one block cannot train anything.",
        )


def _write_address(scenario: Scenario) -> None:
    link = scenario_to_link(scenario)
    for key in (*KEYS.values(), ROWS):
        keep(key, link.get(key))
    if not is_held(scenario):
        st.session_state[_LONG_TABLE] = scenario.table  # for who comes back to this address


def _tell_ignored() -> None:
    ignored = st.session_state.pop(_IGNORED, None)
    if ignored:
        st.toast(
            f"The link has values that cannot be used ({', '.join(ignored)}); their defaults are shown instead.",
            icon=":material/link_off:",
            duration="infinite",  # a page that loads for long would outlive it
        )
