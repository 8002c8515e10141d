"""Choices from lists in the page's address, by their short names.

Streamlit binds numbers and switches to the address by itself (``bind="query-params"``). A list with labels it would
bind by label, and a link should read ``?solver=lexicographic``, whatever the label says today.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st


def linked(widget: Callable[..., str], label: str, options: Sequence[str], *, key: str, **arguments: Any) -> str:
    """``widget`` over ``options``, started from the address and kept in it. The first option is the default, which the
    address leaves out; a name the list does not have is ignored."""
    named = st.query_params.get(key)
    if key not in st.session_state:
        st.session_state[key] = named if named in options else options[0]
    value = widget(label, options, key=key, **arguments)
    keep(key, None if value == options[0] else value)
    return value


def keep(key: str, value: str | None) -> None:
    """Put ``key=value`` into the address, or take ``key`` out of it."""
    if value is None:
        if key in st.query_params:
            del st.query_params[key]
    elif st.query_params.get(key) != value:
        st.query_params[key] = value
