"""The pages of the dashboard: what the navigation shows of each. A page is a folder here with a script of the
same name, which Streamlit runs, and a ``PAGE`` in its ``__init__``.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from zorba_core.registry import Registry

_OWN = (
    "fleet",
    "tradeoff",
    "allocation",
    "toy",
    "theory",
    "train",
    "runs",
    "paper",
)  # in the order of the navigation


@dataclass(frozen=True)
class Page:
    """One page. Its address is its name; the default one's is the root."""

    name: str
    title: str
    section: str  # of the navigation
    icon: str
    default: bool = False
    sidebar_first: bool = False  # asks for more of the scenario, so it is drawn after the sidebar's controls
    uses_scenario: bool = True  # the sidebar's scenario decides what the page shows
    script: str | None = None  # of a page from outside: a whole path; our own lie in folders here

    @property
    def path(self) -> str:
        return self.script or str(Path("screens", self.name, f"{self.name}.py"))


def _register_own() -> None:
    for name in _OWN:
        PAGES.register(importlib.import_module(f"app.screens.{name}").PAGE)


PAGES: Registry[Page] = Registry(
    "page",
    "zorba.pages",
    accepts=lambda part: None if isinstance(part, Page) else f"{type(part).__name__} is no app.screens.registry.Page",
    home=_register_own,
)
