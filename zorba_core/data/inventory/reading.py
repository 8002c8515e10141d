"""The cells of a table of cards, read by the columns that a person or a guess has chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zorba_core.data.inventory.columns import Columns, Inventory
from zorba_core.data.inventory.numbers import (
    Marks,
    gib_of,
    is_percent,
    marks_of,
    part_of,
    speed_of,
    unit_behind,
    unit_in,
    whole,
)
from zorba_core.errors import InvalidInputError, in_short
from zorba_core.planning.fleets import MAX_SPEED


@dataclass(frozen=True)
class Reading:
    """How the cells of a table are read: what one of them means may be said by the others of its column."""

    columns: Columns
    place: dict[str, int]  # of a column in a row
    marks: dict[str, Marks]
    unit: dict[str, str]  # of a column's cells that name none
    with_unit: dict[str, str]  # a cell that names one, where others do not and the header neither
    in_percent: bool

    @classmethod
    def of(cls, inventory: Inventory, columns: Columns) -> Reading:
        place = {name: index for index, name in enumerate(inventory.header)}
        given = {role: name for role, name in vars(columns).items() if name is not None and role != "unit"}
        if missing := [name for name in given.values() if name not in place]:
            raise InvalidInputError(f"the table has no column {in_short(missing[0])}")
        cells = {name: [row[place[name]].strip() for row in inventory.rows] for name in given.values()}
        measured = [given[role] for role in ("memory", "free", "share", "speed") if role in given]
        marks = dict(zip(measured, marks_of([cells[name] for name in measured]), strict=True))
        table = next(iter(marks.values())).table
        marks |= {given[role]: Marks(table=table) for role in ("count", "each") if role in given}
        unit = dict.fromkeys((name for name in (columns.memory, columns.free) if name is not None), columns.unit)
        if columns.memory and columns.free and (own := unit_in(columns.free)) != unit_in(columns.memory):
            unit[columns.free] = own or columns.unit
        guessed_unit = columns.unit == inventory.columns.unit
        with_unit = {
            name: said
            for name in unit
            if guessed_unit and unit_in(name) is None and (said := next(filter(unit_behind, cells[name]), None))
        }
        in_percent = columns.share is not None and is_percent(columns.share, cells[columns.share], marks[columns.share])
        return cls(columns, place, marks, unit, with_unit, in_percent)

    def cell(self, cells: Sequence[str], column: str | None) -> str:
        return "" if column is None else cells[self.place[column]].strip()

    def sizes(self, cells: Sequence[str], where: str) -> list[float]:
        """The card's memory and what is free of it, in GiB, as far as the row says them."""
        size = {}
        for name, unit in self.unit.items():
            if not (cell := self.cell(cells, name)):
                continue
            size[name] = gib_of(cell, unit, f"{where}: {name}", self.marks[name])
            if size[name] and name in self.with_unit and unit_behind(cell) is None:
                raise InvalidInputError(
                    f"{where}: {name} is {in_short(cell)} beside {in_short(self.with_unit[name])} in another row; "
                    "write the unit behind each"
                )
        free, memory = size.get(self.columns.free or ""), size.get(self.columns.memory or "")
        if free is not None and memory is not None and free > 1.1 * memory:  # GB of 10^9 bytes beside GiB are less
            raise InvalidInputError(
                f"{where}: {self.columns.free} is {free:.4g} GiB, more than {self.columns.memory}, {memory:.4g} GiB; "
                "write the unit into both headers"
            )
        return list(size.values())

    def count(self, cells: Sequence[str], where: str) -> int:
        count = 1
        for name in (self.columns.count, self.columns.each):
            if name is not None and (cell := self.cell(cells, name)):
                count *= whole(cell, f"{where}: {name}", self.marks[name])
        return count

    def share(self, cells: Sequence[str], where: str) -> tuple[float, int] | None:
        """The part and of what it is one; None: the row has no share."""
        name = self.columns.share
        if name is None or not (cell := self.cell(cells, name)):
            return None
        part = part_of(cell, f"{where}: {name}", self.marks[name])
        if part > 100:
            raise InvalidInputError(f"{where}: {name} is {part:g} %; a card has at most 100 % of its memory")
        return part, 100 if self.in_percent else 1

    def speed(self, cells: Sequence[str], where: str) -> float:
        name = self.columns.speed
        if name is None or not (cell := self.cell(cells, name)):
            return 1.0
        speed = speed_of(cell, f"{where}: {name}", self.marks[name])
        if not 0 < speed <= MAX_SPEED:
            raise InvalidInputError(f"{where}: {name} is {speed:g}; it must be above 0 and at most {MAX_SPEED:g}")
        return speed
