"""The controls of the clients' VRAM, and the fleet in numbers: the left side of the page Explore."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from app import scenario as scenarios
from app.parts import fleets, ui
from app.scenario import MOST_COMPARED, SHAPES, Scenario, current, update
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.fleet import MIXES
from zorba_core.plots.memory import histogram_figure

RANDOM = ("uniform", "bell", "small", "gpus")  # shapes that a new draw changes
SHAPE_HELP = (
    "How much GPU memory each client has. **Uniform**: all sizes equally often, as in the paper. **Bell**: most in the "
    "middle. **Many small**: few large ones. **Two** or **three kinds** of GPU. **Real GPUs**: as often as people or "
    "clouds have them. **My list**: your own numbers or a file."
)
_SIZES = {"low": "Small (GiB)", "mid": "Medium (GiB)", "high": "Large (GiB)"}
_WORKLOAD = {"batch": "batch", "length": "length", "precision": "numbers as"}


def widget(scenario: Scenario, name: str, usual: object = None) -> str:
    """Set a field's widget to the field's value, or to ``usual`` if that is None. Return the widget's key."""
    value, last = getattr(scenario, name), st.session_state.get(f"usual_{name}", usual)
    st.session_state[f"usual_{name}"] = usual
    if value is None and last != usual:
        st.session_state[name] = usual  # another batch or length has other default sizes
    st.session_state.setdefault(name, usual if value is None else value)
    return name


def controls(scenario: Scenario) -> tuple[Scenario, fleets.Study]:
    """Draw the controls. Return the scenario and its fleet."""
    st.header("1 · The clients' VRAM", anchor=False, help=SHAPE_HELP)
    changes: dict[str, object] = {}
    key = widget(scenario, "shape")
    changes["shape"] = st.segmented_control(
        "Shape", list(SHAPES), format_func=SHAPES.get, key=key, label_visibility="collapsed", required=True, wrap=True
    )
    model, clients, work = st.columns([0.36, 0.26, 0.38], vertical_alignment="bottom")
    changes["model"] = model.selectbox(
        "Model", fleets.models(), key=widget(scenario, "model"), on_change=_other_model,
        help="The language model whose blocks the clients share.",
    )  # fmt: skip
    if changes["shape"] != "list":
        changes["clients"] = clients.number_input("Clients", step=1, key=widget(scenario, "clients"))
    batch, length = (st.session_state.get(name, getattr(scenario, name)) for name in ("batch", "length"))
    workload = work.popover(f"Batch {batch}, length {length}", width="stretch")
    with workload:
        changes |= _workload(scenario)
    scenario = checked(scenario, changes)
    workload.caption(_needs_in_words(scenario.needs))
    scenario = checked(scenario, _sizes(scenario))
    study = fleets.study(scenario.fleet)
    need = study.needs
    ui.figure(
        histogram_figure(
            study.all_N_gib,
            one_gib=need.one_gib,
            block_gib=need.block_gib,
            num_blocks=need.num_blocks,
            palette=ui.palette(),
            height={"three": 160, "list": 140}.get(scenario.shape, 190),
        ),
        key="histogram",
        alt=f"Histogram of the VRAM of {len(study.all_N_gib)} clients, in steps of one block.",
    )
    _summary(scenario, study)
    _buttons(scenario, study)
    return scenario, study


def _buttons(scenario: Scenario, study: fleets.Study) -> None:
    """Buttons: keep this fleet, draw another of its shape, return to the paper's."""
    with st.container(horizontal=True, gap="small"):
        link = scenarios.link_of(scenario.fleet)
        st.button(
            "Keep for comparison",
            icon=":material/keep:",
            on_click=_keep,
            disabled=len(scenario.compared) >= MOST_COMPARED
            or bool(study.problem)
            or any(item.endswith(f"|{link}") for item in scenario.compared),
            help=f"Show this fleet's curve together with later ones; up to {MOST_COMPARED}.",
        )
        st.button(
            "New draw",
            icon=":material/casino:",
            on_click=_new_draw,
            disabled=scenario.shape not in RANDOM,
            help="Draw other clients with the same shape.",
        )
        st.button(
            "As in the paper",
            icon=":material/undo:",
            on_click=_as_in_paper,
            disabled=scenario.is_paper and scenario.fleet == Scenario(model=scenario.model),
            help="50 clients, uniform from one block to all blocks.",
        )


def _needs_in_words(need: fleets.Needs) -> str:
    return (
        f"A client needs {need.model_gib:.2f} GiB for the model and {need.block_gib:.2f} GiB for each of the "
        f"{need.num_blocks} blocks that it trains, by the paper's VRAM model."
    )


def _workload(scenario: Scenario) -> dict[str, object]:
    fields = Scenario.model_fields
    st.caption("The paper uses batch 8 and length 128 or 256.")
    return {
        "batch": st.number_input("Batch", step=1, key=widget(scenario, "batch"), help=fields["batch"].description),
        "length": st.number_input("Length", step=16, key=widget(scenario, "length"), help=fields["length"].description),
        "precision": st.selectbox(
            "Numbers as",
            ["float32", "bfloat16"],
            key=widget(scenario, "precision"),
            help="bfloat16 takes half the VRAM.",
        ),
    }


def checked(scenario: Scenario, changes: dict[str, object]) -> Scenario:
    """Apply the valid changes to the scenario, and show a warning for each invalid one."""
    for name, value in changes.items():
        if value == getattr(scenario, name):
            continue
        try:
            scenario = scenario.replace(**{name: value})
        except InvalidInputError as error:
            message = str(error).replace(name, _SIZES.get(name, name.capitalize()), 1)
            st.warning(f"{ui.sentence(message)} The former value is used.", icon=":material/warning:")
    return scenario


def _sizes(scenario: Scenario) -> dict[str, object]:
    """The controls of the current shape."""
    need, shape = scenario.needs, scenario.shape
    if shape in ("uniform", "bell", "small"):
        usual, top = (round(need.one_gib, 2), round(need.all_gib, 2)), float(np.ceil(1.5 * need.all_gib))
        key = widget(scenario, "span", usual)
        if max(st.session_state[key]) > top:  # from a link, or from a larger batch
            st.session_state[key] = tuple(min(end, top) for end in st.session_state[key])
        span = st.slider("VRAM from, to (GiB)", 0.0, top, key=key, step=0.05 if need.all_gib < 20 else 0.5)
        return {"span": None if span == usual else span}
    if shape in ("two", "three"):
        return _kinds(scenario)
    if shape == "gpus":
        mix, card = st.columns(2)
        return {
            "mix": mix.selectbox(
                "GPUs", list(MIXES), format_func=lambda name: MIXES[name].title,
                key=widget(scenario, "mix"), help=f"Source: {MIXES[scenario.mix].source}.",
            ),
            "card": card.slider("Share for training (%)", 5, 100, key=widget(scenario, "card"), step=5),
        }  # fmt: skip
    return {"rows": _table(scenario)}


def _kinds(scenario: Scenario) -> dict[str, object]:
    usual = fleets.usual_sizes(scenario.needs)
    names = [name for name in _SIZES if name != "mid" or scenario.shape == "three"]
    changes: dict[str, object] = {}
    places = st.columns([0.24, 0.24, 0.52] if scenario.shape == "two" else 3)
    last = places[-1] if scenario.shape == "two" else st
    for name, place in zip(names, places, strict=False):
        value = place.number_input(_SIZES[name], step=0.1, key=widget(scenario, name, usual[name]), format="%g")
        changes[name] = None if value == usual[name] else value
    if scenario.shape == "two":
        changes["large"] = last.slider("Clients with the large one (%)", 0, 100, key=widget(scenario, "large"))
    else:
        changes["cuts"] = last.slider(
            "Small up to, large from (% of the clients)", 0, 100, key=widget(scenario, "cuts"), format="%d%%",
        )  # fmt: skip
    return changes


def _table(scenario: Scenario) -> tuple[tuple[float, int], ...]:
    """The editable table of clients. An uploaded file replaces its rows."""
    usual = fleets.usual_rows(scenario.needs)
    rows = scenario.rows or usual
    if st.session_state.get("table_base") is None or st.session_state.get("table_shown") != scenario.rows:
        st.session_state["table_base"] = rows  # the editor keeps its edits apart from the rows that it starts with
        st.session_state["table_turn"] = st.session_state.get("table_turn", 0) + 1
    editor, upload = st.columns([0.55, 0.45])
    with editor:
        edited = st.data_editor(
            pd.DataFrame(st.session_state["table_base"], columns=["GiB", "clients"]),
            num_rows="dynamic",
            hide_index=True,
            height=145,
            key=f"table_{st.session_state['table_turn']}",
            column_config={
                "GiB": st.column_config.NumberColumn(min_value=0.001, format="%.2f"),
                "clients": st.column_config.NumberColumn(min_value=0, step=1, format="%d"),
            },
            alt="Table of GiB and clients.",
        )
    with upload:
        st.file_uploader(
            "Or a file", type=["csv", "tsv", "txt", "xlsx"], key="table_file", on_change=_take_file,
            help="A column of GiB and, if you want, a column of names; or the output of "
            "`nvidia-smi --query-gpu=name,memory.total --format=csv`.",
        )  # fmt: skip
        if message := st.session_state.get("table_problem"):
            st.caption(f":red[{ui.sentence(message)}]")
    whole = edited.dropna()
    rows = tuple((float(gib), int(count)) for gib, count in whole.itertuples(index=False) if gib > 0 and count > 0)
    rows = () if rows == usual else rows
    st.session_state["table_shown"] = rows
    return rows


def _take_file() -> None:
    """Callback of the uploader."""
    file = st.session_state.get("table_file")
    st.session_state.pop("table_problem", None)
    if file is None:
        return
    try:
        rows = fleets.rows_of_file(file.getvalue())
    except ZorbaError as error:
        st.session_state["table_problem"] = str(error)
    else:
        update(rows=rows, shape="list", spend=None)


def _other_model() -> None:
    """Callback of the model: another model starts with its own sizes in GiB."""
    changes = {"model": st.session_state["model"], "span": None, "low": None, "mid": None, "high": None}
    update(**changes, spend=None, **({"rows": ()} if st.session_state.get("shape") == "list" else {}))


def _new_draw() -> None:
    update(seed=current().seed + 1)


def _as_in_paper() -> None:
    scenario = current()
    paper = Scenario(model=scenario.model)
    scenarios.put(
        paper.replace(**{name: getattr(scenario, name) for name in ("unit", "methods", "follow", "compared")})
    )


def _summary(scenario: Scenario, study: fleets.Study) -> None:
    if not len(study.gib_N):
        st.caption(f"{ui.count(len(study.all_N_gib), 'client')}; none has room for a block.")
    else:
        st.caption(
            f"{ui.count(len(study.gib_N), 'client')}, {study.total_gib:,.1f} GiB together; the median fits "
            f"{int(np.median(study.budget_N))} of {study.needs.num_blocks} blocks."
        )
    if not study.too_small:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        some = "1 client is" if study.too_small == 1 else f"{study.too_small} clients are"
        st.caption(f":material/warning: {some} too small for one block and left out.", width="content")
        if changes := fleets.rescued(scenario):
            message = " and ".join(f"{_WORKLOAD[name]} {value}" for name, value in changes.items())
            st.button(f"Include them: {message}", on_click=update, kwargs=changes, type="tertiary")


def name_of(scenario: Scenario, study: fleets.Study) -> str:
    """The fleet's name in legends and tables."""
    need, usual = study.needs, fleets.usual_sizes(study.needs)
    sizes = {name: getattr(scenario, name) or usual[name] for name in usual}
    if scenario.shape == "gpus":
        what = MIXES[scenario.mix].title
    elif scenario.shape == "two":
        what = f"Two kinds {sizes['low']:g}/{sizes['high']:g}, {scenario.large}%"
    elif scenario.shape == "three":
        what = f"Three kinds {sizes['low']:g}/{sizes['mid']:g}/{sizes['high']:g}"
    elif scenario.shape == "list":
        what = f"My list ({len(study.all_N_gib)})"
    else:
        low, high = scenario.span or (need.one_gib, need.all_gib)
        digits = 2 if high < 10 else 1
        what = f"{SHAPES[scenario.shape]} {low:.{digits}f}–{high:.{digits}f}"
    return what


class ComparedFleet(NamedTuple):
    """A fleet kept for comparison."""

    slot: int  # index of its colour
    name: str
    study: fleets.Study
    item: str  # its entry in the scenario


def _keep() -> None:
    scenario = current()
    taken = {item.split("|", 1)[0] for item in scenario.compared}
    slot = next((slot for slot in "0123" if slot not in taken), None)
    if slot is None:
        return
    name = name_of(scenario, fleets.study(scenario.fleet)).replace("|", "/")
    update(compared=(*scenario.compared, f"{slot}|{name}|{scenarios.link_of(scenario.fleet)}"))


def compared_fleets(scenario: Scenario) -> list[ComparedFleet]:
    """The fleets kept for comparison, without those that have no curve."""
    result = []
    for item in scenario.compared:
        slot, name, link = [*item.split("|", 2), "", ""][:3]
        study = fleets.study(scenarios.of_link(link).fleet)
        if study.scenario.model != scenario.model:
            name = f"{name}, {study.scenario.model}"
        if slot in ("0", "1", "2", "3") and not study.problem:
            result.append(ComparedFleet(int(slot), name[:60], study, item))
    return result
