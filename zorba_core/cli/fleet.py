"""``zorba fleet check``: a list of cards as its owner has it, and the fleet's CSV that every other command reads."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.data.inventory import (
    MAX_BYTES,
    UNITS,
    Columns,
    Inventory,
    fleet_of_cards,
    read_cards,
    read_inventory,
)
from zorba_core.errors import InvalidInputError, MissingDataError, in_short, name_some
from zorba_core.files import as_named, check_target, write_text

_ROLES = tuple(field.name for field in fields(Columns) if field.name != "unit")
_MOST_KINDS = 60
_COLUMN_HELP = f"ROLE=NAME, what a column is where the guess is wrong; several times. Roles: {', '.join(_ROLES)}."
_UNIT_HELP = f"Of the memory: {', '.join(UNITS)}."


def check(
    cards: Path = typer.Argument(..., help="CSV, Excel workbook, written list or output of nvidia-smi; - for stdin."),
    column: list[str] = typer.Option([], help=_COLUMN_HELP),
    unit: str | None = typer.Option(None, help=_UNIT_HELP),
    share: float = typer.Option(1.0, help="Of each card's memory that training may use, above 0 to 1."),
    to: Path | None = typer.Option(None, help="Write the fleet there, as CSV with columns client,vram_gib."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Show how a list of cards with any column names is read, and which columns are not; write it as a fleet."""
    if to is not None:
        check_target(to)
    content = _content(cards)
    try:
        inventory = read_inventory(content, cards.name)
        columns = _corrected(inventory, column, unit)
        kinds, busy = read_cards(inventory, columns, share)
    except InvalidInputError as error:
        raise InvalidInputError(f"{cards}: {error}") from None
    fleet = fleet_of_cards(kinds)
    if to is not None:
        write_text(to, fleet.to_frame().to_csv(index=False))
    result = {
        "source": inventory.source,
        "columns": {role: getattr(columns, role) for role in (*_ROLES, "unit")},
        "not_used": inventory.unread(columns),
        "doubts": list(inventory.doubts_of(columns)),
        "kinds": [{"kind": kind.kind, "count": kind.count, "vram_gib": kind.gib, "relative_speed": kind.speed}
                  for kind in kinds],
        "clients": len(fleet.names),
        "busy": busy,
        "fleet": None if to is None else str(to),
    }  # fmt: skip
    emit(result, as_json, _lines(result))


def _content(cards: Path) -> bytes:
    if str(cards) == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    if not cards.is_file():
        raise MissingDataError(f"list of cards {str(cards)!r} does not exist; give a CSV, Excel or text file, or -")
    with open(as_named(cards), "rb") as file:
        return file.read(MAX_BYTES + 1)  # one more than is read: too many are refused


def _corrected(inventory: Inventory, given: Sequence[str], unit: str | None) -> Columns:
    """The guess, as the options correct it."""
    roles: dict[str, str | None] = {}
    for pair in given:
        role, equals, name = pair.partition("=")
        if not equals or role not in _ROLES:
            raise InvalidInputError(f"--column {in_short(pair)} is not ROLE=NAME with a role of {', '.join(_ROLES)}")
        if name and name not in inventory.header:
            known = name_some(inventory.header)
            raise InvalidInputError(f"--column {in_short(pair)}: the list has no such column; it has {known}")
        roles[role] = name or None
    taken = {name for name in roles.values() if name}
    others = {role: None for role in _ROLES if role not in roles and getattr(inventory.columns, role) in taken}
    columns = replace(inventory.columns, **others, **roles)
    if unit is None:
        return columns
    if unit not in UNITS:
        raise InvalidInputError(f"--unit is {in_short(unit)}; it must be one of {', '.join(UNITS)}")
    return replace(columns, unit=unit)


def _shown(gib: float) -> str:
    return f"{gib:.2f}" if gib >= 0.01 else f"{gib:.2g}"


def _lines(result: dict) -> Iterator[str]:
    columns = result["columns"]
    yield f"read as {result['source']}"
    for role in _ROLES:
        if columns[role] is not None:
            unit = f" in {columns['unit']}" if role in ("memory", "free") else ""
            yield f"  {role:<8}{columns[role]}{unit}"
    for doubt in result["doubts"]:
        yield f"look at: {doubt}"
    if result["not_used"]:
        yield f"not used: {', '.join(result['not_used'])}"
    kinds = len(result["kinds"])
    yield f"{result['clients']:,} cards of {kinds} kind{'s' if kinds > 1 else ''}"
    if result["busy"]:
        yield f"left out, with nothing free: {result['busy']:,}"
    for kind in result["kinds"][:_MOST_KINDS]:
        speed = "" if kind["relative_speed"] == 1 else f", speed {kind['relative_speed']:g}"
        yield f"  {kind['count']:>6} x {kind['kind'][:40]:<40}{_shown(kind['vram_gib']):>9} GiB{speed}"
    if len(result["kinds"]) > _MOST_KINDS:
        yield f"  and {len(result['kinds']) - _MOST_KINDS} more kinds"
    if result["fleet"] is not None:
        yield f"fleet: {result['fleet']}; zorba plan --fleet {result['fleet']} --model opt-125m"
