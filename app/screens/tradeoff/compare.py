"""Two pinned points side by side, differences only."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.screens.tradeoff.differences import Side, compare
from app.shared import components, pins, selection, state
from app.shared.pins import LETTERS, Pin
from app.shared.study import Study
from zorba_core.errors import ZorbaError


def tray(study: Study, point: int) -> None:
    """The pinned points as chips, in sight of the picture: go there, let go, compare; and what can still be pinned."""
    here, pinned = Pin(study.scenario, point), pins.pins()
    for letter in LETTERS:
        pin = pinned.get(letter)
        if pin is None:
            st.button(
                f"Pin as {letter.upper()}",
                key=f"pin_{letter}",
                on_click=pins.pin,
                args=(letter, study.scenario, point),
                icon=":material/keep:",
                type="tertiary",
                disabled=here in pinned.values(),
                help="Pin two points, of this scenario or of two, to see only what differs.",
            )
            continue
        with st.container(horizontal=True, gap=None, width="content", key=f"chip_{letter}"):
            st.button(
                f"{letter.upper()}: {_in_short(pin)}",
                key=f"go_{letter}",
                on_click=_go_to,
                args=(pin,),
                icon=":material/keep:",
                disabled=pin == here,
                help=f"Go to {letter.upper()}: its scenario and its point.",
            )
            st.button(
                " ",
                key=f"drop_{letter}",
                on_click=pins.unpin,
                args=(letter,),
                icon=":material/close:",
                help=f"Let {letter.upper()} go",
            )
    if not pinned or set(pinned.values()) == {here}:
        return
    if st.button("Compare", key="compare_pins", icon=":material/compare_arrows:", type="tertiary"):
        _in_front(study, point)


@st.dialog("What differs", width="large")
def _in_front(study: Study, point: int) -> None:
    _comparison(_sides(study, point), "compared")


def section(study: Study, point: int) -> None:
    """A against B; while only one is pinned, against what is selected."""
    if not pins.pins():
        return
    st.divider()
    sides = _sides(study, point)
    first, second = sides
    st.markdown(f"## {first} against {second}")
    _comparison(sides, "comparison")


def _sides(study: Study, point: int) -> dict[str, Side | str]:
    sides = {letter.upper(): _side(pin) for letter, pin in pins.pins().items()}
    if len(sides) == 1:
        sides["selected"] = Side(study, point, state.solution(study.scenario, point))
    return sides


def _comparison(sides: dict[str, Side | str], key: str) -> None:
    (first, left), (second, right) = sides.items()
    broken = [f"{name}: {side}" for name, side in sides.items() if isinstance(side, str)]
    if broken:
        components.problem("A pinned point cannot be shown; unpin it, or pin another", " ".join(broken))
        return
    comparison = compare(left, right, (first, second))
    if comparison.differing.empty:
        st.info("These two points are the same in every setting and every number.", icon=":material/equal:")
        return
    with st.container(key=key):
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


def _in_short(pin: Pin) -> str:
    """A pinned point's share of the VRAM and its Lambda, where it can be shown."""
    side = _side(pin)
    if isinstance(side, str):
        return "cannot be shown"
    front = side.study.front
    return f"{front.vram_ratio_E[side.point]:.0%}, Λ {front.bias_lambda_E[side.point]:.3g}"


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
