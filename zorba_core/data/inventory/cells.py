"""Cells of a text or of an Excel workbook from outside."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
import zipfile
from collections.abc import Sequence
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np

from zorba_core.errors import InvalidInputError, in_short

MAX_UNPACKED_BYTES = 80_000_000  # of an Excel file
MAX_ROWS, MAX_COLUMNS = 20_000, 60
MAX_LINE, MAX_CELL = 10_000, 500  # characters; what is longer is no list of cards
NO_CARD = "the list has no row with a card; give a row for each card, or paste what nvidia-smi prints"
_MAX_LINES = 5 * MAX_ROWS  # nvidia-smi prints up to five for a card
_MAX_ELEMENTS = 5 * MAX_ROWS * MAX_COLUMNS  # of one part of an Excel file; a cell has up to four


def decoded(content: bytes) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encodings: tuple[str, ...] = ("utf-16",)
    else:
        encodings = ("utf-8-sig", "cp1252")
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise InvalidInputError("the file is neither text nor an Excel workbook; save it as CSV or .xlsx")


def check_lines(text: str) -> None:
    """Refuse a text that is no list of cards by its size alone, before any expression goes through it.

    Raises:
        InvalidInputError: a line is too long, which is named by its number, or there are too many lines.
    """
    lines = text.splitlines()
    if len(lines) > _MAX_LINES:
        raise InvalidInputError(
            f"the list has {len(lines):,} lines; at most {_MAX_LINES:,} are read. Use a column count"
        )
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE:
            raise InvalidInputError(
                f"line {number} of the list has {len(line):,} characters; at most {MAX_LINE:,} are read. Give a row "
                "for each card, or for each kind with a column count"
            )


def excel_cells(content: bytes) -> tuple[list[list[str]], list[str]]:
    """The cells of a workbook's first visible sheet that has any, and what a person should look at. Formulas count with
    the value that was saved."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            unpacked = sum(entry.file_size for entry in packed.infolist())
            if unpacked > MAX_UNPACKED_BYTES:
                raise InvalidInputError(f"the workbook unpacks to {unpacked / 1e6:.0f} MB; save the list as CSV")
            _check_sheets(packed)
        from openpyxl import load_workbook

        workbook = load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    except ImportError:
        raise InvalidInputError("an Excel file needs openpyxl: pip install openpyxl; or save the list as CSV") from None
    except InvalidInputError:
        raise
    except Exception:  # a workbook from outside can be broken in any way
        raise InvalidInputError("the Excel file cannot be read; save it as .xlsx again, or as CSV") from None
    tables = []
    for sheet in workbook.worksheets:
        if sheet.sheet_state != "visible":
            continue
        rows = [
            ["" if value is None else _cell(value) for value in row[:MAX_COLUMNS]]
            for row in sheet.iter_rows(max_row=MAX_ROWS + 2, max_col=MAX_COLUMNS, values_only=True)
        ]
        rows = [row for row in rows if any(row)]
        if len(rows) > 1:
            tables.append((sheet.title, rows))
    if tables:
        further = ", ".join(repr(title[:40]) for title, _ in tables[1:5])
        return tables[0][1], [f"the sheet {tables[0][0][:40]!r} is read, not {further}"] if further else []
    raise InvalidInputError("the Excel file has no sheet with a table")


def _check_sheets(packed: zipfile.ZipFile) -> None:
    """Refuse a workbook with more than can be read, before openpyxl reads it: that goes through a sheet to its end
    where the sheet does not say how large it is.

    Raises:
        InvalidInputError: a part of it has too many rows or elements.
    """
    for entry in packed.infolist():
        counts = {"row": 0, "": 0}

        def count(name: str, attributes: object, counts: dict[str, int] = counts) -> None:
            counts[""] += 1
            if name.rpartition(":")[2] == "row":
                counts["row"] += 1
            if counts["row"] > MAX_ROWS + 2 or counts[""] > _MAX_ELEMENTS:
                raise InvalidInputError(
                    f"a sheet of the workbook is larger than {MAX_ROWS:,} rows of {MAX_COLUMNS} columns, the most that "
                    "is read; use a column count, or save the sheet with the list alone"
                )

        parser = ParserCreate()
        parser.StartElementHandler = count
        with packed.open(entry) as stream, contextlib.suppress(ExpatError):  # pictures and the like
            parser.ParseFile(stream)


def _cell(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _separator(lines: Sequence[str]) -> str:
    """What stands in most lines, outside quotes, and equally often in most; else a number with commas would count."""
    bare = [re.sub(r'"[^"]*+"', "", line) for line in lines]

    def fits(separator: str) -> tuple[int, int, float]:
        counts = [line.count(separator) for line in bare]
        usual = float(np.median(counts))
        return sum(map(bool, counts)), counts.count(usual), usual

    return max("\t;|,", key=fits)


def separated_cells(text: str) -> list[list[str]]:
    """Cells of text that is separated by tabs, semicolons, bars or commas."""
    lines = [line for line in text.splitlines() if not re.fullmatch(r"[\s|+=:-]*+", line)]
    if lines and lines[0].lower().startswith("sep="):
        lines = lines[1:]
    if not lines:
        raise InvalidInputError(NO_CARD)
    if all(line.strip().startswith("|") for line in lines):  # a table as Markdown has it
        # One bar at each end: two of them are an empty cell.
        lines = [line.strip().removeprefix("|").removesuffix("|") for line in lines]
    separator = _separator(lines[:50])
    if separator not in lines[0] and all(re.search(r"\S\s{2,}+\S", line) for line in lines):
        rows = [re.split(r"\s{2,}+", line.strip()) for line in lines]
        if odd := next((row for row in rows if len(row) != len(rows[0])), None):
            raise InvalidInputError(
                f"the row {in_short('  '.join(odd))} has {len(odd)} cells and the first has {len(rows[0])}; separate "
                "the cells with tabs or semicolons"
            )
        return [row[:MAX_COLUMNS] for row in rows]
    try:
        quoted = [f"{line}\n" for line in lines]  # so that a quote that goes on over a line shows
        rows = list(csv.reader(quoted, delimiter=separator, skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise InvalidInputError(
            f"this is no table that can be read: {error}; close each quotation mark, or leave it out"
        ) from None
    if odd := next((cell for row in rows for cell in row if "\n" in cell and separator in cell), None):
        raise InvalidInputError(
            f"the cell {in_short(odd)} goes over several lines; close each quotation mark, or leave it out"
        )
    return [[" ".join(cell.split("\n")).strip() for cell in row[:MAX_COLUMNS]] for row in rows]
