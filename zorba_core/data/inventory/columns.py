"""Which column of a table is what: by the words of its header, then by what is in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from zorba_core.data.inventory.cells import MAX_CELL, MAX_ROWS, NO_CARD
from zorba_core.data.inventory.numbers import about, is_written_number, unit_behind, unit_in
from zorba_core.errors import InvalidInputError, in_short

_GRAPHICS = (  # the memory of a card, before any other memory
    "memory.total", "memory total", "vram_gib", "vram", "gpu memory", "gpu mem", "graphics memory", "video memory",
    "grafikspeicher", "videospeicher", "mémoire vidéo", "framebuffer", "显存",
)  # fmt: skip
_ROLES = {  # words of a header, longest match first
    "free": ("memory.free", "free", "available", "avail", "frei", "verfügbar", "libre", "disponible", "usable", "可用"),
    "memory": (
        *_GRAPHICS, "memory", "mem", "speicher", "mémoire", "memoria", "内存", "ram", "gib", "gb", "go", "mib", "mb",
    ),
    "each": (),  # by "per node" alone
    "count": (
        "count", "quantity", "qty", "number", "num", "units", "pieces", "pcs", "amount", "cards", "gpus", "how many",
        "anzahl", "stück", "stueck", "stk", "menge", "karten", "nombre", "quantité", "cantidad", "数量", "nodes",
        "machines", "servers", "hosts", "instances", "no.", "#",
    ),
    "kind": (
        "gpu name", "card", "kind", "gpu model", "model", "gpu", "karte", "grafikkarte", "carte graphique", "carte",
        "tarjeta", "bezeichnung", "device", "type", "型号", "显卡",
    ),
    "name": ("client", "host", "hostname", "node", "machine", "rechner", "name", "asset", "server", "id"),
    "speed": ("relative_speed", "relative speed", "speed", "tempo"),
    "share": ("share", "anteil", "fraction", "percent", "part"),
}  # fmt: skip
_NUMBERS = ("free", "memory", "each", "count", "speed", "share")
_EACH = re.compile(r"(?i)(per|/|je|pro|par|por)\s*(node|machine|host|server|box|rechner|knoten|maschine|nœud|nodo)")
_OTHER = re.compile(  # numbers of a card or of its machine that are none of these
    r"(?i)used|usage|util|belegt|genutzt|auslastung|utilis|temp|power|leistung|watt|clock|takt|[mg]hz|tflop|price|preis"
    r"|prix|cost|kosten|year|jahr|serial|slot|index|driver|bandwidth|/s\b|bps\b|disk|storage|ssd|hdd|festplatte"
    r"|system|host.?(ram|mem)|cpu|core|arbeitsspeicher|uuid|pci|bus|\b[kmgt]i?bits?\b"
)
_IDENTITY = re.compile(r"(?i)asset|serial|s/n|inventory|inventar|order|ticket|room|rack|raum|\bid\b|_id\b")
_MACHINES = re.compile(r"(?i)\b(nodes|machines|servers|hosts|instances|rechner|knoten)\b")
_CARDS = re.compile(  # names of cards, to know their column by
    r"(?i)nvidia|geforce|\brtx|\bgtx|tesla|quadro|titan|jetson|radeon|instinct|\bmi\d{2,3}\b|\barc\b|gaudi|\btpu|gpu"
    r"|^[abhlpvt]\d{1,3}0?\b"
)
_PERCENT = re.compile(r"(?i)%|percent|prozent|pourcent")
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
    headed = not any(re.fullmatch(r"[-+]?[\d.,]++\s*+(?:[KMGT]?i?B)?", cell.strip()) for cell in first if cell.strip())
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
    traits = {name: _Traits.of(name, cells[name]) for name in header}
    chosen: dict[str, str | None] = dict.fromkeys(_ROLES)
    doubts: list[str] = []

    def left(role: str) -> list[str]:
        return [name for name in header if name not in chosen.values() and traits[name].may_be(role)]

    for role in _ROLES:
        options = [name for name in left(role) if _score(role, name) or (role == "kind" and traits[name].cards)]
        chosen[role] = max(options, key=lambda name: (traits[name].rank(role), _score(role, name)), default=None)
    if chosen["memory"] is None and chosen["free"] is not None:
        chosen["memory"], chosen["free"] = chosen["free"], None
    if chosen["memory"] is None:
        with_unit = [name for name in left("memory") if unit_in(name) or any(map(unit_behind, cells[name]))]
        chosen["memory"] = next(iter(with_unit or left("memory")), None)
        taken = f"; {chosen['memory']!r} is taken" if chosen["memory"] else ": choose the one that says it"
        doubts.append("no column is called memory" + taken)
    if chosen["kind"] is None:
        _look_for_kind(chosen, left("kind"), cells)
    others = [name for name in left("count") if _score("count", name)]
    if chosen["count"] and chosen["each"] is None and others:  # machines, and the cards in each
        machines = [name for name in (chosen["count"], *others) if _MACHINES.search(name)]
        if len(machines) == 1:
            chosen["each"] = next(name for name in (chosen["count"], *others) if name not in machines)
            chosen["count"] = machines[0]
            doubts.append(f"{chosen['each']!r} is read as the cards in each of {chosen['count']!r}")
    unit = "GiB"
    memory, free = chosen["memory"], chosen["free"]
    if memory is not None:
        unit, said = _unit_of(memory, cells[memory])
        doubts += said
        if re.search(r"(?i)\btotal|gesamt|totale", memory) and "memory.total" not in memory and chosen["count"]:
            doubts.append(f"{memory!r} is read as the memory of one card; if it is of all of them, divide it")
    if free is not None and unit_in(free) is None and not all(map(unit_behind, filter(str.strip, cells[free]))):
        doubts.append(f"{free!r} names no unit; it is read in {unit}")
    for name in header:
        if name not in chosen.values() and (said := _not_read(name, cells[name], traits[name])):
            doubts.append(said)
    return Columns(unit=unit, **chosen), doubts


def _not_read(name: str, cells: Sequence[str], traits: _Traits) -> str | None:
    """What to say of a column whose header asks to be read, as of numbers, and whose cells are none."""
    if traits.other or traits.identity or not any(_score(role, name) for role in _NUMBERS):
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
    unit = named or ("bytes" if typical > 1e8 else "MiB" if typical >= 500 else "GiB")
    if named is None:
        return unit, [f"{memory!r} names no unit; its size suggests {unit}"]
    if re.search(r"(?i)\bgb\b", f"{memory} {' '.join(cells[:3])}"):
        return unit, ["GB is read as GiB, as vendors mean it for graphics memory"]
    return unit, []


@dataclass(frozen=True)
class _Traits:
    """What a column's header and cells say of it, before the meaning of its words."""

    numeric: bool  # most filled cells are a number, by itself or with a unit
    index: bool  # they are small whole numbers, as of the cards in a machine
    percent: bool
    each: bool
    other: bool  # a number of something that no role asks for
    unit: bool
    cards: bool  # most cells name a card
    identity: bool

    @classmethod
    def of(cls, name: str, cells: Sequence[str]) -> _Traits:
        filled = [cell.strip() for cell in cells[:200] if cell.strip()]

        def most(has: Callable[[str], object]) -> bool:
            return bool(filled) and sum(bool(has(cell)) for cell in filled) > 0.6 * len(filled)

        return cls(
            numeric=most(is_written_number),
            index=most(re.compile(r"\d{1,2}").fullmatch),
            percent=bool(_PERCENT.search(name)) or most(re.compile(r".*\d\s*+%").fullmatch),
            each=bool(_EACH.search(name)),
            other=bool(_OTHER.search(name)),
            unit=unit_in(name) is not None,
            cards=most(_CARDS.search),
            identity=bool(_IDENTITY.search(name)),
        )

    def may_be(self, role: str) -> bool:
        if role not in _NUMBERS:
            number = self.numeric and (self.index or self.percent or self.other)
            return not self.each and (role == "name" or not number)
        if not self.numeric or self.other:
            return False
        if role == "share":
            return True
        if role in ("count", "each"):
            return not (self.unit or self.percent or self.identity) and self.each == (role == "each")
        return not self.percent

    def rank(self, role: str) -> int:
        """Before the words of headers: cells that name cards, then words rather than numbers."""
        return 0 if role in _NUMBERS else 2 * (role == "kind" and self.cards) + (not self.numeric)


def _score(role: str, name: str) -> int:
    """How well a header's words say that its column has a role; 0: not at all."""
    word = re.sub(r"[_\s]+", " ", name.lower())
    if role == "each":
        return int(bool(_EACH.search(word)))
    if role == "share" and _PERCENT.search(word) and _score("free", name):
        return 100  # "free %"
    matched = [key for key in _ROLES[role] if re.search(rf"(?<![a-zäöü]){re.escape(key)}", word)]
    return max((len(key) + 100 * (key in _GRAPHICS) + 50 * (key == word) for key in matched), default=0)
