"""Λ against VRAM: the clients' VRAM on the left, the curves on the right, and who trains what below."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.parts import downloads, fleets, pictures, ui
from app.parts.shape import checked, compared_fleets, controls, widget
from app.scenario import Scenario, begin, current, end, store, stored, update

METHOD_HELP = (
    "Λ for each VRAM that the clients may use together. **Paper's method**: Algorithm 2, a sweep of 200 VRAM "
    "reductions. **Lower bound**: no allocation does better. **Exact**: the lowest Λ, at 12 points; a hollow one is "
    "not proven: a quarter of a second was too short. **Two-level**: one of the heuristics."
)
MATRIX_HELP = (
    "A column is a client, largest VRAM first; its bar is its VRAM. A row is a block of the model; a filled cell: the "
    "client trains the block. On the right, how many clients train each block; orange: far fewer than the others have."
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
        scenario, study = controls(scenario)
    if study.problem:
        with right:
            ui.problem(study.problem)
        end(scenario)
        return
    store(scenario)
    _result(study, right, st.container())
    _forget_buttons(scenario)
    _explain()


@ui.fragment
def _result(study: fleets.Study, right: DeltaGenerator, below: DeltaGenerator) -> None:
    """What the fleet's VRAM buys. A control in here leaves the rest of the page as it is."""
    scenario = stored()
    with right:
        scenario = _front(scenario, study)
    with below:
        _matrix(scenario, study)
        _compared(scenario)
    end(scenario)
    st.session_state["spend_shown"] = (st.session_state.get("spend"),)


def _front(scenario: Scenario, study: fleets.Study) -> Scenario:
    methods = fleets.methods()
    title, pills, unit = st.columns([0.24, 0.56, 0.2], vertical_alignment="center")
    title.header("2 · What it buys", anchor=False, help=METHOD_HELP)
    changes = {
        "methods": tuple(
            pills.pills(
                "Curves", list(methods), format_func=methods.get, selection_mode="multi",
                key=widget(scenario, "methods"), label_visibility="collapsed",
            )
        ),
        "unit": unit.segmented_control(
            "Unit", ["GiB", "%"], key=widget(scenario, "unit"), label_visibility="collapsed", required=True
        ),
    }  # fmt: skip
    scenario = checked(scenario, changes)
    reached = [name for name in fleets.methods() if name in scenario.methods and name != "bound"] or ["paper"]
    follow = scenario.follow if scenario.follow in reached else reached[0]
    scenario = checked(scenario, {"follow": follow})
    place = st.container()
    if slow := [name for name in reached if name != "paper" and not study.is_known(name)]:
        with place, st.spinner("Solving …"):
            for name in slow:
                study.curve(name)
    curve = study.curve(follow)
    point = study.point(follow, scenario.spend)
    labels = {f"{gib:,.1f}": index for index, gib in enumerate(curve.gib_P)}
    shown = f"{curve.gib_P[point]:,.1f}"
    spend, before = st.session_state.get("spend"), st.session_state.get("spend_shown", ())
    if spend not in labels or (spend in before and spend != shown):  # not moved by the user, but the curve changed
        st.session_state["spend"], st.session_state["spend_shown"] = shown, (*before, shown)
    if len(labels) > 1:
        label = st.select_slider(
            "VRAM to spend (GiB)", list(labels), key="spend", help="Over all clients. The steps are the curve's points."
        )
        if label != shown:
            point = labels[label]
            scenario = scenario.replace(spend=round(float(curve.gib_P[point]), 3))
    with place:
        _picture(scenario, study, point)
    _say(scenario, study, curve, point)
    return scenario


def _picture(scenario: Scenario, study: fleets.Study, point: int) -> None:
    curve = study.curve(scenario.follow)
    ui.figure(
        pictures.front(scenario, study, compared_fleets(scenario), palette=ui.palette(), height=320, point=point),
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
        update(spend=float(next(iter(data.values())) if isinstance(data, dict) else data[0]))


def _say(scenario: Scenario, study: fleets.Study, curve: fleets.Curve, point: int) -> None:
    has_note = pictures.has_references(scenario)
    note = " SC1 to SC3, the paper's three example points, lie above its own method." if has_note else ""
    gib, value = float(curve.gib_P[point]), float(curve.lambda_P[point])
    method = "the paper's method" if scenario.follow == "paper" else fleets.methods()[scenario.follow]
    st.markdown(
        f"With **{gib:,.1f} GiB** ({gib / study.total_gib:.0%}) {method} gives Λ **{ui.number(value)}**; no allocation "
        f"gets below {ui.number(min(study.bound_at(gib), value))}. With {curve.gib_P[-1]:,.1f} GiB, the most that it "
        f"uses, Λ is {ui.number(curve.lambda_P[-1])}.{note}"
    )


def _matrix(scenario: Scenario, study: fleets.Study) -> None:
    curve = study.curve(scenario.follow)
    solution = curve.solution(study.point(scenario.follow, scenario.spend))
    allocation = fleets.edited(solution, scenario.flips)
    changed_MN = allocation.A_MN != solution.allocation.A_MN
    by_hand = ""
    if changed_MN.any():
        by_hand = (
            f" {ui.count(int(changed_MN.sum()), 'cell')} changed by hand: {study.used_gib(allocation):,.1f} GiB, "
            f"Λ {ui.number(allocation.bias_lambda)}."
        )
    popularity_M, held_N = allocation.popularity_M, allocation.blocks_held_N
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header("3 · Who trains what at this point", anchor=False, width="content", help=MATRIX_HELP)
        st.caption(
            f"{_span(popularity_M)} of {allocation.num_clients:,} clients train each block; a client trains "
            f"{_span(held_N)} of {allocation.num_blocks}.{by_hand}"
        )
        reached = [name for name in fleets.methods() if name in scenario.methods and name != "bound"]
        if len(reached) > 1:
            st.segmented_control(
                "Matrix of", reached, format_func=fleets.methods().get, key=widget(scenario, "follow"), required=True,
                label_visibility="collapsed", on_change=_take_follow,
            )  # fmt: skip
        st.page_link("views/train.py", label="Train this", icon=":material/model_training:")
        st.page_link("views/allocation.py", label="Edit by hand", icon=":material/edit:")
        with st.popover("Download", icon=":material/download:"):
            downloads.menu(scenario, study, allocation)
    ui.figure(
        pictures.matrix(study, allocation, changed_MN=changed_MN, height=230),
        key="matrix",
        alt=f"Which of {allocation.num_blocks} blocks each of {allocation.num_clients} clients trains, under its VRAM.",
        name="zorba-allocation",
    )


def _take_follow() -> None:
    update(follow=st.session_state["follow"])


def _span(values: np.ndarray) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _compared(scenario: Scenario) -> None:
    compared = compared_fleets(scenario)
    if not compared:
        return
    st.header("Fleets kept for comparison, by the paper's method", anchor=False)
    rows, now = [], fleets.study(scenario.fleet)
    followed = now.curve(scenario.follow)
    spend = float(followed.gib_P[now.point(scenario.follow, scenario.spend)])
    for name, study in [*((each.name, each.study) for each in compared), ("this fleet", now)]:
        curve = study.curve("paper")
        point = curve.at(spend)
        rows.append(
            {
                "fleet": name,
                "clients": len(study.gib_N),
                "GiB together": study.total_gib,
                "median blocks": int(np.median(study.budget_N)),
                "GiB spent": float(curve.gib_P[point]),
                "Λ there": float(curve.lambda_P[point]),
                "most GiB used": float(curve.gib_P[-1]),
                "Λ at most": float(curve.lambda_P[-1]),
            }
        )
    two, four = st.column_config.NumberColumn(format="%.1f"), st.column_config.NumberColumn(format="%.3f")
    config = {"GiB together": two, "GiB spent": two, "most GiB used": two, "Λ there": four, "Λ at most": four}
    st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=config, alt="The kept fleets in numbers.")


def _forget_buttons(scenario: Scenario) -> None:
    compared = compared_fleets(scenario)
    if not compared:
        return
    with st.container(horizontal=True, gap="small"):
        for each in compared:
            st.button(
                f"Forget {ui.plain(each.name)}", icon=":material/close:", on_click=_forget, args=(each.item,),
                key=f"forget_{each.slot}_{each.name}",
            )  # fmt: skip


def _forget(item: str) -> None:
    update(compared=tuple(other for other in current().compared if other != item))


def _explain() -> None:
    with st.expander("Does a lower Λ train better?"):
        st.markdown(
            "That is open: over 15 allocations of one task at a fixed total of blocks, the rank correlation of Λ with "
            "the loss was 0.23, and its 95% interval (-0.46 to 0.78) contains zero. More VRAM lowers both, so "
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
