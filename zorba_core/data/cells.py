"""Cells of a user's rows: texts, and one line that names the place of a cell that is none.

Shapes: R rows.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.data.task import CLIENT, PLACE
from zorba_core.errors import InvalidInputError, in_short, name_some
from zorba_core.tables import is_empty

_HALF = re.compile("[\ud800-\udfff]")  # half of a character, from JSON that was cut within an emoji
_NO_VALUE = list | tuple | dict | set | bytes | np.ndarray


def look_of(text: str) -> str:
    """A label or a header without differences that a person does not see: case, spaces, encodings of an accent."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def as_spelled(frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """The frame with these names for columns whose names differ from them only in look: ``Label`` for ``label``."""
    by_look: dict[str, list[str]] = {}
    for name in frame.columns:
        by_look.setdefault(look_of(name), []).append(name)
    looks = {column: by_look.get(look_of(column), []) for column in columns if column not in frame}
    names = {there[0]: column for column, there in looks.items() if len(there) == 1 and there[0] not in columns}
    return frame.rename(columns=names) if names else frame


def check_columns(frame: pd.DataFrame, columns: Sequence[str], filled: Iterable[str] = ()) -> None:
    """Refuse rows without one of the columns.

    Args:
        filled: columns that every file must have.

    Raises:
        InvalidInputError: names the missing column and the existing ones, or the file without the column.
    """
    for column, file in frame.attrs.get("partial", {}).items():
        if column in filled:
            raise InvalidInputError(
                f"{file} has no column {in_short(column)}, which other files have; give it the same header, or leave "
                "the file out"
            )
    if empty := formulas(frame, columns):
        raise InvalidInputError(empty)
    for column in columns:
        if column not in frame:
            there = [name for name in frame.columns if name not in (PLACE, CLIENT)]
            raise InvalidInputError(f"the rows have no column {in_short(column)}; they have {name_some(there, 12)}")


def formulas(frame: pd.DataFrame, columns: Iterable[str]) -> str:
    """A sentence about a formula in these columns whose result the file does not have; empty if there is none."""
    for column, where in frame.attrs.get("formulas", {}).items():
        if column in columns:
            return (
                f"{where} (column {column}): a formula without a stored result; open and save the file in Excel or "
                "LibreOffice, or save the values"
            )
    return ""


def texts_of(frame: pd.DataFrame, column: str) -> list[str]:
    """A column as text; an empty cell is an empty text.

    Raises:
        InvalidInputError: a cell has a list or an object, or half of a character.
    """
    values = values_of(frame, column, "a text", "name another column")
    texts = ["" if is_empty(value) else str(value) for value in values]
    halves_R = [not text.isascii() and _HALF.search(text) is not None for text in texts]
    refuse_rows(frame, halves_R, f"column {column} has half of a character", "remove it")
    return texts


def values_of(frame: pd.DataFrame, column: str, expected: str, cure: str) -> list[Any]:
    """A column's values.

    Raises:
        InvalidInputError: one is a list, an object or bytes in place of ``expected``.
    """
    values = frame[column].tolist()
    if any(issubclass(kind, _NO_VALUE) for kind in {*map(type, values)}):
        invalid = [value for value in values if isinstance(value, _NO_VALUE)]
        first = invalid[0][0] if isinstance(invalid[0], list) and invalid[0] else None
        if isinstance(first, dict) and "content" in first:
            cure = "write each conversation as a column of questions and one of answers"
        what = f"column {column} has a {type(invalid[0]).__name__} in place of {expected}"
        refuse_rows(frame, [isinstance(value, _NO_VALUE) for value in values], what, cure)
    return values


def refuse_without_text(
    frame: pd.DataFrame, texts: dict[str, list[str]], columns: Sequence[str], what: str = "text"
) -> None:
    """Refuse a row whose texts in all these columns are empty.

    Raises:
        InvalidInputError: names the places of such rows.
    """
    if columns:
        empty_R = [not any(map(str.strip, parts)) for parts in zip(*(texts[column] for column in columns), strict=True)]
        refuse_rows(frame, empty_R, f"no {what} in {' or '.join(columns)}", "remove such rows, or fill them in")


def refuse_rows(
    frame: pd.DataFrame, wrong_R: Sequence[bool], what: str, cure: str = "correct or remove such rows"
) -> None:
    """Refuse rows.

    Args:
        wrong_R: for each row, whether it is wrong.
        what, cure: the problem and its remedy, for the message.

    Raises:
        InvalidInputError: a row is wrong; names the places of the first ones.
    """
    if any(wrong_R):
        places = frame[PLACE][np.array([*map(bool, wrong_R)])].tolist()
        more = f" ({len(places)} such rows: {name_some(places[1:], 3)})" if len(places) > 1 else ""
        raise InvalidInputError(f"{places[0]}: {what}{more}; {cure}")
