"""Figures as files, made without the network."""

from __future__ import annotations

import shutil
import socket
import threading

import plotly.graph_objects as go
import pytest

from app.shared.figure_files import figure_bytes, formats
from zorba_core.plots import LIGHT, pictures
from zorba_core.plots.theme import styled

FIGURE = styled([go.Scatter(x=[1, 2], y=[3, 1], name="Λ")], LIGHT, height=300, layout={})
BEGINNINGS = {"pdf": b"%PDF-", "svg": b"<svg", "png": b"\x89PNG"}


@pytest.fixture
def listener(monkeypatch):
    """A proxy that notes what is asked of it, in place of the address at which nobody listens."""
    asked = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(2)
                asked.append(connection.recv(300).decode(errors="replace").partition("\r\n")[0])  # "" of a mere knock

    threading.Thread(target=serve, daemon=True).start()
    address = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setitem(pictures.OFFLINE, "proxy_server", address)
    yield asked
    server.close()


@pytest.mark.browser
@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_a_picture_is_made_and_no_script_is_fetched_for_it(suffix, listener):
    content = figure_bytes(FIGURE, suffix)
    assert content.startswith(BEGINNINGS[suffix])
    assert len(content) > 2000
    assert not [line for line in listener if "mathjax" in line.lower() or "cdn" in line.lower()]


def test_the_picture_has_the_figures_own_height(monkeypatch):
    import kaleido

    seen = {}
    monkeypatch.setattr(kaleido, "calc_fig_sync", lambda figure, **told: seen.update(told) or b"")
    figure_bytes(FIGURE, "png")
    assert seen["opts"] == {"format": "png", "width": 1000, "height": 300, "scale": 2}
    assert seen["kopts"] == {"mathjax": False, "proxy_server": "http://127.0.0.1:9"}


def test_without_a_browser_a_page_is_still_offered(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert [one.suffix for one in formats()] == ["html"]
    assert b"Plotly.newPlot" in figure_bytes(FIGURE, "html")
