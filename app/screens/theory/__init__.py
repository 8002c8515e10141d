"""Theorems 1 and 2 as numbers, and what Lambda hides."""

from app.screens.registry import Page

PAGE = Page("theory", "Theory", section="Understand", icon=":material/function:")
