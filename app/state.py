"""The sidebar: it turns widgets into a :class:`~app.scenario.Scenario`, and the address of the page into widgets.

Every widget has a query parameter of its own name, so that a pasted link restores the scenario. A typed table
and an uploaded CSV are too long for a link; they live as long as the browser tab.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.links import linked
from app.scenario import FLEET_KINDS, Remedy, Scenario, Study, study
from zorba_core.allocation import Solution, solve
from zorba_core.errors import ZorbaError
from zorba_core.memory import DTYPE_BYTES
from zorba_core.models import PRESETS

# The exact solver takes too long for every point of a sweep; the page offers it for the selected one.
SOLVER_LABELS = {
    "balanced": "Balanced (fast)",
    "lexicographic": "Lexicographic (the paper's)",
    "two-level": "Two-level (smaller Λ)",
}
TAU_LABELS = {"vector": "one for all", "client": "one each"}
MAX_CLIENTS = 2_000
MAX_EPSILONS = 5_000
PROOF_SECONDS = 8.0


def sidebar() -> Scenario:
    """Draw the controls and return what they say."""
    with st.sidebar:
        st.subheader("Fleet", anchor=False)
        fleet = _fleet_controls()
        st.subheader("Model and batch", anchor=False)
        workload = _workload_controls()
        st.subheader("Search", anchor=False)
        search = _search_controls()
    return Scenario(**fleet, **workload, **search)


@st.cache_resource(max_entries=64, show_spinner="Solving every sampled reduction …", show_time=True)
def solved(scenario: Scenario) -> Study:
    """The study of a scenario, shared by every session that asks for the same one."""
    return study(scenario)


@st.cache_resource(max_entries=256, show_spinner=False)
def solution(scenario: Scenario, point: int) -> Solution:
    """A point's allocation with its bound."""
    return solved(scenario).front.solution(point)


@st.cache_resource(max_entries=64, show_spinner="Searching for a proof …", show_time=True)
def best_possible(scenario: Scenario, point: int) -> Solution:
    """The smallest Lambda within the budgets of a point, proven or with a bound after a few seconds."""
    return solve(solved(scenario).front.problem(point), solver="exact", time_limit=PROOF_SECONDS)


def apply_remedy(remedy: Remedy) -> None:
    """Set the sidebar to the remedy's scenario (a button's callback)."""
    changed = remedy.scenario
    st.session_state["leave_out"] = changed.leave_out_small
    st.session_state["seq"] = changed.seq_len
    st.session_state["batch"] = changed.batch_size
    st.session_state["dtype"] = changed.dtype


def _fleet_controls() -> dict:
    kind = linked(
        st.selectbox,
        "How much VRAM clients have",
        list(FLEET_KINDS),
        format_func=FLEET_KINDS.get,
        key="fleet",
        help="A client is one participant with one GPU. *Uniform* draws each client's VRAM between what the model and "
        "one block need and what the model and all blocks need, as the paper does.",
    )
    chosen: dict = {"fleet_kind": kind}
    if kind in ("uniform", "normal", "two-kinds"):
        left, right = st.columns(2)
        chosen["num_clients"] = left.number_input(
            "Clients N", 1, MAX_CLIENTS, 50, key="clients", bind="query-params", help="How many clients take part."
        )
        chosen["seed"] = right.number_input(
            "Seed",
            0,
            2**31 - 1,
            0,
            key="seed",
            bind="query-params",
            help="The same seed draws the same fleet and the same reductions.",
        )
    if kind == "normal":
        left, right = st.columns(2)
        chosen["mean_fraction"] = left.number_input(
            "Mean", 0.0, 1.0, 0.5, 0.05, key="mean", bind="query-params", help="0: one block, 1: all blocks."
        )
        chosen["spread"] = right.number_input(
            "Spread",
            0.01,
            2.0,
            0.2,
            0.05,
            key="spread",
            bind="query-params",
            help="Standard deviation, as a share of the range from one block to all blocks.",
        )
    if kind == "two-kinds":
        left, right = st.columns(2)
        chosen["small_gib"] = left.number_input("Small (GiB)", 0.1, 1024.0, 1.0, 0.5, key="small", bind="query-params")
        chosen["large_gib"] = right.number_input("Large (GiB)", 0.1, 1024.0, 2.0, 0.5, key="large", bind="query-params")
        chosen["large_fraction"] = (
            st.slider("Share of large GPUs (%)", 0, 100, 30, 5, key="share", bind="query-params") / 100
        )
    if kind == "table":
        chosen["table"] = _fleet_table()
    if kind == "csv":
        upload = st.file_uploader(
            "CSV with columns client,vram_gib",
            type=["csv"],
            key="csv_upload",
            help="At most 5 MB; client may be left out.",
        )
        if upload is not None:
            st.session_state["csv_bytes"] = upload.getvalue()
        chosen["csv"] = st.session_state.get("csv_bytes")
    chosen["leave_out_small"] = st.toggle(
        "Leave out clients that are too small",
        key="leave_out",
        bind="query-params",
        help="A client that cannot hold the model's parameters and one block cannot train anything.",
    )
    st.session_state["last_fleet_kind"] = kind
    return chosen


def _fleet_table() -> tuple[tuple[object, object], ...]:
    """The rows as typed. The editor keeps its edits only while shown, so what was typed is its start the next time."""
    if st.session_state.get("last_fleet_kind") != "table":
        st.session_state["table_start"] = st.session_state.get("table_rows", _example_rows())
    rows = st.data_editor(
        st.session_state["table_start"],
        num_rows="dynamic",
        hide_index=True,
        width="stretch",
        height=320,
        key="fleet_table",
        column_config={
            "client": st.column_config.TextColumn("Client"),
            "vram_gib": st.column_config.NumberColumn("VRAM (GiB)", format="%.2f", min_value=0.0, step=0.01),
        },
        alt="The fleet: one row per client with its name and its VRAM in GiB; edit cells, add or delete rows.",
    )
    st.session_state["table_rows"] = rows
    return tuple(rows.itertuples(index=False, name=None))


def _example_rows() -> pd.DataFrame:
    """A small mixed fleet that fits the smallest model, to be typed over."""
    vram_gib = [0.7, 0.7, 0.8, 0.8, 1.0, 1.0, 1.2, 1.2, 1.5, 1.5, 1.9, 1.9]
    return pd.DataFrame({"client": [f"client-{n}" for n in range(len(vram_gib))], "vram_gib": vram_gib})


def _workload_controls() -> dict:
    model = linked(
        st.selectbox,
        "Model",
        list(PRESETS),
        format_func=lambda name: f"{name.upper()} · {PRESETS[name].num_blocks} blocks",
        key="model",
        help="A block is one transformer layer. Each client trains some of the blocks and keeps the others frozen.",
    )
    left, right = st.columns(2)
    batch_size = left.number_input("Batch B", 1, 4096, 8, key="batch", bind="query-params", help="Sequences per step.")
    seq_len = right.number_input(
        "Length L", 1, 65536, 128, 16, key="seq", bind="query-params", help="Tokens per sequence."
    )
    dtype = linked(
        st.selectbox,
        "Number format",
        list(DTYPE_BYTES),
        format_func=lambda name: f"{name} · {DTYPE_BYTES[name]} bytes",
        key="dtype",
        help="Bytes per number, for parameters and activations alike.",
    )
    return {"model": model, "batch_size": batch_size, "seq_len": seq_len, "dtype": dtype}


def _search_controls() -> dict:
    solver = linked(
        st.selectbox,
        "Solver",
        list(SOLVER_LABELS),
        format_func=SOLVER_LABELS.get,
        key="solver",
        help="*Balanced* deals the blocks out in turn: every budget used, popularities within one of each other. "
        "*Lexicographic* is the paper's Dinic flow and greedy update (seconds for 1000 reductions). *Two-level* lowers "
        "Λ by letting a few large clients carry the scarce blocks; watch V and the effective clients.",
    )
    left, right = st.columns(2)
    num_epsilons = left.number_input(
        "Reductions E",
        1,
        MAX_EPSILONS,
        1000,
        100,
        key="vectors",
        bind="query-params",
        help="How many VRAM reductions ε are tried. Each gives one point of the plot.",
    )
    tau_mode = linked(
        right.selectbox,
        "τ drawn",
        list(TAU_LABELS),
        format_func=TAU_LABELS.get,
        key="tau",
        help="A reduction holds back $\\epsilon_n = \\tau\\,\\psi_{\\max,n}$ of client *n*'s VRAM with "
        "$\\tau \\sim U[0, 1]$: one τ for all clients, or one for each client.",
    )
    return {"solver": solver, "num_epsilons": num_epsilons, "tau_mode": tau_mode}


def current() -> Scenario:
    """The scenario that the sidebar showed in this run."""
    return st.session_state["scenario"]


def solved_or_error(scenario: Scenario) -> Study | ZorbaError:
    """The study, or why there is none."""
    try:
        return solved(scenario)
    except ZorbaError as error:
        return error
