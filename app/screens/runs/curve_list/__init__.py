"""The curves of the picture as a list: each with its line, its name and last value, and an eye that hides it.

A legend within the picture has no room for 25 runs, and its names cannot be reached by keyboard: this one scrolls, and
every eye is a button.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from zorba_core.plots import Palette

_HERE = Path(__file__).parent
_mount = st.components.v2.component(
    "zorba_curve_list",
    html='<div id="curves"></div>',
    css=(_HERE / "list.css").read_text(encoding="utf-8"),
    js=(_HERE / "list.js").read_text(encoding="utf-8"),
)


@dataclass(frozen=True)
class Entry:
    """One curve: how its line looks, and what it came to."""

    name: str
    color: str
    dash: str
    symbol: str
    value: str
    hidden: bool
    id: str


def curve_id(name: str) -> str:
    """A short name for addresses."""
    return f"{zlib.crc32(name.encode()):08x}"


def curve_list(entries: Sequence[Entry], *, height: int, palette: Palette, key: str, on_change: Callable) -> None:
    """Draw the list as high as the picture beside it; :func:`asked` reads which curves are to be hidden."""
    _mount(
        key=key,
        data={
            "entries": [asdict(entry) for entry in entries],
            "height": height,
            "colors": {name: getattr(palette, name) for name in ("paper", "text", "muted", "faint", "quiet", "front")},
        },
        on_asked_change=on_change,
    )


def asked(key: str) -> list[str] | None:
    """Ids of the curves that are to be hidden, as the list reports them; None where it reports no such thing."""
    state: Any = st.session_state.get(key) or {}
    sent = state.get("asked")
    hidden = sent.get("hidden") if isinstance(sent, dict) else None
    if not isinstance(hidden, list):
        return None
    return [text for text in hidden[:500] if isinstance(text, str) and len(text) == 8]
