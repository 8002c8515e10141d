"""Figures as files, made without the network."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest

from zorba_core.plots import LIGHT
from zorba_core.plots.pictures import browser, kaleido_options, picture_bytes
from zorba_core.plots.theme import styled

kaleido = pytest.importorskip("kaleido")
FIGURE = styled([go.Scatter(x=[1, 2], y=[3, 1], name="Λ")], LIGHT, height=300, layout={})


@pytest.mark.browser
def test_a_picture_is_made_on_this_machine_with_a_browser_of_its_own_and_with_one_that_runs():
    kinds = {"pdf": b"%PDF-", "svg": b"<svg", "png": b"\x89PNG"}
    made = {"pdf": picture_bytes(FIGURE, "pdf")}
    kaleido.start_sync_server(silence_warnings=True, **kaleido_options())
    try:
        made |= {suffix: picture_bytes(FIGURE, suffix) for suffix in ("svg", "png")}
    finally:
        kaleido.stop_sync_server()
    for suffix, content in made.items():
        assert content.startswith(kinds[suffix])
        assert len(content) > 2000


def test_the_picture_has_the_figures_own_height_and_no_way_to_the_network(monkeypatch):
    seen = {}
    monkeypatch.setattr(kaleido, "calc_fig_sync", lambda figure, **options: seen.update(options) or b"")
    picture_bytes(FIGURE, "png")
    assert seen["opts"] == {"format": "png", "width": 1000, "height": 300, "scale": 2}
    assert seen["kopts"] == {"mathjax": False, "proxy_server": "http://127.0.0.1:9", "path": browser()}
