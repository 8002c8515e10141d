"""Figures as files, made without the network."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest

from zorba_core.plots import LIGHT
from zorba_core.plots.pictures import browser, picture_bytes
from zorba_core.plots.theme import styled

FIGURE = styled([go.Scatter(x=[1, 2], y=[3, 1], name="Λ")], LIGHT, height=300, layout={})


@pytest.mark.browser
def test_a_picture_is_made_on_this_machine():
    for suffix, begins in (("pdf", b"%PDF-"), ("svg", b"<svg"), ("png", b"\x89PNG")):
        content = picture_bytes(FIGURE, suffix)
        assert content.startswith(begins)
        assert len(content) > 2000


def test_the_picture_has_the_figures_own_height_and_no_way_to_the_network(monkeypatch):
    import kaleido

    seen = {}
    monkeypatch.setattr(kaleido, "calc_fig_sync", lambda figure, **options: seen.update(options) or b"")
    picture_bytes(FIGURE, "png")
    assert seen["opts"] == {"format": "png", "width": 1000, "height": 300, "scale": 2}
    assert seen["kopts"] == {"mathjax": False, "proxy_server": "http://127.0.0.1:9", "path": browser()}
