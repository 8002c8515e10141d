"""Shared by all pages: style, figures, escaped text, and errors as one sentence."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from zorba_core.errors import ZorbaError
from zorba_core.plots.theme import Palette, palette_named

WRONG = "Something went wrong"
_CSS = """
<style>
[data-testid="stMainBlockContainer"] { padding: 3.4rem 2rem 2rem; max-width: 1344px; }
[data-testid="stMain"] h1 { font-size: 1.5rem; padding: 0 0 .3rem; }
[data-testid="stMain"] h2 { font-size: 1.06rem; padding: .3rem 0; letter-spacing: 0; white-space: nowrap; }
[data-testid="stButtonGroup"] button { padding: .15rem .55rem; min-height: 1.9rem; }
[data-testid="stButtonGroup"] button p { font-size: .84rem; }
[data-testid="stHeading"] { margin-bottom: .3rem; }
[data-testid="stVerticalBlock"] { gap: .55rem; }
[data-testid="stWidgetLabel"] { min-height: 1.2rem; }
[data-testid="stWidgetLabel"] p { font-size: .86rem; }
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] :is(p, strong, em, li) {
  color: QUIET; opacity: 1;
}
[data-testid="stMetricLabel"] p, [data-testid="stMetricDelta"] p { white-space: normal; line-height: 1.2; }
button[kind^="primary"]:not(:disabled), button[kind^="primary"]:not(:disabled) * { color: ONPRIMARY; }
/* Streamlit gives a figure its width first with three digits, then with all: equal only for whole pixels. */
[data-testid="stFullScreenFrame"]:has(> .stPlotlyChart) { width: round(down, 100%, 1px); }
@media (max-width: 640px) { [data-testid="stMainBlockContainer"] { padding: 3.6rem 1rem 3rem; } }
@media (hover: none) { .modebar-container, [data-testid="stElementToolbar"] { display: none !important; } }
</style>
"""
# Captions have a contrast of at least 5.5 to 1 on every background of the theme.
_QUIET = {"light": "#56606c", "dark": "#a4aeba"}
_ON_PRIMARY = {"light": "#ffffff", "dark": "#10151c"}
_SIGNS = re.compile(r"[\\`*_{}\[\]()#+!|<>$~:&]")
_READ_WITHOUT_SIGNS = re.compile(r"(?<=:)(?=//|material|streamlit)|(?<=www)(?=\.)|(?<=\S)(?=@)", re.IGNORECASE)


def style() -> None:
    """Set the spacing and contrast that the theme has no settings for."""
    theme = _theme()
    st.html(_CSS.replace("QUIET", _QUIET[theme]).replace("ONPRIMARY", _ON_PRIMARY[theme]))


def _theme() -> str:
    return "dark" if st.context.theme.type == "dark" else "light"


def palette() -> Palette:
    """Colours of the current theme."""
    return palette_named(_theme())


def figure(
    drawn: go.Figure, *, key: str, alt: str, select: Callable[[], None] | None = None, name: str = "zorba"
) -> None:
    """Draw a figure as wide as its container. ``alt`` describes it in words; ``select`` is called on a click."""
    config = {
        "displaylogo": False,
        "scrollZoom": False,
        "displayModeBar": False if select else "hover",
        "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "zoom2d", "pan2d"],
        "toImageButtonOptions": {"format": "png", "filename": name, "scale": 2},
    }
    drawn.layout.template = None  # the browser takes two empty ones for a change, and would draw twice
    st.plotly_chart(
        drawn, theme=None, key=key, on_select=select or "ignore", selection_mode="points", config=config, alt=alt
    )


def table(
    frame: pd.DataFrame, *, names: Sequence[str], param: str, default: Sequence[str] = (), **options: Any
) -> list[int]:
    """Draw a table and return the selected rows. The address has their names as its parameter ``param``.

    A selection is row numbers, so other rows, or another address, get a new table with the same names selected.

    Args:
        names: one for each row.
        default: the names selected without the parameter.
        options: for ``st.dataframe``.
    """
    asked, context = st.query_params.get_all(param), get_script_run_ctx()
    written, chosen, changes = st.session_state.get(f"chosen_{param}", ([], list(default), 0))
    came_back = context is not None and context.is_history_navigation
    if asked != written and (asked or came_back):  # the navigation also clears the address: it keeps the selection
        chosen, changes = [name for name in asked if name in names] or list(default), changes + 1
    rows = st.dataframe(
        frame,
        key=f"{param}_{changes}_{hash(tuple(names))}",
        hide_index=True,
        on_select="rerun",
        selection_default={"selection": {"rows": [names.index(name) for name in chosen if name in names]}},
        **options,
    ).selection.rows
    chosen = [names[row] for row in rows]
    written = [] if chosen == list(default) else chosen
    if written != asked:
        st.query_params[param] = written
    st.session_state[f"chosen_{param}"] = written, chosen, changes
    return rows


def plain(text: object) -> str:
    """Escape text from outside for Markdown, in one line."""
    text = _SIGNS.sub(r"\\\g<0>", re.sub(r"\s+", " ", str(text)))
    return _READ_WITHOUT_SIGNS.sub("\u2060", re.sub(r"^(\d+)\.", r"\1\\.", text))


def code(text: str) -> str:
    """A name or command as code in Markdown."""
    return f"`{' '.join(text.replace('`', chr(39)).split()) or ' '}`"


def sentence(message: object) -> str:
    """Escape a text from outside as a sentence."""
    text = str(message).rstrip(".")
    return f"{plain(text[:1].upper() + text[1:])}."


def problem(message: object) -> None:
    """Show a problem as one sentence."""
    st.warning(sentence(message), icon=":material/warning:")


@contextlib.contextmanager
def shown_errors(what: str) -> Iterator[None]:
    """Context manager: show an error as one sentence; if it is a bug, log it too."""
    try:
        yield
    except ZorbaError as error:
        problem(error)
    except Exception:
        logging.getLogger("zorba.app").exception("%s failed", what)
        st.error(
            f"**{WRONG} on our side.** The details are in the terminal that runs the dashboard. Change a control or "
            "reload the page to continue.",
            icon=":material/error:",
        )


def fragment(part: Callable[..., None], *, run_every: float | None = None) -> Callable[..., None]:
    """``st.fragment`` with :func:`shown_errors`."""

    @functools.wraps(part)
    def careful(*arguments, **named) -> None:
        with shown_errors(part.__name__):
            part(*arguments, **named)

    return st.fragment(careful, run_every=run_every)


def number(value: float) -> str:
    """Three digits: ``0.617``, ``0.500``, ``12.3``, ``∞``."""
    return "∞" if value == float("inf") else f"{value:#.3g}".rstrip(".")


def duration(seconds: float) -> str:
    """``48 s``, ``6 min``, ``2 h 10 min``, ``3 days``."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if minutes < 2880:
        return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} days"


def count(number: int, what: str) -> str:
    """``1 client``, ``12 clients``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
