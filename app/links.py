"""Choices that outlast their widgets, kept in the page's address by short names.

Streamlit forgets a widget of a page as soon as another page shows, and clears the address. What was chosen is therefore
remembered for the session too, and written into the address whenever its widget is drawn. A link should read
``?solver=lexicographic``, whatever the label says today.

A change is remembered before the page runs (the widget's callback), so a page may draw what follows from a choice
before it draws the widget itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import streamlit as st

from app.folders import as_code

TABLE_UNHELD = "table_unheld"  # the session began with a link that asks for a table of clients and holds none
_REMEMBERED, _PAGE, _ASKED = "remembered_choices", "page_at_hand", "asked_by_link"
Value = TypeVar("Value")


def linked(widget: Callable[..., str], label: str, options: Sequence[str], *, key: str, **arguments: Any) -> str:
    """``widget`` over ``options``, started from the address and kept in it. The first option is the default, which the
    address leaves out; a name the list does not have is ignored."""
    if st.session_state.get(key) not in options:
        asked = st.session_state.get(key) or remembered(key, None, str)
        st.session_state[key] = choice(key, options)
        if asked and asked not in options:
            shown = arguments.get("format_func", str)(st.session_state[key])
            _tell_absent(label, str(asked), f"instead: {shown}")
    value = widget(label, options, key=key, on_change=_take_over, args=(key,), **arguments)
    _remember(key, value)
    keep(key, None if value == options[0] else value)
    return value


def choice(key: str, options: Sequence[str]) -> str:
    """What was chosen last of ``options``, here or by the link; the first one otherwise."""
    held = remembered(key, options[0], lambda text: text if text in options else None)
    return held if held in options else options[0]


def linked_many(
    widget: Callable[..., Sequence[str]],
    label: str,
    options: Sequence[str],
    default: Sequence[str],
    *,
    key: str,
    **arguments: Any,
) -> list[str]:
    """As :func:`linked`, for a widget with several choices; in the address they are joined by commas."""

    held = st.session_state[key] if key in st.session_state else several(key, options, default)
    if key not in st.session_state or not set(held) <= set(options):
        if key not in st.session_state.get(_REMEMBERED, {}):
            for name in st.query_params.get(key, "").split(",")[:20]:
                if name and name not in options:
                    _tell_absent(label, name, "it is left out")
        st.session_state[key] = [option for option in held if option in options]
    chosen = widget(label, options, key=key, on_change=_take_over, args=(key,), **arguments)
    value = [option for option in options if option in chosen]
    _remember(key, value)
    keep(key, None if value == list(default) else ",".join(value))
    return value


def several(key: str, options: Sequence[str], default: Sequence[str]) -> list[str]:
    """What was chosen last of ``options``, any number of them, in their order."""
    held = remembered(key, list(default), lambda text: text.split(","))
    return [option for option in options if option in held]


def linked_number(
    widget: Callable[..., int], label: str, low: int, high: int, default: int, *, key: str, **arguments: Any
) -> int:
    """As :func:`linked`, for a whole number from ``low`` to ``high``."""
    if key not in st.session_state:
        st.session_state[key] = number(key, low, high, default)
    value = widget(label, low, high, key=key, on_change=_take_over, args=(key,), **arguments)
    _remember(key, value)
    keep(key, None if value == default else str(value))
    return value


def number(key: str, low: int, high: int, default: int) -> int:
    """The whole number chosen last, here or by the link."""

    def parse(text: str) -> int | None:
        return int(text) if text.isdecimal() and len(text) < 10 and low <= int(text) <= high else None

    value = remembered(key, default, parse)
    return value if low <= value <= high else default  # chosen where the limits were others


def linked_switch(label: str, default: bool, *, key: str, **arguments: Any) -> bool:
    """A toggle that the address keeps as ``key=true`` or ``key=false``."""
    if key not in st.session_state:
        st.session_state[key] = switched(key, default)
    value = st.toggle(label, key=key, on_change=_take_over, args=(key,), **arguments)
    _remember(key, value)
    keep(key, None if value == default else str(value).lower())
    return value


def switched(key: str, default: bool) -> bool:
    """How the toggle stood last, here or by the link."""
    return remembered(key, default, {"true": True, "false": False}.get)


def linked_text(label: str, *, key: str, longest: int = 200, **arguments: Any) -> str:
    """A text field that the address keeps as it was typed."""
    if key not in st.session_state:
        st.session_state[key] = remembered(key, "", lambda text: text[:longest])
    value = st.text_input(label, key=key, on_change=_take_over, args=(key,), max_chars=longest, **arguments)
    carry(key, value, "")
    return value


def remembered(key: str, default: Value, parse: Callable[[str], Value | None]) -> Value:
    """The value that the session remembers, else what ``parse`` makes of the address, else ``default``."""
    known = st.session_state.get(_REMEMBERED, {})
    if key in known:
        return known[key]
    text = st.query_params.get(key)
    value = None if text is None else parse(text)
    return default if value is None else value


def carry(key: str, value: Any, default: Any) -> None:
    """Keep a choice of another page's widget in the address of a page that shows what follows from it."""
    _remember(key, value)
    keep(key, None if value == default else str(value))


def forget(key: str) -> None:
    """Start a choice anew: what it was about is not there any more, by the reader's own doing."""
    st.session_state.get(_REMEMBERED, {}).pop(key, None)
    st.session_state.pop(key, None)
    keep(key, None)


def arrive(page: str) -> None:
    """Call before ``page`` is drawn. On the way from another page the address counts, not what the session remembers:
    a link between pages asks for something that the reader may have had otherwise before."""
    before = st.session_state.get(_PAGE)
    st.session_state[_PAGE] = page
    if before == page:
        return
    st.session_state[_ASKED] = set(st.query_params)
    if before is None and st.query_params.get("fleet") == "table" and "rows" not in st.query_params:
        st.session_state[TABLE_UNHELD] = True
    if before is not None:
        for key in st.session_state[_ASKED] & set(st.session_state.get(_REMEMBERED, {})):
            del st.session_state[_REMEMBERED][key]
            st.session_state.pop(key, None)


def take_asked(key: str) -> bool:
    """Whether the reader has come to this page by a link that names ``key``; True once a visit, however often the first
    run of the page is cut short before it asks."""
    asked = st.session_state.get(_ASKED, set())
    if key not in asked:
        return False
    asked.discard(key)
    return True


def _tell_absent(label: str, asked: str, instead: str) -> None:
    """Say that what a link or an earlier choice asks for is not offered, and what there is instead."""
    st.toast(
        f"{label}: {as_code(asked[:80])} is not offered here; {instead}.", icon=":material/link_off:", duration="long"
    )


def keep(key: str, value: str | None) -> None:
    """Put ``key=value`` into the address, or take ``key`` out of it."""
    if value is None:
        if key in st.query_params:
            del st.query_params[key]
    elif st.query_params.get(key) != value:
        st.query_params[key] = value


def _take_over(key: str) -> None:
    """A widget's callback, before the page runs."""
    _remember(key, st.session_state[key])


def _remember(key: str, value: Any) -> None:
    st.session_state.setdefault(_REMEMBERED, {})[key] = value
