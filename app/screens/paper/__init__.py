"""Every claim of the paper beside what was found."""

from app.screens.registry import Page

PAGE = Page("paper", "Paper", section="Check", icon=":material/fact_check:", uses_scenario=False)
