"""Figures as picture files, made without a network. Needs kaleido and Chromium."""

from __future__ import annotations

import importlib.util
import shutil
import threading

import plotly.graph_objects as go

# Options of kaleido: no MathJax, which no figure here uses, and a proxy that does not exist, so no network.
OFFLINE = {"mathjax": False, "proxy_server": "http://127.0.0.1:9"}
_WIDTH, _HEIGHT = 1000, 520  # pixels, for a figure without a size
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_ONE_AT_A_TIME = threading.Lock()  # each call starts a browser


def can_be_made() -> bool:
    """Whether kaleido and a browser for it are installed."""
    return importlib.util.find_spec("kaleido") is not None and any(map(shutil.which, _BROWSERS))


def picture_bytes(figure: go.Figure, suffix: str) -> bytes:
    """The figure as ``pdf``, ``svg`` or ``png`` (two pixels for each of the figure's). Takes about two seconds, less if
    a kaleido server runs."""
    import kaleido

    options = {
        "format": suffix,
        "width": figure.layout.width or _WIDTH,
        "height": figure.layout.height or _HEIGHT,
        "scale": 2 if suffix == "png" else 1,
    }
    with _ONE_AT_A_TIME:
        return kaleido.calc_fig_sync(figure.to_dict(), opts=options, kopts=dict(OFFLINE))
