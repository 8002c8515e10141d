"""Figures as files, made without the network."""

from __future__ import annotations

import shutil
import socket
import threading
import time

import plotly.graph_objects as go
import pytest

from app.shared.figure_files import figure_bytes, formats
from zorba_core.errors import RunError
from zorba_core.plots import LIGHT, pictures
from zorba_core.plots.picture_server import PictureServer
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


@pytest.mark.browser
def test_the_browser_stays_for_the_next_picture_and_leaves_when_nobody_asks():
    server = PictureServer(idle_seconds=1.0)
    try:
        assert server.picture(FIGURE, "svg").startswith(b"<svg")
        assert server.is_running
        assert server.picture(FIGURE, "png", scale=1).startswith(b"\x89PNG")
        deadline = time.monotonic() + 30
        while server.is_running and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not server.is_running
        assert server.picture(FIGURE, "pdf").startswith(b"%PDF-")  # another browser
    finally:
        server.stop()
    assert not server.is_running


def test_a_browser_that_does_not_start_is_one_sentence(monkeypatch):
    import kaleido

    def broken(**_):
        raise OSError("no Chromium here")

    monkeypatch.setattr(kaleido, "Kaleido", broken)
    server = PictureServer()
    with pytest.raises(RunError, match="the picture cannot be drawn: OSError: no Chromium here"):
        server.picture(FIGURE, "png")
    assert not server.is_running
