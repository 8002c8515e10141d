"""Runs side by side."""

from app.screens.registry import Page

PAGE = Page("runs", "Runs", section="Run", icon=":material/show_chart:", uses_scenario=False)
