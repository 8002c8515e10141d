"""Widgets that show a value kept elsewhere: in the scenario, among the remembered choices, as the selected point.

A value written into ``st.session_state`` under a widget's key does not always reach the browser: when the run is
interrupted (a click in the menu while the page is still drawn), the server keeps the value, the browser draws the
widget with its own default, the smallest value, and reports that at the next click as if the reader had chosen it.

Nothing is therefore written there. A widget is drawn with the kept value as its default, and gets a new key as soon as
the kept value is another than the one that it last showed. A report under an earlier key comes from a picture that is
out of date; it is ignored. The kept value changes only by what the reader does to the widget in view.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

_SHOWN = "shown_values"  # name: (how often the key changed, the value that the widget shows)


def widget_key(name: str, current: Any) -> str:
    """The key under which the widget ``name`` shows ``current``. Call it right before the widget is drawn."""
    shown = st.session_state.setdefault(_SHOWN, {})
    current = _comparable(current)
    turn, value = shown.get(name, (0, current))
    shown[name] = (turn if value == current else turn + 1, current)
    return current_key(name)


def current_key(name: str) -> str:
    """The key that the widget ``name`` was last drawn with."""
    turn, _ = st.session_state.get(_SHOWN, {}).get(name, (0, None))
    return f"{name}_{turn}" if turn else name


def is_shown(name: str) -> bool:
    """Whether the widget ``name`` has been drawn in this session."""
    return name in st.session_state.get(_SHOWN, {})


def shown_value(name: str) -> Any:
    """The value that the widget ``name`` was last known to show."""
    return st.session_state[_SHOWN][name][1]


def is_report(name: str, key: str) -> bool:
    """Whether what is reported under ``key`` is about the widget in view; its value then counts as shown."""
    if key != current_key(name):
        return False
    report(name, st.session_state[key])
    return True


def report(name: str, value: Any) -> None:
    """The reader has changed the widget ``name`` in view to ``value``."""
    turn, _ = st.session_state[_SHOWN][name]
    st.session_state[_SHOWN][name] = (turn, _comparable(value))


def starting_at(widget: Callable[..., Any], current: Any, options: Sequence[Any] = ()) -> dict[str, Any]:
    """The argument that makes ``current`` the default of ``widget``, which lists ``options`` or none."""
    names = _parameters(getattr(widget, "__func__", widget))
    if "index" in names:
        return {"index": list(options).index(current)}
    return {"value" if "value" in names else "default": current}


def as_typed(widget: Callable[..., Any], low: Any, high: Any, current: Any, step: Any) -> dict[str, Any]:
    """Arguments of ``widget`` for a number. A whole one is asked for as one with no decimals: of ``1e3``, Streamlit's
    field for whole numbers reads the 1 and drops the rest, without a word. What it reports is a float."""
    numbers = {"min_value": low, "max_value": high, "value": current, "step": step}
    if getattr(widget, "__name__", "") != "number_input" or not isinstance(current, int):
        return {name: number for name, number in numbers.items() if number is not None}
    numbers["step"] = step or 1
    return {name: float(number) for name, number in numbers.items()} | {"format": "%.0f"}


@functools.cache
def _parameters(widget: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(widget).parameters)


def _comparable(value: Any) -> Any:
    """Several choices come in the order of the clicks; that order says nothing."""
    return frozenset(value) if isinstance(value, list | tuple) else value
