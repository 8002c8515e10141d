"""Words from outside (names, labels, columns, file names, addresses, errors) shown as they are.

Streamlit reads Markdown in every label, help, caption, message, metric and option of a row of buttons, and turns
addresses, ``:material/…:`` and ``:streamlit:`` into links and icons even where their signs are escaped. Plotly reads
some HTML in names and hover texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from zorba_core.plots.theme import as_text

_SIGNS = re.compile(r"[\\`*_{}\[\]()#+!|<>$~:&]")
_LIST_OR_LINE = re.compile(r"^( ?\d+)(\.)(?= |$)|^( ?)([-=])(?=[-= ]|$)")  # at the front: "1. ", "- ", "---"
# No width and no meaning: it parts what would be read as an address, or as the name of an icon.
_JOINER = "\u2060"
_READ_WITHOUT_SIGNS = re.compile(r"(?<=:)(?=//|material|streamlit)|(?<=www)(?=\.)|(?<=\S)(?=@)", re.IGNORECASE)


def plain(text: str) -> str:
    """``text`` within Markdown: one line, no sign of it with a meaning."""
    text = _SIGNS.sub(r"\\\g<0>", re.sub(r"\s+", " ", text))
    text = _LIST_OR_LINE.sub(r"\1\3\\\2\4", text)
    return _READ_WITHOUT_SIGNS.sub(_JOINER, text)


def as_code(text: str) -> str:
    """A name or command within Markdown, in the letters of code. A blank line would end them."""
    return f"`{' '.join(text.replace('`', chr(39)).split()) or ' '}`"


def in_figure(names: Iterable[str]) -> list[str]:
    """Names as Plotly's texts."""
    return [as_text(name) for name in names]
