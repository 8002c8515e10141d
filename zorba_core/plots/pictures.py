"""Figures as picture files, made without a network. Needs kaleido and a browser: Chromium, or its headless shell."""

from __future__ import annotations

import importlib.util
import shutil
import threading

import plotly.graph_objects as go

_WIDTH, _HEIGHT = 1000, 520  # pixels, for a figure without a size
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # the shell starts soonest
_ONE_AT_A_TIME = threading.Lock()  # each call starts a browser


def browser() -> str | None:
    """The browser that makes pictures, and that the tests of the dashboard use; None where there is none."""
    return next(filter(None, map(shutil.which, _BROWSERS)), None)


def can_be_made() -> bool:
    """Whether kaleido and a browser for it are installed."""
    return importlib.util.find_spec("kaleido") is not None and browser() is not None


def kaleido_options() -> dict[str, object]:
    """No MathJax, which no figure here uses, and a proxy that does not exist, so no network."""
    return {"mathjax": False, "proxy_server": "http://127.0.0.1:9", "path": browser()}


def picture_bytes(figure: go.Figure, suffix: str) -> bytes:
    """The figure as ``pdf``, ``svg`` or ``png`` (two pixels for each of the figure's). It starts a browser,
    unless a kaleido server runs."""
    import kaleido

    options = {
        "format": suffix,
        "width": figure.layout.width or _WIDTH,
        "height": figure.layout.height or _HEIGHT,
        "scale": 2 if suffix == "png" else 1,
    }
    with _ONE_AT_A_TIME:
        return kaleido.calc_fig_sync(figure.to_dict(), opts=options, kopts=kaleido_options())
