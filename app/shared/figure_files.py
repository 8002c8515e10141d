"""Figures as files: a page of its own, or a picture for a paper or a slide. Made on this machine, from no network."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from zorba_core.plots.pictures import can_be_made, picture_bytes


@dataclass(frozen=True)
class Format:
    """A kind of file that a figure is handed out as."""

    label: str
    suffix: str
    mime: str
    help: str


PAGE = Format("Page (HTML)", "html", "text/html", "One file to open anywhere, with its hover texts; it can be zoomed.")
PICTURES = (
    Format("For papers (PDF)", "pdf", "application/pdf", "Lines and letters, sharp at any size."),
    Format("For editing (SVG)", "svg", "image/svg+xml", "Lines and letters, for a drawing program or a web page."),
    Format("For slides (PNG)", "png", "image/png", "Twice the pixels of the screen."),
)


def formats() -> tuple[Format, ...]:
    """What can be made here: pictures need kaleido and a Chromium."""
    return (PAGE, *PICTURES) if can_be_made() else (PAGE,)


def figure_bytes(figure: go.Figure, suffix: str) -> bytes:
    """The figure as ``html``, ``pdf``, ``svg`` or ``png``. A picture takes about two seconds."""
    if suffix == PAGE.suffix:
        return figure.to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False}).encode()
    return picture_bytes(figure, suffix)
