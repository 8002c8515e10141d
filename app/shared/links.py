"""Choices that outlast their widgets, kept in the page's address by short names.

Streamlit forgets a widget of a page as soon as another page shows, and clears the address. What was chosen is therefore
remembered for the session too, and written into the address whenever its widget is drawn. A link should read
``?solver=lexicographic``, whatever the label says today.

A change is remembered before the page runs (the widget's callback), so a page may draw what follows from a choice
before it draws the widget itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from typing import Any, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.shared.escape import as_code, plain
from app.shared.widget_keys import as_typed, is_report, starting_at, widget_key

TABLE_UNHELD = "table_unheld"  # the session began with a link that asks for a table of clients and holds none
_PAGE, _ASKED = "page_at_hand", "asked_by_link"
_REMEMBERED, _OPENED, _KEPT = "remembered_choices", "opened_address", "kept_by_page"
ValueT = TypeVar("ValueT")
NumberT = TypeVar("NumberT", int, float)


def linked(
    widget: Callable[..., str],
    label: str,
    options: Sequence[str] | Mapping[str, str],
    default: str | None = None,
    *,
    key: str,
    **arguments: Any,
) -> str:
    """``widget`` over ``options``, started from the address and kept in it; of a mapping its names, shown as what they
    map to. The first option is the default unless another is named; the address leaves it out. A name the list does not
    have is ignored."""
    options, arguments = _named_options(options, arguments)
    default = options[0] if default is None else default
    value = choice(key, options, default)
    from_link = remembered(key, None, str)
    if from_link and from_link not in options:
        shown = arguments.get("format_func", str)(value)
        tell_absent(label, str(from_link), f"instead: {plain(str(shown))}")
    draw(widget, key, value, options, label, options, **arguments)
    keep(key, None if value == default else value)
    return value


def choice(key: str, options: Sequence[str], default: str | None = None) -> str:
    """What was chosen last of ``options``, here or by the link; the default otherwise."""
    default = options[0] if default is None else default
    value = remembered(key, default, lambda text: text if text in options else None)
    return value if value in options else default


def linked_many(
    widget: Callable[..., Sequence[str]],
    label: str,
    options: Sequence[str] | Mapping[str, str],
    default: Sequence[str],
    *,
    key: str,
    **arguments: Any,
) -> list[str]:
    """As :func:`linked`, for a widget with several choices; in the address they are joined by commas."""
    options, arguments = _named_options(options, arguments)
    if key not in st.session_state.get(_REMEMBERED, {}):
        for name in (named(key) or "").split(",")[:20]:
            if name and name not in options:
                tell_absent(label, name, "it is left out")
    value = several(key, options, default)
    draw(widget, key, value, options, label, options, **arguments)
    keep(key, None if value == list(default) else ",".join(value))
    return value


def _named_options(
    options: Sequence[str] | Mapping[str, str], arguments: dict[str, Any]
) -> tuple[Sequence[str], dict[str, Any]]:
    """The names, and the arguments that show each of them."""
    if isinstance(options, Mapping):
        return list(options), {**arguments, "format_func": options.get}
    return options, arguments


def several(key: str, options: Sequence[str], default: Sequence[str]) -> list[str]:
    """What was chosen last of ``options``, any number of them, in their order."""
    value = remembered(key, list(default), lambda text: text.split(","))
    return [option for option in options if option in value]


def linked_number(
    widget: Callable[..., NumberT],
    label: str,
    low: NumberT,
    high: NumberT,
    default: NumberT,
    *,
    key: str,
    **arguments: Any,
) -> NumberT:
    """As :func:`linked`, for a number from ``low`` to ``high``, whole if ``default`` is."""
    value = number(key, low, high, default)
    arguments |= as_typed(widget, low, high, value, arguments.get("step"))
    draw(widget, key, arguments.pop("value"), (), label, **arguments)
    keep(key, None if value == default else str(value))
    return value


def number(key: str, low: NumberT, high: NumberT, default: NumberT) -> NumberT:
    """The number chosen last, here or by the link."""

    def parse(text: str) -> NumberT | None:
        try:
            value = type(default)(text[:20])
        except ValueError:
            return None
        return value if low <= value <= high else None

    value = type(default)(remembered(key, default, parse))
    return value if low <= value <= high else default


def linked_switch(label: str, default: bool, *, key: str, **arguments: Any) -> bool:
    """A toggle that the address keeps as ``key=true`` or ``key=false``."""
    value = switched(key, default)
    draw(st.toggle, key, value, (), label, **arguments)
    keep(key, None if value == default else str(value).lower())
    return value


def switched(key: str, default: bool) -> bool:
    """How the toggle stood last, here or by the link."""
    return remembered(key, default, {"true": True, "false": False}.get)


def linked_text(label: str, *, key: str, longest: int = 200, **arguments: Any) -> str:
    """A text field that the address keeps as it was typed."""
    value = remembered(key, "", lambda text: text[:longest])
    draw(st.text_input, key, value, (), label, max_chars=longest, **arguments)
    keep(key, value or None)
    return value


def linked_day(label: str, first: date, last: date, *, key: str, **arguments: Any) -> date:
    """As :func:`linked`, for a day from ``first``, the default, to ``last``."""

    def parse(text: str) -> date | None:
        try:
            return date.fromisoformat(text[:10])
        except ValueError:
            return None

    value = max(first, min(remembered(key, first, parse), last))
    draw(st.date_input, key, value, (), label, min_value=first, max_value=last, **arguments)
    keep(key, None if value == first else str(value))
    return value


def remembered(key: str, default: ValueT, parse: Callable[[str], ValueT | None]) -> ValueT:
    """The value that the session remembers, else what ``parse`` makes of the address, else ``default``."""
    known = st.session_state.get(_REMEMBERED, {})
    if key in known:
        return known[key]
    text = named(key)
    value = None if text is None else parse(text)
    return default if value is None else value


def forget(key: str) -> None:
    """Reset a choice whose object the reader has removed."""
    for known in (_REMEMBERED, _OPENED):
        st.session_state.get(known, {}).pop(key, None)
    keep(key, None)


def forget_unless(key: str, options: Collection[str]) -> None:
    """Reset a choice if the remembered one is no longer among ``options``."""
    known = st.session_state.get(_REMEMBERED, {})
    if key in known and known[key] not in options:
        forget(key)


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


def take_asked(key: str) -> bool:
    """Whether the reader has come to this page by a link that names ``key``; True once a visit, however often the first
    run of the page is cut short before it asks."""
    asked = st.session_state.get(_ASKED, set())
    if key not in asked:
        return False
    asked.discard(key)
    return True


def tell_absent(label: str, asked: str, instead: str) -> None:
    """Say that what a link or an earlier choice asks for is not offered, and what there is instead, as Markdown."""
    st.toast(
        f"{plain(label)}: {as_code(asked[:80])} is not offered here; {instead}.",
        icon=":material/link_off:",
        duration="long",
    )


def named(key: str) -> str | None:
    """What the address says of ``key``: the page's own, else the one that the session was opened with, which the
    browser drops when another page is asked for before this one is drawn."""
    return next(reversed(all_named(key)), None)


def all_named(key: str) -> list[str]:
    """As :func:`named`, for a key that an address has several times."""
    return st.query_params.get_all(key) or st.session_state.get(_OPENED, {}).get(key, [])


def opened() -> None:
    """Call first of all in a session: the address counts from now on, whatever interrupts the run."""
    st.session_state[_OPENED] = _address()


def went_back() -> bool:
    """Whether this run answers the browser's Back or Forward. The address then counts for all that the page keeps in
    it, as it did when the page was left."""
    context = get_script_run_ctx()
    if context is None or not context.is_history_navigation:
        return False
    earlier, known = st.session_state.get(_OPENED, {}), st.session_state.get(_REMEMBERED, {})
    current = kept_here()
    for key in current:
        known.pop(key, None)
    others = {key: texts for key, texts in earlier.items() if key not in current}
    st.session_state[_OPENED] = {**others, **_address()}
    return True


def _address() -> dict[str, list[str]]:
    return {key: st.query_params.get_all(key) for key in st.query_params}


def kept_here() -> set[str]:
    """What the page in view has kept in its address so far."""
    context = get_script_run_ctx()
    page = "" if context is None else context.page_script_hash
    return st.session_state.setdefault(_KEPT, {}).setdefault(page, set())


def choose(key: str, value: Any) -> None:
    """Set what the widget of ``key`` will show; before it is drawn, or in a callback."""
    _remember(key, value)


def keep(key: str, value: str | None) -> None:
    """Put ``key=value`` into the address, or take ``key`` out of it."""
    kept_here().add(key)
    if value is None:
        if key in st.query_params:
            del st.query_params[key]
    elif st.query_params.get(key) != value:
        st.query_params[key] = value


def draw(
    widget: Callable[..., Any], key: str, value: Any, options: Sequence[str], *positional: Any, **arguments: Any
) -> None:
    """Show ``value`` in ``widget``, and leave the address to the caller; another value counts once the reader has
    chosen it (``_take_over``)."""
    _remember(key, value)
    shown = widget_key(key, value)
    arguments |= starting_at(widget, value, options)
    widget(*positional, key=shown, on_change=_take_over, args=(key, shown), **arguments)


def _take_over(key: str, shown: str) -> None:
    """A widget's callback, before the page runs."""
    if is_report(key, shown):
        _remember(key, st.session_state[shown])


def _remember(key: str, value: Any) -> None:
    st.session_state.setdefault(_REMEMBERED, {})[key] = value
