"""Runs side by side, and all outcomes against any setting."""

from app.screens.registry import Page

PAGE = Page("runs", "Runs", section="Run", icon=":material/show_chart:", uses_scenario=False)
