"""The Python lines on the card of an exported model, run as a reader runs them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple


class Ran(NamedTuple):
    """The lines of a card, and what they left."""

    code: str
    names: dict[str, Any]
    printed: str


def run_card(model: Path, old: str = "", new: str = "") -> Ran:
    """Run the lines of the card in the folder that contains ``model``, with ``new`` in place of ``old``."""
    (code,) = re.findall(r"```python\n(.*?)```", (model / "README.md").read_text(encoding="utf-8"), re.S)
    assert old in code
    code = code.replace(old, new) if old else code
    names: dict[str, Any] = {}
    with contextlib.chdir(model.parent), contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, names)
    return Ran(code, names, out.getvalue().strip())
