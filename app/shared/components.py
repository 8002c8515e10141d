"""Pieces that pages share: numbers in a row, messages with a next step, downloads, the palette of the current theme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from app.shared.escape import plain
from zorba_core.allocation import MEASURES, Allocation
from zorba_core.plots import Palette, palette_named
from zorba_core.plots.pictures import can_be_made, picture_bytes

_MIME = {"csv": "text/csv", "json": "application/json"}  # by the ending of a file's name
# Captions: at least 5.5 to 1 on every background of the theme, where Streamlit's own are at 4.2.
_QUIET = {"light": "#5a636f", "dark": "#a4aeba"}
_ON_PRIMARY = {"light": "#ffffff", "dark": "#10151c"}  # words on a filled button
_CSS = """
<style>
[data-testid="stMainBlockContainer"] { padding-top: 2.6rem; padding-bottom: 3rem; max-width: 1500px; }
[data-testid="stElementContainer"]:has(> [data-testid="stMetric"]) { flex: 1 1 8.6rem; min-width: 8.6rem; }
[data-testid="stMetricLabel"] p { font-size: .85rem; white-space: normal; line-height: 1.25; }
[data-testid="stMetricDelta"] [data-testid="stMarkdownContainer"] p { white-space: normal; }
[data-testid="stWidgetLabel"] p { overflow-wrap: normal; word-break: normal; }
[data-testid="stMarkdownContainer"] h2 { font-size: 1.06rem; padding: .35rem 0 .45rem; letter-spacing: 0; }
button[kind="primary"]:not(:disabled), button[kind="primary"]:not(:disabled) * { color: ONPRIMARY; }
[data-testid="stMain"] [data-testid="stHeaderActionElements"] { display: none; }
[data-testid="stCaptionContainer"],
[data-testid="stCaptionContainer"] :is(p, strong, em, li) { color: QUIET; opacity: 1; }
[data-testid="stSidebarUserContent"] h3 { padding-bottom: 0; font-size: .95rem; letter-spacing: .01em; }
[data-testid="stSidebarUserContent"] { padding-bottom: 2rem; }
[class*="st-key-controls_"] button[data-variant="segmented_control"] { min-height: 2.5rem; }
[class*="st-key-controls_"] [data-testid="stWidgetLabel"] { min-height: 1.5rem; margin-bottom: .25rem; }
/* Streamlit tells a figure its width with three digits, then with all: the same only for whole pixels. */
[data-testid="stFullScreenFrame"]:has(> .stPlotlyChart) { width: round(down, 100%, 1px); }
.katex-display { overflow-x: auto; overflow-y: hidden; padding: .2rem 0; }
@media (max-width: 640px) {
  [class*="st-key-flip_"] { flex-direction: column-reverse; }
  /* What stands in columns is one stack, in which keys say what comes first. */
  [class*="st-key-stacked_"] > [data-testid="stLayoutWrapper"],
  [class*="st-key-stacked_"] > * > [data-testid="stHorizontalBlock"],
  [class*="st-key-stacked_"] > * > * > [data-testid="stColumn"],
  [class*="st-key-stacked_"] > * > * > * > [data-testid="stVerticalBlock"],
  [class*="st-key-stacked_"] [data-testid="stLayoutWrapper"]:has(> [class*="st-key-phone_"]) { display: contents; }
  [class*="st-key-stacked_"] * { order: 9; }
  [class*="st-key-phone_1"] { order: 1; }
  [class*="st-key-phone_2"] { order: 2; }
  [class*="st-key-front_plot"] { order: 3; }
  [class*="st-key-phone_"] [data-testid="stHorizontalBlock"]:has(> * > [data-testid="stMetric"]) {
    flex-wrap: nowrap; overflow-x: auto; scrollbar-width: thin;
  }
  [data-testid="stMainBlockContainer"] { padding: 3.7rem 1rem 3rem; }
  [data-testid="stMainBlockContainer"] h1 { font-size: 1.45rem; padding: 0 0 .5rem; }
  [data-testid="stMetric"] { min-width: 0; padding: .6rem; }
  [data-testid="stElementContainer"]:has(> [data-testid="stMetric"]) { flex: 1 1 45%; min-width: 45%; }
  .katex-display { font-size: .8em; }
}
/* A finger never leaves the picture: the buttons would stand over its labels for good. */
@media (hover: none) and (max-width: 1000px) {
  .modebar-btn:not([data-title="Fullscreen"]), [data-testid="stElementToolbar"] { display: none !important; }
  .modebar-container { top: auto !important; bottom: 30px; }
}
</style>
"""


def style() -> None:
    """Spacing that the theme's settings do not reach."""
    theme = "dark" if st.context.theme.type == "dark" else "light"
    st.html(_CSS.replace("QUIET", _QUIET[theme]).replace("ONPRIMARY", _ON_PRIMARY[theme]))


def palette() -> Palette:
    """Colours of the theme the reader sees."""
    return palette_named(st.context.theme.type)


@dataclass(frozen=True)
class Number:
    """One headline number: what it is called, what it says, what it means."""

    label: str
    value: str
    help: str
    note: str | None = None


def measured(name: str, allocation: Allocation, note: str | None = None) -> Number:
    """A measure of an allocation, as a headline number."""
    measure = MEASURES[name]
    return Number(measure.label, measure.text(measure.value(allocation)), measure.help, note)


def numbers(items: Sequence[Number]) -> None:
    """Headline numbers side by side, wrapping where the screen is narrow."""
    with st.container(horizontal=True, gap="small"):
        for item in items:
            st.metric(
                item.label,
                item.value,
                delta=item.note,
                delta_color="off",
                delta_arrow="off",
                help=item.help,
                border=True,
                height="stretch",
            )


def figure(
    figure: go.Figure,
    *,
    key: str,
    alt: str,
    name: str,
    select: bool | Callable[[], None] = False,
) -> None:
    """A figure as wide as its place, with plotly's own toolbar to zoom and to save it as a PNG."""
    config = {
        "displaylogo": False,
        "scrollZoom": False,
        "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
        "toImageButtonOptions": {"format": "png", "filename": name, "scale": 2},
    }
    st.plotly_chart(
        figure,
        width="stretch",
        theme=None,
        key=key,
        on_select=select if callable(select) else "rerun" if select else "ignore",
        selection_mode="points",
        config=config,
        alt=alt,
    )


def in_seconds(seconds: float) -> str:
    """``40 s``, ``3 min``."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def problem(title: str, sentence: str) -> None:
    """Show a problem in one sentence; both texts are shown as they are."""
    st.warning(f"**{plain(title)}**  \n{plain(sentence)}", icon=":material/warning:")


def capitalised(text: str) -> str:
    """With a capital at its front, and all else as it is."""
    return text[:1].upper() + text[1:]


def sentence(said: object) -> str:
    """An error's text, or another, with a capital at its front and a full stop."""
    return f"{capitalised(str(said))}."


@dataclass(frozen=True)
class Download:
    """A file that is made when someone asks for it."""

    label: str
    file_name: str  # its ending says what it holds
    content: Callable[[], bytes]
    help: str


def as_pdf(figure: Callable[[], go.Figure], name: str) -> list[Download]:
    """The figure as a PDF; nothing where none can be made."""
    if not can_be_made():
        return []
    return [Download("Figure (PDF)", f"{name}.pdf", lambda: picture_bytes(figure(), "pdf"), "For a paper or a slide.")]


def downloads(files: Sequence[Download], *, key: str) -> None:
    """Buttons in a row; a file is made on the click."""
    with st.container(horizontal=True, gap="small"):
        for index, file in enumerate(files):
            st.download_button(
                file.label,
                file.content,
                file.file_name,
                _MIME.get(file.file_name.rpartition(".")[2], "application/octet-stream"),
                key=f"{key}_{index}",
                on_click="ignore",
                icon=":material/download:",
                help=file.help,
            )
