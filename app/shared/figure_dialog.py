"""Every figure of the dashboard as a file: how large, in which words, with or without colours, and seen beforehand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from app.shared.escape import plain
from app.shared.figure_files import PAGE, figure_bytes, formats
from zorba_core.errors import ZorbaError
from zorba_core.plots.picture_server import SERVER
from zorba_core.plots.printing import PIXELS_PER_INCH, SHEETS, Sheet, axis_titles, for_print

_AXES = {"x": "Horizontal axis", "y": "Vertical axis"}
_PREVIEW_SCALE = 2


@dataclass(frozen=True)
class Picture:
    """A figure offered for download; ``name`` is its files' name without the ending."""

    figure: Callable[[], go.Figure]
    name: str


def figure_button(picture: Picture, key: str) -> None:
    """The button that opens the dialog."""
    asked = st.button(
        "Figure",
        icon=":material/image:",
        key=f"{key}_figure",
        help="As PDF, SVG or PNG: for a column or a page of a paper, or for a slide.",
    )
    if asked:
        _dialog(picture, key)


@st.dialog("Take this figure with you", width="large")
def _dialog(picture: Picture, key: str) -> None:
    figure = picture.figure()
    offered = formats()
    if len(offered) == 1:
        _page(figure, picture, key)
        st.caption("PDF, SVG and PNG need the kaleido package and Chromium; the camera above the figure saves a PNG.")
        return
    left, right = st.columns([0.4, 0.6], gap="medium")
    with left:
        sheet, drawn = _asked(figure, key)
    with right:
        _preview(drawn, sheet)
    with st.container(horizontal=True, gap="small"):
        for item in offered:
            if item.suffix == PAGE.suffix:
                continue
            scale = sheet.dots_per_inch / PIXELS_PER_INCH if item.suffix == "png" else None
            st.download_button(
                item.suffix.upper(),
                lambda suffix=item.suffix, scale=scale: SERVER.picture(drawn, suffix, scale=scale),
                f"{picture.name}.{item.suffix}",
                item.mime,
                key=f"{key}_{item.suffix}",
                on_click="ignore",
                icon=":material/download:",
                help=f"{sheet.dots_per_inch} dots per inch." if item.suffix == "png" else item.help,
                type="primary" if item.suffix == "pdf" else "secondary",
            )
        _page(figure, picture, key)


def _asked(figure: go.Figure, key: str) -> tuple[Sheet, go.Figure]:
    """What the reader wants of the figure, and the figure so."""
    size = st.segmented_control(
        "For",
        list(SHEETS),
        default="column",
        required=True,
        format_func=lambda name: SHEETS[name].title,
        key=f"{key}_sheet",
        help="A column of 3.5 in and a page of 7.16 in with text of 8 pt, as journals ask for; a slide of 10 in.",
    )
    title = st.text_input("Title", "", max_chars=200, placeholder="none: papers have captions", key=f"{key}_title")
    titles = {
        name: st.text_input(_axis_in_words(name), words, max_chars=200, key=f"{key}_{name}")
        for name, words in axis_titles(figure).items()
    }
    with st.container(horizontal=True, gap="small"):
        grey = st.toggle(
            "Greyscale", key=f"{key}_grey", help="Curves are told by dashes and markers, bars by patterns."
        )
        legend = st.toggle("Legend", True, key=f"{key}_legend")
    sheet = SHEETS[size or "column"]
    return sheet, for_print(figure, sheet, title=title, titles=titles, legend=legend, grey=grey)


def _axis_in_words(name: str) -> str:
    number = name[5:]
    return _AXES[name[0]] + (f" of panel {number}" if number else "")


def _preview(drawn: go.Figure, sheet: Sheet) -> None:
    began = time.perf_counter()
    try:
        content = SERVER.picture(drawn, "png", scale=_PREVIEW_SCALE)
    except ZorbaError as error:
        st.warning(plain(str(error)), icon=":material/warning:")
        return
    st.image(content, width=min(sheet.width, 520), output_format="PNG", alt="The figure as its file will show it.")
    st.caption(
        f"{sheet.width_in:g} × {drawn.layout.height / PIXELS_PER_INCH:.2f} in, text of {sheet.points:g} pt; drawn in "
        f"{time.perf_counter() - began:.1f} s."
    )


def _page(figure: go.Figure, picture: Picture, key: str) -> None:
    st.download_button(
        "HTML",
        lambda: figure_bytes(figure, PAGE.suffix),
        f"{picture.name}.{PAGE.suffix}",
        PAGE.mime,
        key=f"{key}_{PAGE.suffix}",
        on_click="ignore",
        icon=":material/download:",
        help=PAGE.help + " In the size and colours of the screen.",
    )
