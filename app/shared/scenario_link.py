"""A scenario as the parameters of a link, and back. Only what differs from the defaults is in a link.

A table of clients goes in as compressed CSV while it is short enough for an address.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import zlib
from collections.abc import Mapping
from typing import Any

from app.shared.scenario import Scenario
from app.shared.scenario_fields import CHOICES, KEYS, PERCENT, checked, default, is_whole, used_fields
from zorba_core.errors import InvalidInputError

ROWS = "rows"
MAX_ROWS_CHARACTERS = 1_300  # mail and chat programs cut addresses at 2,000; longer rows are still read
_MAX_CSV_BYTES = 1_000_000


def scenario_to_link(scenario: Scenario) -> dict[str, str]:
    """Parameters by their short names. Without ``rows`` for a table too long for an address."""
    parameters = {
        KEYS[name]: _text(name, getattr(scenario, name))
        for name in used_fields(scenario)
        if getattr(scenario, name) != default(name)
    }
    if scenario.fleet_kind == "table":
        rows = _packed(scenario.table)
        if len(rows) <= MAX_ROWS_CHARACTERS:
            parameters[ROWS] = rows
    return parameters


def is_held(scenario: Scenario) -> bool:
    """Whether a link holds all of the scenario: a long table of clients stays out."""
    return scenario.fleet_kind != "table" or ROWS in scenario_to_link(scenario)


def scenario_from_link(parameters: Mapping[str, str]) -> tuple[Scenario, list[str]]:
    """The scenario of a link, and the parameters that could not be read and count as left out."""
    fields, ignored = {}, []
    for name, key in KEYS.items():
        if key in parameters:
            try:
                fields[name] = checked(name, _value(name, parameters[key]))
            except (InvalidInputError, ValueError, OverflowError):
                ignored.append(key)
    scenario = Scenario(**fields)
    if ROWS in parameters and scenario.fleet_kind == "table":
        try:
            scenario = scenario.replace(table=checked("table", _unpacked(parameters[ROWS])))
        except (InvalidInputError, ValueError, zlib.error, binascii.Error, csv.Error):
            ignored.append(ROWS)
    return scenario, ignored


def _text(name: str, value: Any) -> str:
    if name in PERCENT:
        return str(round(100 * value))
    return (
        str(value).lower() if isinstance(value, bool) else f"{value:.12g}" if isinstance(value, float) else str(value)
    )


def _value(name: str, text: str) -> Any:
    if name in CHOICES:
        return text
    if name == "leave_out_small":
        return {"true": True, "false": False}.get(text.lower(), text)
    if name in PERCENT:
        return int(text) / 100
    return int(text) if is_whole(name) else float(text)


def _packed(rows: tuple[tuple[object, object], ...]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(("" if cell is None else cell for cell in row) for row in rows)
    return base64.urlsafe_b64encode(zlib.compress(text.getvalue().encode(), 9)).decode().rstrip("=")


def _unpacked(text: str) -> list[tuple[str | None, str | float | None]]:
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(data, _MAX_CSV_BYTES).decode("utf-8")
    if not (unpacker.eof and content):
        raise ValueError("cut short, too long, or empty")
    rows = []
    for cells in csv.reader(io.StringIO(content)):
        name, gib = cells
        rows.append((name or None, _number(gib)))
    return rows


def _number(text: str) -> str | float | None:
    try:
        return float(text)
    except ValueError:
        return text or None
