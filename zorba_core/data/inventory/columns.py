"""Which column of a table is what: by the words of its header, then by what is in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zorba_core.data.inventory.cells import MAX_CELL, MAX_ROWS, NO_CARD
from zorba_core.data.inventory.counts import COUNT, CROSS, SIGNS, count_behind
from zorba_core.data.inventory.headers import (
    MACHINES,
    NUMBERS,
    ROLES,
    Traits,
    may_be_sums,
    of_all,
    of_card,
    score,
    sums,
)
from zorba_core.data.inventory.numbers import UNITS, about, is_written_number, unit_behind, unit_in, units_in
from zorba_core.errors import InvalidInputError, in_short

_FURTHER_COUNT = re.compile(
    rf"(?<![\w.])\d{{1,4}}\s*+{CROSS}|[(\s][{SIGNS}]\s*+\d|\(\d{{1,3}}\)|:\d++$|^\d{{1,3}}(?:\s++[A-Za-z]|pcs)"
)
_SIZE_IN_KIND = re.compile(r"(?i)(?<![\d.])(\d{1,4})\s?gi?b(?![a-z])")
_MANY = re.compile(r"\[\d++[-,]\d|^([A-Za-z]++[-_ ]?)\d{1,5}\s?(?:[-–]|\.\.)\s?\1\d{1,5}$")
WORKBOOK = "Excel workbook"  # where a remark may stand beside the table


@dataclass(frozen=True)
class Columns:
    """Which column is what, by its name in the table; None: there is none."""

    memory: str | None = None
    unit: str = "GiB"
    free: str | None = None  # memory that may be used; the smaller of it and the total counts
    count: str | None = None
    each: str | None = None  # cards in each machine, where ``count`` counts machines
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

    def doubts_of(self, columns: Columns) -> tuple[str, ...]:
        """What a person should look at; nothing where that person has said what the columns are."""
        return self.doubts if columns == self.columns else ()

    def unread(self, columns: Columns) -> list[str]:
        """The columns that nothing is taken from."""
        return [name for name in self.header if name not in vars(columns).values()]


def guessed(cells: list[list[str]], source: str) -> Inventory:
    """The header is the first row with several filled cells; what comes before it is a title."""
    if len(cells) > MAX_ROWS + 1:
        raise InvalidInputError(f"the list has {len(cells):,} rows; at most {MAX_ROWS:,} are read. Use a column count")
    if not any(cell.strip() for row in cells for cell in row):
        raise InvalidInputError(NO_CARD)
    for number, row in enumerate(cells, start=1):
        if longest := next((cell for cell in row if len(cell) > MAX_CELL), None):
            raise InvalidInputError(
                f"row {number} of the table has a cell of {len(longest):,} characters ({in_short(longest, 30)}); at "
                f"most {MAX_CELL} are read. Shorten it, or leave its column out"
            )
    width = max(len(row) for row in cells)
    start = next(
        (i for i, row in enumerate(cells[:20]) if sum(bool(cell.strip()) for cell in row) >= max(1, min(2, width))), 0
    )
    first = cells[start]
    headed = not any(is_written_number(cell) for cell in first if cell.strip())
    body = cells[start + 1 :] if headed else cells[start:]
    if wider := None if source == WORKBOOK else next((row for row in body if any(row[len(first) :])), None):
        raise InvalidInputError(
            f"the row {in_short(', '.join(wider))} has {len(wider)} cells and the first has {len(first)}; write a "
            "number without commas, or in quotes"
        )
    header = [cell.strip() or f"column {i + 1}" for i, cell in enumerate(first)] if headed else []
    header += [f"column {i + 1}" for i in range(len(header), width)]
    for i, name in enumerate(header):
        if name in header[:i]:
            header[i] = f"{name} ({i + 1})"
    rows = tuple(tuple(cell for cell in row) + ("",) * (width - len(row)) for row in body)
    if not rows:
        raise InvalidInputError("the list has a header and no rows; give a row for each card, or a column with counts")
    kept = [i for i, name in enumerate(header) if name != f"column {i + 1}" or any(row[i].strip() for row in rows)]
    header, rows = [header[i] for i in kept], tuple(tuple(row[i] for i in kept) for row in rows)
    columns, doubts = guess(header, rows)
    if columns.kind is not None and columns.count is None and columns.each is None:
        header, rows, columns = _counted_in_kinds(header, rows, columns)
    return Inventory(tuple(header), rows, columns, source, (*doubts, *_doubts_of_rows(header, rows, columns)))


def _counted_in_kinds(
    header: list[str], rows: tuple[tuple[str, ...], ...], columns: Columns
) -> tuple[list[str], tuple[tuple[str, ...], ...], Columns]:
    """A table whose kinds say how many there are, ``4x RTX 3090`` or ``RTX 3090 x4``, with these in a column."""
    place = header.index(columns.kind or "")
    split = [_count_of(row[place].strip()) for row in rows]
    if not any(count for count, _ in split):
        return header, rows, columns
    name = _in_kind(columns)
    split_rows = zip(rows, split, strict=True)
    rows = tuple((*row[:place], kind, *row[place + 1 :], count) for row, (count, kind) in split_rows)
    return [*header, name], rows, replace(columns, count=name)


def _in_kind(columns: Columns) -> str:
    """The header of the numbers that the kinds name themselves."""
    return f"count in {columns.kind}"


def _count_of(kind: str) -> tuple[str, str]:
    first = COUNT.match(kind)
    return (first[1], kind[first.end() :]) if first and kind[first.end() :] else count_behind(kind)


def _doubts_of_rows(header: list[str], rows: Sequence[Sequence[str]], columns: Columns) -> list[str]:
    """What single rows leave open: cells of sums, of several machines or cards, and empty ones beside others."""
    doubts = []
    cells = {name: [row[i].strip() for row in rows] for i, name in enumerate(header)}
    if total := next(filter(None, map(may_be_sums, rows)), None):
        doubts.append(f"the row of {in_short(total)} is read as one of cards; leave it out if it is one of sums")
    if (
        kind := next(filter(_FURTHER_COUNT.search, dict.fromkeys(cells.get(columns.kind or "", ()))), None)
    ) is not None:
        doubts.append(f"{in_short(kind)} is read as the name of a card; its number is no count")
    if (name := next(filter(_MANY.search, dict.fromkeys(cells.get(columns.name or "", ()))), None)) is not None:
        doubts.append(f"{in_short(name)} is read as one machine")
    if columns.kind and columns.memory:
        for kind, cell in dict.fromkeys(zip(cells[columns.kind], cells[columns.memory], strict=True)):
            named, size = _SIZE_IN_KIND.search(kind), about(cell)
            gib = (size or 0) * UNITS[unit_behind(cell) or columns.unit] / UNITS["GiB"]
            if named and gib and abs(gib - int(named[1])) > 0.1 * int(named[1]):
                doubts.append(f"{in_short(kind)} names {named[1]} GB; its memory is read as {gib:.4g} GiB")
                break
    for role, meaning in (("count", "one"), ("share", "no share"), ("free", "nothing said of it")):
        name = getattr(columns, role)
        filled = [bool(cells[name][i]) for i, row in enumerate(rows) if any(row) and not sums(row)] if name else []
        if name and not all(filled) and name != _in_kind(columns):
            doubts.append(f"{name!r} has empty cells; each is read as {meaning}")
    return doubts


def guess(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Columns, list[str]]:
    """What each column is, and what a person should look at."""
    cells = {name: [row[index] for row in rows] for index, name in enumerate(header)}
    traits = {name: Traits.of(name, cells[name]) for name in header}
    chosen: dict[str, str | None] = dict.fromkeys(ROLES)
    doubts: list[str] = []
    if any("memory.total" in name for name in header) and set(cells.get("count", ())) == {str(len(rows))}:
        traits["count"] = replace(traits["count"], other=True)  # nvidia-smi's, of all cards of the machine

    def left(role: str) -> list[str]:
        return [name for name in header if name not in chosen.values() and traits[name].may_be(role)]

    for role in ROLES:
        options = [name for name in left(role) if score(role, name) or (role == "kind" and traits[name].cards)]
        chosen[role] = max(options, key=lambda name: (traits[name].rank(role), score(role, name)), default=None)
    if chosen["count"] is None and chosen["each"]:
        chosen["count"] = next((name for name in left("count") if MACHINES.search(name)), None)
    if chosen["memory"] is None and chosen["free"] is not None:
        chosen["memory"], chosen["free"] = chosen["free"], None
    if chosen["memory"] is None:
        with_unit = [name for name in left("memory") if unit_in(name) or any(map(unit_behind, cells[name]))]
        chosen["memory"] = next(iter(with_unit or left("memory")), None)
        taken = f"; {chosen['memory']!r} is taken" if chosen["memory"] else ": choose the one that says it"
        doubts.append("no column is called memory" + taken)
    if chosen["kind"] is None:
        _look_for_kind(chosen, left("kind"), cells)
    if chosen["name"] and MACHINES.search(chosen["name"]) and traits[chosen["name"]].may_be("count"):
        chosen["name"] = None  # a number of machines
    doubts += _of_machines(chosen, left("count"))
    unit = "GiB"
    memory, free = chosen["memory"], chosen["free"]
    if memory is not None:
        unit, said = _unit_of(memory, cells[memory])
        doubts += said
        doubts += _other_memory(memory, [name for name in left("memory") if score("memory", name)], header)
        if of_all(memory) and (chosen["count"] or chosen["each"]):
            doubts.append(f"{memory!r} is read as the memory of one card; if it is of all of them, divide it")
    if free is not None and unit_in(free) is None and not all(map(unit_behind, filter(str.strip, cells[free]))):
        doubts.append(f"{free!r} names no unit; it is read in {unit}")
    if (
        free is not None
        and of_card(memory or "")
        and not of_card(free)
        and re.search(r"(?i)mem|ram|space|speicher", free)
    ):
        doubts.append(f"{free!r} is read as free memory of the card; it may be the machine's")
    for name in header:
        if name not in chosen.values() and (said := _not_read(name, cells[name], traits[name])):
            doubts.append(said)
    return Columns(unit=unit, **chosen), doubts


def _of_machines(chosen: dict[str, str | None], others: Sequence[str]) -> list[str]:
    """Which column counts machines and which the cards in each, and what is to be said of it."""
    counts = [name for name in (chosen["count"], *others) if name and (score("count", name) or MACHINES.search(name))]
    machines = [name for name in counts if MACHINES.search(name)]
    each = chosen["each"]
    if each is None and len(machines) == 1 and len(counts) > 1:
        chosen["count"], chosen["each"] = machines[0], next(name for name in counts if name not in machines)
        return [f"{chosen['each']!r} is read as the cards in each of {chosen['count']!r}"]
    if each is not None and machines:
        chosen["count"] = machines[0]
    elif each is not None and chosen["count"] and of_card(chosen["count"]):
        chosen["each"] = None  # the cards are counted already
    elif each is not None and chosen["count"] is None:
        return [f"no column counts machines; each row is read as one with the cards of {each!r}"]
    used = (chosen["count"], chosen["each"])
    further = [name for name in counts if name not in used and score("count", name) > 1]
    return [f"{chosen['count']!r} is read as the number of cards, not {further[0]!r}"] if further else []


def _other_memory(memory: str, others: Sequence[str], header: Sequence[str]) -> list[str]:
    """What is to be said where another column may be the card's memory, or this one the machine's."""
    alike = [name for name in others if of_card(name) or not of_card(memory)]
    if alike:
        return [f"{memory!r} is read as the memory of each card, not {', '.join(map(repr, alike[:4]))}"]
    ram = re.search(r"(?i)\bram\b|vive", memory)
    beside = r"(?i)cpu|core|processor|prozessor" + (r"|host|node|machine|server|rechner|\bpc\b" if ram else "")
    if not of_card(memory) and (machine := next((name for name in header if re.search(beside, name)), None)):
        return [f"{memory!r} is read as the card's memory; beside {machine!r} it may be the machine's"]
    return []


def _not_read(name: str, cells: Sequence[str], traits: Traits) -> str | None:
    """What to say of a column whose header asks to be read, as of numbers, and whose cells are none."""
    if traits.other or traits.identity or not any(score(role, name) for role in NUMBERS):
        return None
    odd = next((cell for cell in cells if cell.strip() and (traits.percent or not is_written_number(cell))), None)
    return None if odd is None else f"{name!r} is not read: {in_short(odd)} is not understood"


def _look_for_kind(chosen: dict[str, str | None], words: Sequence[str], cells: dict[str, list[str]]) -> None:
    """No header says which column names the cards: one of few different words, or the one with names."""
    rows = len(next(iter(cells.values())))
    chosen["kind"] = next((name for name in words if len(set(cells[name])) < max(2, rows)), None)
    name = chosen["name"]
    if chosen["kind"] is None and name is not None and (chosen["count"] is not None or len(set(cells[name])) < rows):
        chosen["kind"], chosen["name"] = name, None
    elif chosen["kind"] is None and name is None:
        chosen["kind"] = next(iter(words), None)


def _unit_of(memory: str, cells: Sequence[str]) -> tuple[str, list[str]]:
    """The unit of the column of memory, and what is to be said of it."""
    named = unit_in(memory) or next((unit for cell in cells if (unit := unit_behind(cell))), None)
    sizes = [size for cell in cells if (size := about(cell)) is not None]
    typical = float(np.median(sizes)) if sizes else 0.0
    several = [f"{memory!r} names several units; it is read in {named}"] if len(set(units_in(memory))) > 1 else []
    unit = named or ("bytes" if typical > 1e8 else "MiB" if typical >= 500 else "GiB")
    if named is None:
        return unit, [f"{memory!r} names no unit; its size suggests {unit}"]
    if re.search(r"(?i)\bgb\b", f"{memory} {' '.join(cells[:3])}"):
        return unit, [*several, "GB is read as GiB, as vendors mean it for graphics memory"]
    return unit, several
