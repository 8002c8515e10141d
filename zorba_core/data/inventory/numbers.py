"""Numbers and sizes as people and programs write them. Sizes that vendors call GB are GiB for graphics memory.

A comma or a point before exactly three digits, as in ``8,125``, may be of thousands or of a decimal. What else the
table has decides (:func:`decimal_marks`), then what the number is of. Where neither does it is refused, because the one
reading is a thousand times the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

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
_SPACES = " '\u2019\u00a0\u202f"  # between thousands, in one country or another
_NUMBER = re.compile(rf"([-+]?)([\d.,{_SPACES}]*+)(.*+)", re.DOTALL)
_EXPONENT = re.compile(r"[eE][-+]?\d++")
_SPACED = re.compile(rf"(\d{{1,3}}([{_SPACES}])\d{{3}}(?:\2\d{{3}})*+)(?:[.,](\d++))?")
_GROUPED = re.compile(r"[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})*+")
_UNIT_BEHIND = re.compile(
    r"(?i)(bytes?|(?-i:B)|[kmgt]i?b|[kmgt]o|[kmgt]i|[gm])?"
    r"(?:(?:\s|^)\(?(?:(?:gd|lpd|d)dr\d?\w{0,2}|hbm\d?\w{0,2}|ecc|v?ram|memory|each|free|per (?:card|gpu))\)?)*"
)
_CARDS_BEHIND = re.compile(r"(?i)([x×*]|cards?|gpus?|pieces?|pcs\.?|units?|stück|stk\.?|karten?|nodes?|台|张|个)?")
PERCENT = re.compile(r"(?i)%|percent|prozent|pourcent")
_SHARE_BEHIND = re.compile(rf"{PERCENT.pattern}|")
_TIMES_BEFORE = re.compile(r"^[x×]\s*+(?=\d)")  # x4
_SPEED_BEHIND = re.compile(r"[xX×]?")
_BRACKETED = re.compile(r"(?i)[\[(]\s*+(?:in\s++)?(bytes?|[kmgt]i?b|[kmgt]o|[kmgt]i|[gmt])\s*+[\])]")
_IN_HEADER = re.compile(r"(?:\b|(?<=\d))(?:((?i:bytes|[kmgt]i?b))|([KMGT]o)|(?i:in )([gGmM]))\b")  # not the word "to"


@dataclass(frozen=True)
class Marks:
    """The decimal marks that the numbers of a column, and of its table, can only have as such."""

    column: frozenset[str] = frozenset()
    table: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Number:
    """A written number. ``decimal`` and ``thousands`` are what it is by either reading of its mark; None: it cannot be
    read so. ``rest`` is what stands behind it."""

    decimal: float | None
    thousands: float | None
    mark: str
    rest: str

    @classmethod
    def of(cls, text: str) -> _Number:
        match = _NUMBER.fullmatch(text.strip())
        assert match is not None  # it takes any text
        sign, digits, rest = match.groups()
        power = _EXPONENT.match(rest) if digits[-1:] not in _SPACES else None
        digits, mark = digits.rstrip(_SPACES), ""
        if power is not None:
            rest = rest[power.end() :]
        decimal, thousands = "", ""
        grouped = _GROUPED.match(digits)
        other = {",": ".", ".": ","}
        if spaced := _SPACED.fullmatch(digits):
            decimal = re.sub(rf"[{_SPACES}]", "", spaced[1]) + "." + (spaced[3] or "")
            mark = digits[len(spaced[1])] if spaced[3] else ""
        elif grouped and grouped.end() == len(digits):
            mark, thousands = grouped[1], re.sub(r"[.,]", "", digits)
            if digits.count(mark) == 1:
                decimal = digits.replace(",", ".")
        elif grouped and re.fullmatch(rf"\{other[grouped[1]]}\d++", digits[grouped.end() :]):
            mark = other[grouped[1]]
            decimal = digits.replace(grouped[1], "").replace(",", ".")
        elif re.fullmatch(r"\d++\.?|\d*+[.,]\d++", digits):
            mark = "," if "," in digits else "." if "." in digits.rstrip(".") else ""
            decimal = digits.replace(",", ".")
        values = [
            float(sign + value + (power[0] if power else "")) if value else None for value in (decimal, thousands)
        ]
        return cls(*values, mark, rest.strip())

    @property
    def certain_mark(self) -> str:
        """The mark that this number shows to be the decimal one; empty where it shows none."""
        if self.decimal is None:
            return {",": ".", ".": ","}.get(self.mark, "")  # 1,234,567
        return self.mark if self.thousands is None else ""

    def value(self, marks: Marks, large: bool) -> float | None:
        """The number, None where it may be either. ``large``: of something that is counted in thousands rather than in
        thousandths, as cards and MiB are."""
        if self.decimal is None or self.thousands is None:
            return self.thousands if self.decimal is None else self.decimal
        if not large:  # a thousand GiB, or a card as fast as a thousand, is none
            decimal = marks.table == {self.mark} or (self.mark == "." and "," not in marks.table)
            return self.decimal if decimal else None
        if marks.column == {self.mark}:
            return self.decimal
        thousands = self.mark not in marks.table if self.mark == "," else marks.table == {","}
        return self.thousands if thousands else None


def whole(text: str, where: str, marks: Marks) -> int:
    """A number of cards: ``4``, ``1,000``, ``4 x``, ``x4``, ``4 pcs``.

    Raises:
        InvalidInputError: it is none, or may be two.
    """
    said = _TIMES_BEFORE.sub("", text.strip())
    value = _value(said, where, marks, _CARDS_BEHIND, "a number of cards, such as 4", True)
    if value != int(value) or value < 0:
        raise InvalidInputError(f"{where} is {in_short(text)}; a number of cards is whole")
    return int(value)


def gib_of(text: str, unit: str, where: str, marks: Marks) -> float:
    """A size in GiB, by the unit that stands behind it, else by ``unit``: ``24``, ``8,5 GB``, ``16 384 MiB``.

    Raises:
        InvalidInputError: it is none, or may be two.
    """
    factor = UNITS[unit_behind(text) or unit]
    large = factor <= 2**20
    return _value(text, where, marks, _UNIT_BEHIND, "a size, such as 24 or 8.5 GiB", large) * (factor / GIB)


def part_of(text: str, where: str, marks: Marks) -> float:
    """A share as it is written: ``0.8``, ``80``, ``80 %``; see :func:`is_percent`.

    Raises:
        InvalidInputError: it is none, or may be two.
    """
    return _value(text, where, marks, _SHARE_BEHIND, "a share, such as 0.8 or 80 %", False)


def speed_of(text: str, where: str, marks: Marks) -> float:
    """A relative speed: ``0.5``, ``2x``.

    Raises:
        InvalidInputError: it is none, or may be two.
    """
    return _value(text, where, marks, _SPEED_BEHIND, "a relative speed, such as 0.5", False)


def _value(text: str, where: str, marks: Marks, behind: re.Pattern[str], what: str, large: bool) -> float:
    number = _Number.of(text)
    if (number.decimal is None and number.thousands is None) or behind.fullmatch(number.rest) is None:
        raise InvalidInputError(f"{where} is {in_short(text)}; it must be {what}")
    value = number.value(marks, large)
    if value is None:
        places = 0 if number.decimal == int(number.decimal) else 4  # never three
        raise InvalidInputError(
            f"{where} is {in_short(text)}, which may be of thousands or a decimal; write {number.thousands:.15g} or "
            f"{number.decimal:.{places}f}"
        )
    if not math.isfinite(value):
        raise InvalidInputError(f"{where} is {in_short(text)}; it must be a finite number, such as 24 or 8.5")
    return value


def unit_behind(cell: str) -> str | None:
    """The unit behind the number in a cell. ``GB`` of graphics memory are GiB, and ``TB`` are TiB."""
    match = _UNIT_BEHIND.fullmatch(_Number.of(cell).rest)
    return _named(match[1] if match else None)


def unit_in(header: str) -> str | None:
    """The unit that a header names, as :func:`unit_behind` means it."""
    named = units_in(header)
    return named[-1] if named else None


def units_in(header: str) -> list[str]:
    """All units that a header names; where some stand in brackets, these alone."""
    inside = [match[1] for match in _BRACKETED.finditer(header)]
    text = re.sub(r"[_\[\](]", " ", header)
    named = map(_named, inside or [match[match.lastindex or 0] for match in _IN_HEADER.finditer(text)])
    return [unit for unit in named if unit]


def _named(unit: str | None) -> str | None:
    return {"g": "GiB", "m": "MiB", "b": "bytes", "k": "KiB", "t": "TiB"}[unit[0].lower()] if unit else None


def is_percent(header: str, cells: Iterable[str], marks: Marks) -> bool:
    """Whether a column of shares is in percent: by its header or its cells, or because they are above 1.

    Raises:
        InvalidInputError: some may be fractions and others not, or all may be.
    """
    filled = [cell for cell in cells if cell.strip()]
    bare = [cell for cell in filled if not PERCENT.search(cell)]
    value = {cell: part_of(cell, header, marks) for cell in filled}
    fraction = next((cell for cell in bare if 0 < value[cell] <= 1), None)
    above = any(value[cell] > 1 for cell in bare)
    if PERCENT.search(header):
        if fraction is not None and not above:
            raise InvalidInputError(
                f"{header} is {in_short(fraction)} in a column of percent; write 80 for 80 %, or 0.8% where less than "
                "one percent is meant"
            )
        return True
    if len(bare) < len(filled) or above:
        if fraction is not None:
            among = "in %" if len(bare) < len(filled) else "above 1"
            raise InvalidInputError(f"{header} is {in_short(fraction)} beside others {among}; write all of them alike")
        if len(bare) == len(filled) and (unclear := next((cell for cell in bare if 1 < value[cell] < 5), None)):
            raise InvalidInputError(f"{header} is {in_short(unclear)}, above 1 and without %; write 0.8 or 80 %")
        return True
    return False


def about(cell: str) -> float | None:
    """A number's size, to guess its unit by: thousands where a comma may be of these. None: there is no number."""
    number = _Number.of(cell)
    return number.thousands if number.decimal is None or (number.mark == "," and number.thousands) else number.decimal


def is_written_number(cell: str) -> bool:
    """Whether a cell is a number with a unit, a % or a word for cards behind it, as some column of numbers has it."""
    number = _Number.of(_TIMES_BEFORE.sub("", cell.strip()))
    return (number.decimal is not None or number.thousands is not None) and any(
        pattern.fullmatch(number.rest) for pattern in (_UNIT_BEHIND, _CARDS_BEHIND, PERCENT)
    )


def decimal_marks(cells: Iterable[str]) -> frozenset[str]:
    """The marks that some of the numbers can only have as decimal ones: of ``16,5`` and ``1,234.5`` both."""
    return frozenset(mark for cell in cells if (mark := _Number.of(cell).certain_mark))


def marks_of(columns: Collection[Iterable[str]]) -> list[Marks]:
    """Of each column of a table, given its cells."""
    marks = [decimal_marks(cells) for cells in columns]
    return [Marks(own, frozenset().union(*marks)) for own in marks]
