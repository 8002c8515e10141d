"""Numbers and sizes as people and programs write them. Sizes that vendors call GB are GiB for graphics memory."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from zorba_core.errors import InvalidInputError, in_short
from zorba_core.planning.memory import GIB

UNITS = {
    "GiB": GIB,
    "GB (10^9 bytes)": 10**9,
    "MiB": 2**20,
    "MB (10^6 bytes)": 10**6,
    "TiB": 2**40,
    "KiB": 1024,
    "bytes": 1,
}
_NUMBER = re.compile(r"([-+]?(?:\d[\d.,'\u00a0\u202f ]*|[.,]\d+))((?<=[\d.])[eE][-+]?\d+)?")
_WITH_UNIT = re.compile(r"(?i)(?:\b|(?<=\d))(bytes|[kmgt]ib|[kmgt]b|[kmgt]o|[gm])\b")
_EITHER_COMMA = re.compile(r"(?<![\d.,'])[1-9]\d{0,2},\d{3}(?![\d.,])")  # of thousands, or a decimal one
_DECIMAL_COMMA = re.compile(r"(?<![\d.,'])0,\d|\d,(?:\d{1,2}|\d{4,}+)(?!\d)")


def number_of(text: str, where: str, comma: bool = False) -> float:
    """The number at the beginning of a cell: ``24``, ``8,5``, ``1,234.5``, ``16 384 MiB``, ``2.5e10``.

    Args:
        comma: a comma with three digits after it is a decimal comma, as elsewhere in the table.
    """
    match = _NUMBER.search(text)
    if match is None:
        raise InvalidInputError(f"{where} is {in_short(text)}; it must be a number, such as 24 or 8.5")
    digits = re.sub(r"[\s'\u00a0\u202f]", "", match[1]).rstrip(".,")
    points, commas = digits.count("."), digits.count(",")
    if points and commas:  # the last of the two is the decimal one
        decimal = max(digits.rfind("."), digits.rfind(","))
        digits = re.sub(r"[.,]", "", digits[:decimal]) + "." + digits[decimal + 1 :]
    elif commas == 1 and (comma or has_decimal_comma([digits])):
        digits = digits.replace(",", ".")
    elif commas or points > 1:
        digits = re.sub(r"[.,]", "", digits)
    try:
        value = float(digits + (match[2] or ""))
    except ValueError:
        raise InvalidInputError(f"{where} is {in_short(text)}; it must be a number, such as 24 or 8.5") from None
    if not math.isfinite(value):
        raise InvalidInputError(f"{where} is {in_short(text)}; it must be a finite number, such as 24 or 8.5")
    return value


def whole(text: str, where: str, comma: bool) -> int:
    value = number_of(text, where, comma)
    if value != int(value) or value < 0:
        raise InvalidInputError(f"{where} is {in_short(text)}; a number of cards is whole")
    return int(value)


def gib_of(text: str, unit: str, where: str, comma: bool) -> float:
    return number_of(text, where, comma) * (UNITS[unit_in(text) or unit] / GIB)


def unit_in(text: str) -> str | None:
    """The unit that a cell or a header names. ``GB`` of graphics memory are GiB, and ``TB`` are TiB."""
    match = _WITH_UNIT.search(text.replace("_", " ").replace("[", " ").replace("(", " ").replace("]", " "))
    letter = match[1][0].lower() if match else ""
    return {"g": "GiB", "m": "MiB", "b": "bytes", "k": "KiB", "t": "TiB", "": None}[letter]


def is_percent(header: str, cells: Iterable[str], comma: bool) -> bool:
    """Whether a column of shares is in percent: by its header or its cells, or because one is above 1.

    Raises:
        InvalidInputError: a cell may be a fraction beside others that have a %.
    """
    if re.search(r"(?i)%|percent|prozent|pourcent", header) is not None:
        return True
    filled = [cell for cell in cells if has_number(cell)]
    bare = [cell for cell in filled if "%" not in cell]
    some = len(bare) < len(filled)
    for cell in bare if some else ():
        if 0 < number_of(cell, header, comma) <= 1:
            raise InvalidInputError(f"{header} is {in_short(cell)} beside others in %; write all of them alike")
    return some or any(number_of(cell, header, comma) > 1 for cell in bare)


def has_number(text: str) -> bool:
    return _NUMBER.search(text) is not None


def may_be_thousands_or_not(cells: Iterable[str]) -> str | None:
    """The first of the numbers whose comma may be either: ``8,125``."""
    return next((cell for cell in cells if _EITHER_COMMA.search(cell)), None)


def has_decimal_comma(cells: Iterable[str]) -> bool:
    """Whether some of the numbers can only be one with a decimal comma."""
    return any(_DECIMAL_COMMA.search(cell) for cell in cells)
