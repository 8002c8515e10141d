"""Paths that a link names: shown in their field, and not looked up before the reader has agreed.

To look a path up is an act of its own: it may lie on a network drive or never answer, and a pattern may go through a
whole disk. A link may come from anybody. What the reader has typed, or has agreed to, stays agreed while the dashboard
runs, so that a reload or a second tab asks nothing again: the dashboard has one user.
"""

from __future__ import annotations

import streamlit as st

PATHS = ("train_data", "train_folder")  # fields that take one, by their keys in the address
_AGREED: set[str] = set()


def agree(path: str) -> None:
    """The reader has typed this path, or has said that it may be looked up."""
    _AGREED.add(path.strip())


def agreed(path: str, *, key: str, action: str) -> bool:
    """Whether ``path`` may be looked up. If not, a button asks the reader.

    Args:
        key: of the field that shows the path.
        action: what the button says, such as "Read these files".
    """
    path = path.strip()
    if not path or path in _AGREED:
        return True
    st.caption(":material/link: A link named this place on this machine. It is looked up when you say so.")
    st.button(action, icon=":material/folder_open:", key=f"agree_{key}", on_click=agree, args=(path,))
    return False
