"""Two pinned points side by side, differences only."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.screens.tradeoff.differences import Side, compare
from app.shared import components, pins, selection, state
from app.shared.pins import LETTERS, Pin
from app.shared.scenario import Scenario, Study
from zorba_core.errors import ZorbaError


def pin_buttons(scenario: Scenario, point: int) -> None:
    """Set the selected point aside as A or B."""
    here = Pin(scenario, point)
    for letter in LETTERS:
        pinned = pins.pins().get(letter) == here
        st.button(
            f"Unpin {letter.upper()}" if pinned else f"Pin as {letter.upper()}",
            key=f"pin_{letter}",
            on_click=pins.unpin if pinned else pins.pin,
            args=(letter,) if pinned else (letter, scenario, point),
            icon=":material/keep_off:" if pinned else ":material/keep:",
            type="tertiary",
            help="Pin two points, of this scenario or of two, to see only what differs.",
        )


def section(study: Study, point: int) -> None:
    """A against B; while only one is pinned, against what is selected."""
    pinned = pins.pins()
    if not pinned:
        return
    st.divider()
    sides = {letter.upper(): _side(pin) for letter, pin in pinned.items()}
    if len(sides) == 1:
        sides["selected"] = Side(study, point, state.solution(study.scenario, point))
    (first, left), (second, right) = sides.items()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"## {first} against {second}", width="stretch")
        for letter, pin in pinned.items():
            if letter.upper() in sides:
                st.button(
                    f"Go to {letter.upper()}",
                    key=f"go_{letter}",
                    on_click=_go_to,
                    args=(pin,),
                    type="tertiary",
                    icon=":material/my_location:",
                )
                st.button(
                    f"Let {letter.upper()} go",
                    key=f"drop_{letter}",
                    on_click=pins.unpin,
                    args=(letter,),
                    type="tertiary",
                    icon=":material/close:",
                )
    broken = [f"{name}: {side}" for name, side in sides.items() if isinstance(side, str)]
    if broken:
        components.problem("A pinned point cannot be shown; unpin it, or pin another", " ".join(broken))
        return
    comparison = compare(left, right, (first, second))
    if comparison.differing.empty:
        st.info("These two points are the same in every setting and every number.", icon=":material/equal:")
        return
    with st.container(key="comparison"):
        st.dataframe(
            comparison.differing,
            hide_index=True,
            width="stretch",
            height="content",
            alt=f"What differs between {first} and {second}: settings first, then numbers with their ratio.",
        )
    st.caption(
        f"{first}: {_name(left)}. {second}: {_name(right)}. "
        f"The same in both: {', '.join(comparison.same) or 'nothing'}."
    )


def _side(pin: Pin) -> Side | str:
    """The pinned point solved, or in words why it cannot be."""
    try:
        study = state.solved(pin.scenario)
        if pin.point >= len(study.front) or np.isnan(study.front.bias_lambda_E[pin.point]):
            return f"its sweep has no point {pin.point}."
        return Side(study, pin.point, state.solution(pin.scenario, pin.point))
    except ZorbaError as error:
        return f"{error}."


def _go_to(pin: Pin) -> None:
    state.apply(pin.scenario)
    selection.select(pin.scenario, pin.point)


def _name(side: Side) -> str:
    ratio = side.study.front.vram_ratio_E[side.point]
    return f"{side.scenario.solved_by.title.lower()}, point {side.point}, {ratio:.0%} of VRAM"
