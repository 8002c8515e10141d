"""Which column of a table is what: by the words of its header, then by what is in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zorba_core.data.inventory.cells import MAX_CELL, MAX_ROWS, NO_CARD
from zorba_core.data.inventory.headers import MACHINES, NUMBERS, ROLES, Traits, of_all, of_card, score
from zorba_core.data.inventory.numbers import about, is_written_number, unit_behind, unit_in, units_in
from zorba_core.errors import InvalidInputError, in_short

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
    columns, doubts = guess(header, rows)
    return Inventory(tuple(header), rows, columns, source, tuple(doubts))


def guess(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Columns, list[str]]:
    """What each column is, and what a person should look at."""
    cells = {name: [row[index] for row in rows] for index, name in enumerate(header)}
    traits = {name: Traits.of(name, cells[name]) for name in header}
    chosen: dict[str, str | None] = dict.fromkeys(ROLES)
    doubts: list[str] = []

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
