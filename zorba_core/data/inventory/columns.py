"""Which column of a table is what: by the words of its header, then by what is in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zorba_core.data.inventory.cells import MAX_ROWS
from zorba_core.data.inventory.numbers import has_decimal_comma, has_number, number_of, unit_in
from zorba_core.errors import InvalidInputError

_ROLES = {  # words of a header, longest match first
    "free": ("memory.free", "free", "available", "avail", "frei", "verfügbar", "libre", "disponible", "usable"),
    "memory": (
        "memory.total", "vram_gib", "vram", "gpu memory", "gpu_mem", "memory", "mem", "speicher", "framebuffer",
        "mémoire", "memoria", "ram", "gib", "gb", "mib", "mb",
    ),
    "count": ("count", "quantity", "qty", "number", "anzahl", "stück", "stueck", "nombre", "cantidad", "pcs", "num"),
    "kind": ("gpu name", "card", "kind", "gpu model", "model", "gpu", "karte", "grafikkarte", "device", "type"),
    "name": ("client", "host", "hostname", "node", "machine", "rechner", "name", "asset", "server", "id"),
    "speed": ("relative_speed", "speed", "tempo"),
    "share": ("share", "anteil", "fraction", "percent", "part"),
}  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """Which column is what, by its name in the table; None: there is none."""

    memory: str | None = None
    unit: str = "GiB"
    free: str | None = None  # memory that may be used; the smaller of it and the total counts
    count: str | None = None
    kind: str | None = None
    name: str | None = None
    speed: str | None = None
    share: str | None = None  # of the memory that may be used, in percent or as a fraction


@dataclass(frozen=True)
class Inventory:
    """A table from outside with a guess of its columns. ``doubts`` are what a person should look at."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    columns: Columns
    source: str  # what it was recognised as
    doubts: tuple[str, ...] = ()


def guessed(cells: list[list[str]], source: str) -> Inventory:
    """The header is the first row with several filled cells; what comes before it is a title."""
    if len(cells) > MAX_ROWS + 1:
        raise InvalidInputError(f"the list has {len(cells):,} rows; at most {MAX_ROWS:,} are read. Use a column count")
    width = max(len(row) for row in cells)
    start = next(
        (i for i, row in enumerate(cells[:20]) if sum(bool(cell.strip()) for cell in row) >= max(1, min(2, width))), 0
    )
    first = cells[start]
    headed = not any(re.fullmatch(r"[-+]?[\d.,]+\s*(?:[KMGT]?i?B)?", cell.strip()) for cell in first if cell.strip())
    body = cells[start + 1 :] if headed else cells[start:]
    header = [cell.strip() or f"column {i + 1}" for i, cell in enumerate(first)] if headed else []
    header += [f"column {i + 1}" for i in range(len(header), width)]
    for i, name in enumerate(header):
        if name in header[:i]:
            header[i] = f"{name} ({i + 1})"
    rows = tuple(tuple(cell for cell in row) + ("",) * (width - len(row)) for row in body)
    if not rows:
        raise InvalidInputError("the list has a header and no rows; give a row for each card, or a column with counts")
    columns, doubts = guess(header, rows)
    return Inventory(tuple(header), rows, columns, source, tuple(doubts))


def guess(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Columns, list[str]]:
    chosen: dict[str, str | None] = dict.fromkeys(_ROLES)
    numeric = {name: _numeric(rows, index) for index, name in enumerate(header)}

    def score(role: str, name: str) -> int:
        word = name.lower()
        return max((len(key) for key in _ROLES[role] if re.search(rf"(?<![a-zäöü]){re.escape(key)}", word)), default=0)

    for role in _ROLES:
        wants_number = role in ("free", "memory", "count", "speed", "share")
        options = [
            name
            for name in header
            if name not in chosen.values()
            and score(role, name)
            and (not wants_number or numeric[name])
            and not (role == "count" and unit_in(name))
            and not (role == "kind" and numeric[name] and not re.search(r"(?i)card|kind|gpu|model", name))
        ]
        chosen[role] = max(options, key=lambda name: score(role, name), default=None)
    doubts = []
    if chosen["memory"] is None and chosen["free"] is not None:
        chosen["memory"], chosen["free"] = chosen["free"], None
    if chosen["memory"] is None:
        left = [name for name in header if numeric[name] and name not in chosen.values()]
        with_unit = [name for name in left if unit_in(name) or any(unit_in(row[header.index(name)]) for row in rows)]
        chosen["memory"] = next(iter(with_unit or left), None)
        doubts.append(
            "no column is called memory"
            + (f"; {chosen['memory']!r} is taken" if chosen["memory"] else ": choose the one that says it")
        )
    if chosen["kind"] is None:  # a column of few different words
        index = {name: i for i, name in enumerate(header)}
        words = [name for name in header if not numeric[name] and name not in chosen.values()]
        chosen["kind"] = next((n for n in words if len({row[index[n]] for row in rows}) < max(2, len(rows))), None)
        if chosen["kind"] is None and chosen["name"] is not None:
            distinct = {row[index[chosen["name"]]] for row in rows}
            if chosen["count"] is not None or len(distinct) < len(rows):
                chosen["kind"], chosen["name"] = chosen["name"], None
    unit = "GiB"
    memory = chosen["memory"]
    if memory is not None:
        column = [row[list(header).index(memory)] for row in rows]
        named = unit_in(memory) or next((u for cell in column if (u := unit_in(cell))), None)
        comma = has_decimal_comma(column)
        sizes = [number_of(cell, "", comma) for cell in column if has_number(cell)]
        typical = float(np.median(sizes)) if sizes else 0.0
        unit = named or ("bytes" if typical > 1e8 else "MiB" if typical >= 500 else "GiB")
        if named is None:
            doubts.append(f"{memory!r} names no unit; its size suggests {unit}")
        elif re.search(r"(?i)\bgb\b", memory + " " + " ".join(column[:3])):
            doubts.append("GB is read as GiB, as vendors mean it for graphics memory")
    return Columns(unit=unit, **chosen), doubts


def _numeric(rows: Sequence[Sequence[str]], index: int) -> bool:
    """Whether most filled cells begin with a number, or are one with a unit."""
    cells = [row[index].strip() for row in rows[:200] if row[index].strip()]
    return bool(cells) and sum(bool(re.match(r"[-+]?[\d.,][\d.,' ]*\s*(?:%|[kmgt]?i?b(?:ytes)?|[gm])?\s*$", c, re.I))
                               for c in cells) > 0.6 * len(cells)  # fmt: skip
