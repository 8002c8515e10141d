"""Which key a widget has now: it changes when the widget is made to show another value (``app.shared.widget_keys``)."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

TRADE_OFF = "screens/tradeoff/tradeoff.py"


def shown_key(app: AppTest, name: str) -> str:
    turn, _ = app.session_state["shown_values"][name]
    return f"{name}_{turn}" if turn else name
