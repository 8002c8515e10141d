"""The first page as one component: HTML, CSS and an ES module, without a build and without a network.

The browser computes what follows the pointer (``allocation.js``: the twins of the core); the core answers on release.
The same module is an ``anywidget`` module: called without a component, its default export returns ``render``.
"""

from __future__ import annotations

import re
from pathlib import Path

_HERE = Path(__file__).parent
# Each imports only from those before it.
_PARTS = ("address.js", "allocation.js", "fleet.js", "draw.js", "view.js", "explore.js")
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)


def text_of(name: str) -> str:
    """A file of the component."""
    return (_HERE / name).read_text(encoding="utf-8")


def module() -> str:
    """All scripts as one ES module: Streamlit serves a component's script as one file."""
    return "\n".join(_IMPORT.sub("", text_of(name)) for name in _PARTS)
