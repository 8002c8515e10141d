"""Texts that no encoding can hold: JSON and arguments of a command may have half of a character."""

from __future__ import annotations

import json
from typing import Any

from zorba_core.errors import InvalidInputError, in_short


def check_characters(value: Any, where: str) -> None:
    """Of a text, or of all texts within lists and dictionaries.

    Raises:
        InvalidInputError: half of a surrogate pair stands in one.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            near = text[max(0, error.start - 10) : error.end + 10]
            raise InvalidInputError(f"{where}: half of a character in {in_short(near)}, which is no Unicode") from None
