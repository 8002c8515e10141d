"""Λ against VRAM: shape the clients' VRAM on the left, see what it buys on the right, and who trains what below."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app import scenario as scenarios
from app.parts import downloads, fleets, pictures, ui
from app.scenario import MOST_KEPT, SHAPES, Scenario, begin, end, update
from zorba_core.errors import ZorbaError
from zorba_core.plots.fleet import histogram_figure

RANDOM = ("uniform", "bell", "small", "gpus")  # shapes that a new draw changes
METHOD_HELP = (
    "**Paper's method**: Algorithm 2, the front of 1,000 VRAM reductions. **Lower bound**: no allocation does better. "
    "**Exact**: the best allocation, at 12 points; takes seconds. **Two-level**: one of the heuristics."
)


def page() -> None:
    scenario = begin("explore")
    st.title("Λ against VRAM", anchor=False)
    st.markdown(
        "Each client trains the blocks that fit its GPU. A block that few clients train learns with more bias. "
        "**Λ** adds that up; lower is better. Shape the VRAM on the left, see what it buys on the right."
    )
    left, right = st.columns([0.37, 0.63], gap="medium")
    with left:
        scenario, study = _shape(scenario)
    if study.problem:
        with right:
            ui.problem(study.problem)
        end(scenario)
        return
    with right:
        scenario = _front(scenario, study)
    _matrix(scenario, study)
    _kept(scenario)
    _explain()
    end(scenario)


def _widget(scenario: Scenario, name: str, shown: object = None) -> str:
    """The key of a field's widget, which shows the field's value, or ``shown`` where the field is None."""
    value = getattr(scenario, name)
    st.session_state.setdefault(name, shown if value is None else value)
    return name


def _shape(scenario: Scenario) -> tuple[Scenario, fleets.Study]:
    st.header("1 · The clients' VRAM", anchor=False)
    changes: dict[str, object] = {}
    key = _widget(scenario, "shape")
    changes["shape"] = st.segmented_control(
        "Shape", list(SHAPES), format_func=SHAPES.get, key=key, label_visibility="collapsed", required=True, wrap=True
    )
    model, clients, work = st.columns([0.36, 0.26, 0.38], vertical_alignment="bottom")
    changes["model"] = model.selectbox("Model", fleets.models(), key=_widget(scenario, "model"), on_change=_other_model)
    if changes["shape"] != "list":
        changes["clients"] = clients.number_input("Clients", step=1, key=_widget(scenario, "clients"))
    with work.popover(f"Batch {scenario.batch}, length {scenario.length}", width="stretch"):
        changes |= _workload(scenario)
    scenario = _checked(scenario, changes)
    scenario = _checked(scenario, _sizes(scenario))
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
    with st.container(horizontal=True, gap="small"):
        taken = [item.split("|", 1)[0] for item in scenario.kept]
        st.button(
            "Keep for comparison",
            icon=":material/keep:",
            on_click=_keep,
            args=(scenario, next((slot for slot in "0123" if slot not in taken), "")),
            disabled=len(taken) >= MOST_KEPT or bool(study.problem),
            help=f"Draw this fleet's curve beside the next ones; up to {MOST_KEPT}.",
        )
        st.button(
            "New draw",
            icon=":material/casino:",
            on_click=update,
            kwargs={"seed": scenario.seed + 1},
            disabled=scenario.shape not in RANDOM,
            help="Other clients of the same shape.",
        )
        st.button(
            "As in the paper",
            icon=":material/undo:",
            on_click=_as_in_paper,
            args=(scenario,),
            disabled=scenario.is_paper and scenario.fleet == Scenario(model=scenario.model),
            help="50 clients, uniform from one block to all blocks.",
        )
    return scenario, study


def _workload(scenario: Scenario) -> dict[str, object]:
    fields = Scenario.model_fields
    st.caption("VRAM grows with both. The paper has batch 8 and length 128 or 256.")
    return {
        "batch": st.number_input("Batch", step=1, key=_widget(scenario, "batch"), help=fields["batch"].description),
        "length": st.number_input(
            "Length", step=16, key=_widget(scenario, "length"), help=fields["length"].description
        ),
        "precision": st.selectbox("Numbers", ["float32", "bfloat16"], key=_widget(scenario, "precision")),
    }


def _checked(scenario: Scenario, changes: dict[str, object]) -> Scenario:
    """The scenario with each change that is a value of its field; one line for each that is not."""
    for name, value in changes.items():
        if value == getattr(scenario, name):
            continue
        try:
            scenario = scenario.replace(**{name: value})
        except ValueError:
            bounds = Scenario.model_fields[name].metadata
            low, high = (
                next((getattr(part, end) for part in bounds if hasattr(part, end)), None) for end in ("ge", "le")
            )
            reach = f"from {low:,} to {high:,}" if high is not None else "a valid value"
            st.warning(f"{name.capitalize()} must be {reach}; the value before is used.", icon=":material/warning:")
    return scenario


def _sizes(scenario: Scenario) -> dict[str, object]:
    """The shape's own controls."""
    need, shape = scenario.needs, scenario.shape
    if shape in ("uniform", "bell", "small"):
        usual = round(need.one_gib, 2), round(need.all_gib, 2)
        span = st.slider(
            "From, to (GiB)",
            0.0,
            float(np.ceil(1.5 * need.all_gib)),
            key=_widget(scenario, "span", usual),
            step=0.05 if need.all_gib < 20 else 0.5,
        )
        return {"span": None if span == usual else span}
    if shape in ("two", "three"):
        return _kinds(scenario)
    if shape == "gpus":
        mix, card = st.columns(2)
        return {
            "mix": mix.selectbox(
                "GPUs", list(fleets.MIXES), format_func=lambda name: fleets.MIXES[name].title,
                key=_widget(scenario, "mix"), help=f"Source: {fleets.MIXES[scenario.mix].source}.",
            ),
            "card": card.slider("Share for training (%)", 5, 100, key=_widget(scenario, "card"), step=5),
        }  # fmt: skip
    return {"rows": _table(scenario)}


def _kinds(scenario: Scenario) -> dict[str, object]:
    usual = fleets.usual_sizes(scenario.needs)
    titles = {"low": "Small (GiB)", "mid": "Medium (GiB)", "high": "Large (GiB)"}
    names = [name for name in titles if name != "mid" or scenario.shape == "three"]
    changes: dict[str, object] = {}
    places = st.columns([0.24, 0.24, 0.52] if scenario.shape == "two" else 3)
    last = places[-1] if scenario.shape == "two" else st
    for name, place in zip(names, places, strict=False):
        value = place.number_input(titles[name], step=0.1, key=_widget(scenario, name, usual[name]), format="%g")
        changes[name] = None if value == usual[name] else value
    if scenario.shape == "two":
        changes["large"] = last.slider("Clients with the large one (%)", 0, 100, key=_widget(scenario, "large"))
    else:
        changes["cuts"] = last.slider(
            "Small up to, large from (% of the clients)", 0, 100, key=_widget(scenario, "cuts"), format="%d%%",
        )  # fmt: skip
    return changes


def _table(scenario: Scenario) -> tuple[tuple[float, int], ...]:
    """Rows of the editable table; what is uploaded becomes its rows."""
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
            help="A column of GiB, and one of names if you like; or what "
            "`nvidia-smi --query-gpu=name,memory.total --format=csv` prints.",
        )  # fmt: skip
        if said := st.session_state.get("table_problem"):
            st.caption(f":red[{ui.sentence(said)}]")
    whole = edited.dropna()
    rows = tuple((float(gib), int(count)) for gib, count in whole.itertuples(index=False) if gib > 0 and count > 0)
    rows = () if rows == usual else rows
    st.session_state["table_shown"] = rows
    return rows


def _take_file() -> None:
    """The uploader's callback."""
    file = st.session_state.get("table_file")
    st.session_state.pop("table_problem", None)
    if file is None:
        return
    try:
        rows = fleets.rows_of_file(file.getvalue())
    except ZorbaError as error:
        st.session_state["table_problem"] = str(error)
    else:
        update(rows=rows, shape="list", spend=None, flips="")


def _other_model() -> None:
    """Sizes in GiB suit one model: another starts with its own."""
    changes = {"model": st.session_state["model"], "span": None, "low": None, "mid": None, "high": None}
    update(**changes, spend=None, flips="", **({"rows": ()} if st.session_state.get("shape") == "list" else {}))


def _as_in_paper(scenario: Scenario) -> None:
    paper = Scenario(model=scenario.model)
    scenarios.put(paper.replace(**{name: getattr(scenario, name) for name in ("unit", "methods", "follow", "kept")}))


def _summary(scenario: Scenario, study: fleets.Study) -> None:
    if not len(study.gib_N):
        st.caption(f"{ui.count(len(study.all_N_gib), 'client')}; none has room for a block.")
    else:
        st.caption(
            f"{ui.count(len(study.gib_N), 'client')}, {study.total_gib:,.1f} GiB together; the median client fits "
            f"{int(np.median(study.budget_N))} of {study.needs.num_blocks} blocks."
        )
    if not study.too_small:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        some = "1 client is" if study.too_small == 1 else f"{study.too_small} clients are"
        st.caption(f":material/warning: {some} too small for one block and left out.", width="content")
        if changes := fleets.rescued(scenario):
            said = " and ".join(f"{name} {value}" for name, value in changes.items())
            st.button(f"Keep with {said}", on_click=update, kwargs=changes, type="tertiary")


def name_of(scenario: Scenario, study: fleets.Study) -> str:
    """What a fleet is called in legends and tables."""
    need, usual = study.needs, fleets.usual_sizes(study.needs)
    sizes = {name: getattr(scenario, name) or usual[name] for name in usual}
    if scenario.shape == "gpus":
        what = fleets.MIXES[scenario.mix].title
    elif scenario.shape == "two":
        what = f"Two kinds {sizes['low']:g}/{sizes['high']:g}, {scenario.large} %"
    elif scenario.shape == "three":
        what = f"Three kinds {sizes['low']:g}/{sizes['mid']:g}/{sizes['high']:g}"
    elif scenario.shape == "list":
        what = f"My list ({len(study.all_N_gib)})"
    else:
        low, high = scenario.span or (need.one_gib, need.all_gib)
        what = f"{SHAPES[scenario.shape]} {low:.2g}–{high:.2g}"
    return what if scenario.model == "opt-125m" else f"{what}, {scenario.model}"


def _keep(scenario: Scenario, slot: str) -> None:
    name = name_of(scenario, fleets.study(scenario.fleet)).replace("|", "/")
    update(kept=(*scenario.kept, f"{slot}|{name}|{scenarios.link_of(scenario.fleet)}"))


def kept_fleets(scenario: Scenario) -> list[tuple[int, str, fleets.Study]]:
    """Slot, name and study of each fleet kept for comparison; one that cannot be drawn is left out."""
    result = []
    for item in scenario.kept:
        slot, name, link = [*item.split("|", 2), "", ""][:3]
        study = fleets.study(scenarios.of_link(link).fleet)
        if slot in ("0", "1", "2", "3") and not study.problem:
            result.append((int(slot), name[:60], study))
    return result


def _front(scenario: Scenario, study: fleets.Study) -> Scenario:
    methods = fleets.methods()
    title, pills, unit = st.columns([0.24, 0.56, 0.2], vertical_alignment="center")
    title.header("2 · What it buys", anchor=False)
    changes = {
        "methods": tuple(
            pills.pills(
                "Curves", list(methods), format_func=methods.get, selection_mode="multi",
                key=_widget(scenario, "methods"), label_visibility="collapsed", help=METHOD_HELP,
            )
        ),
        "unit": unit.segmented_control(
            "Unit", ["GiB", "%"], key=_widget(scenario, "unit"), label_visibility="collapsed", required=True
        ),
    }  # fmt: skip
    scenario = _checked(scenario, changes)
    reached = [name for name in fleets.methods() if name in scenario.methods and name != "bound"] or ["paper"]
    follow = scenario.follow if scenario.follow in reached else reached[0]
    scenario = _checked(scenario, {"follow": follow})
    place = st.container()
    if slow := [name for name in reached if name != "paper" and not study.is_known(name)]:
        with place, st.spinner("Solving …"):
            for name in slow:
                study.curve(name)
    curve = study.curve(follow)
    point = curve.at(scenario.spend)
    labels = {f"{gib:.1f}": index for index, gib in enumerate(curve.gib_P)}
    shown = f"{curve.gib_P[point]:.1f}"
    if st.session_state.get("spend") not in labels or st.session_state["spend"] == st.session_state.get("spend_shown"):
        st.session_state["spend"] = shown  # nobody moved it, and the curve may be another
    if len(labels) > 1:
        label = st.select_slider(
            "VRAM to spend (GiB)", list(labels), key="spend", help="Over all clients. The steps are the curve's points."
        )
        if label != shown:
            point = labels[label]
            scenario = scenario.replace(spend=round(float(curve.gib_P[point]), 3), flips="")
        st.session_state["spend_shown"] = label
    with place:
        _picture(scenario, study, point)
    _say(scenario, study, curve, point)
    return scenario


def _picture(scenario: Scenario, study: fleets.Study, point: int) -> None:
    curve = study.curve(scenario.follow)
    ui.figure(
        pictures.front(scenario, study, kept_fleets(scenario), palette=ui.palette(), height=320, point=point),
        key="front",
        select=_take_click,
        alt=f"Λ against VRAM: {curve.lambda_P[0]:.3g} at {curve.gib_P[0]:.1f} GiB to {curve.lambda_P[-1]:.3g} "
        f"at {curve.gib_P[-1]:.1f} GiB.",
        name="zorba-lambda-vram",
    )


def _take_click() -> None:
    """A click on a curve moves the slider to its VRAM."""
    points = st.session_state["front"].selection.points
    data = points[0].get("customdata") if points else None
    if data:  # the browser sends a list as an object
        update(spend=float(next(iter(data.values())) if isinstance(data, dict) else data[0]), flips="")


def _say(scenario: Scenario, study: fleets.Study, curve: fleets.Curve, point: int) -> None:
    note = " SC1 to SC3, from the paper, lie above its own front." if pictures.has_references(scenario) else ""
    gib, value = float(curve.gib_P[point]), float(curve.lambda_P[point])
    st.markdown(
        f"With **{gib:,.1f} GiB** ({gib / study.total_gib:.0%}) Λ is **{ui.number(value)}**; no allocation gets below "
        f"{ui.number(min(study.bound_at(gib), value))}. With all useful VRAM, {curve.gib_P[-1]:,.1f} GiB, Λ is "
        f"{ui.number(curve.lambda_P[-1])}.{note}"
    )


def _matrix(scenario: Scenario, study: fleets.Study) -> None:
    curve = study.curve(scenario.follow)
    point = curve.at(scenario.spend)
    allocation = curve.solution(point).allocation
    popularity_M, held_N = allocation.popularity_M, allocation.blocks_held_N
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header("3 · Who trains what at this point", anchor=False, width="content")
        st.caption(
            f"{_span(popularity_M)} of {allocation.num_clients} clients train each block; each client trains "
            f"{_span(held_N)} of {allocation.num_blocks} blocks."
        )
        reached = [name for name in fleets.methods() if name in scenario.methods and name != "bound"]
        if len(reached) > 1:
            st.segmented_control(
                "Matrix of", reached, format_func=fleets.methods().get, key=_widget(scenario, "follow"), required=True,
                label_visibility="collapsed", on_change=_take_follow,
            )  # fmt: skip
        st.page_link("views/train.py", label="Train this", icon=":material/model_training:")
        st.page_link("views/allocation.py", label="Edit by hand", icon=":material/edit:")
        with st.popover("Download", icon=":material/download:"):
            downloads.menu(scenario, study, allocation)
    ui.figure(
        pictures.matrix(study, allocation, height=230),
        key="matrix",
        alt=f"Which of {allocation.num_blocks} blocks each of {allocation.num_clients} clients trains, under its VRAM.",
        name="zorba-allocation",
    )


def _take_follow() -> None:
    update(follow=st.session_state["follow"], flips="")


def _span(values: np.ndarray) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _kept(scenario: Scenario) -> None:
    kept = kept_fleets(scenario)
    if not kept:
        return
    st.header("Fleets kept for comparison", anchor=False)
    rows = []
    now = fleets.study(scenario.fleet)
    for name, study in [*((name, study) for _, name, study in kept), ("this fleet", now)]:
        curve = study.curve("paper")
        point = curve.at(
            scenario.spend if scenario.spend is not None else float(now.curve("paper").gib_P[curve_third(now)])
        )
        reaches = curve.gib_P[point]
        rows.append(
            {
                "fleet": name,
                "clients": len(study.gib_N),
                "GiB together": study.total_gib,
                "median blocks": int(np.median(study.budget_N)),
                "GiB spent": float(reaches),
                "Λ there": float(curve.lambda_P[point]),
                "most GiB used": float(curve.gib_P[-1]),
                "Λ at most": float(curve.lambda_P[-1]),
            }
        )
    two, four = st.column_config.NumberColumn(format="%.1f"), st.column_config.NumberColumn(format="%.3f")
    config = {"GiB together": two, "GiB spent": two, "most GiB used": two, "Λ there": four, "Λ at most": four}
    st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=config, alt="The kept fleets in numbers.")
    with st.container(horizontal=True, gap="small"):
        for place, (_, name, _) in enumerate(kept):
            rest = scenario.kept[:place] + scenario.kept[place + 1 :]
            st.button(
                f"Forget {ui.plain(name)}", icon=":material/close:", on_click=update, kwargs={"kept": rest},
                key=f"forget_{place}",
            )  # fmt: skip


def curve_third(study: fleets.Study) -> int:
    return study.curve("paper").at(None)


def _explain() -> None:
    with st.expander("Does a lower Λ train better?"):
        st.markdown(
            "That is open: over 33 allocations of one task at a fixed total of blocks, the rank correlation of Λ with "
            "the loss was -0.26, and its 95 % interval (-0.65 to 0.28) contains zero. More VRAM lowers both, so "
            "choosing by the total of blocks does as well."
        )
    with st.expander("The six symbols"):
        st.markdown(
            "| symbol | meaning |\n|---|---|\n"
            "| M, N | number of blocks, of clients |\n"
            "| $a_{m,n}$ | 1 if client n trains block m |\n"
            "| $c_m$ | popularity: how many clients train block m |\n"
            r"| $\underline{c}_n$ | the smallest popularity among client n's blocks |" "\n"
            r"| $\Lambda = \sum_n 1/\underline{c}_n^2$ | the bias term of the paper's bound on convergence |" "\n"
            r"| $\psi$ | VRAM by the paper's model: parameters, and a fixed amount for each block |" "\n"
        )  # fmt: skip


page()
