"""A fleet as its owner has it listed: what ``nvidia-smi`` prints, or a table with columns of any name.

``read_inventory`` makes rows and columns of a paste or a file and guesses what each column is; ``cards_of`` makes cards
of them. Between the two a person can look and correct (``Columns``). Everything that comes in is data from outside.

Sizes that vendors call GB are GiB for graphics memory, so "24 GB" is read as 24 GiB unless a person says otherwise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np

from zorba_core.data.inventory.cells import MAX_ROWS, check_lines, decoded, excel_cells, separated_cells
from zorba_core.data.inventory.columns import WORKBOOK, Columns, Inventory, guessed
from zorba_core.data.inventory.headers import sums
from zorba_core.data.inventory.lines import written_list
from zorba_core.data.inventory.numbers import UNITS
from zorba_core.data.inventory.reading import Reading
from zorba_core.data.inventory.smi import nvidia_smi
from zorba_core.errors import InvalidInputError, in_short
from zorba_core.planning.fleets import Fleet
from zorba_core.planning.memory import GIB, MAX_CLIENTS, MAX_VRAM_GIB

__all__ = [
    "MAX_BYTES",
    "UNITS",
    "CardKind",
    "Columns",
    "Inventory",
    "cards_of",
    "fleet_of_cards",
    "read_cards",
    "read_inventory",
    "written",
]

MAX_BYTES = 8_000_000
_REMARK = re.compile(r"\s*+(?:#\s*+[^\W\d]|#\s++\d|//)")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")  # what a browser or a word processor puts between letters


@dataclass(frozen=True)
class CardKind:
    """Equal cards. ``gib`` is what each may spend on training."""

    kind: str
    count: int
    gib: float
    speed: float = 1.0  # relative to the machine that plans
    names: tuple[str, ...] = field(default=(), compare=False)  # of the machines, where they are known


def read_inventory(content: str | bytes, name: str = "") -> Inventory:
    """Rows and columns of a paste (text) or of a file (bytes), with a guess of what each column is.

    Raises:
        InvalidInputError: nothing in it, too large, an old or broken Excel file, or text of an unknown encoding.
    """
    if len(content) > MAX_BYTES:
        raise InvalidInputError(f"the list has {len(content) / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB is read")
    if isinstance(content, bytes):
        if content.startswith(b"PK"):
            cells, doubts = excel_cells(content)
            inventory = guessed(cells, WORKBOOK)
            return replace(inventory, doubts=(*inventory.doubts, *doubts))
        if content.startswith(b"\xd0\xcf\x11\xe0"):
            raise InvalidInputError("the file is of an old Excel (.xls); save it as .xlsx or CSV")
        content = decoded(content)
    content = _INVISIBLE.sub("", content)
    if not content.strip():
        raise InvalidInputError("the list is empty; paste what nvidia-smi prints, or a table with a row for each card")
    check_lines(content)
    content, remarks = _without_remarks(content)
    listed = nvidia_smi(content) or written_list(content)
    if listed is not None:
        if len(listed.rows) > MAX_ROWS:
            raise InvalidInputError(
                f"the list has {len(listed.rows):,} cards; at most {MAX_ROWS:,} lines are read. Put their number "
                "before each kind, as in `4 x RTX 3090, 24 GB`"
            )
    else:
        listed = guessed(separated_cells(content), name or "table")
    return replace(listed, doubts=(*listed.doubts, *remarks))


def _without_remarks(text: str) -> tuple[str, list[str]]:
    """The lines below the first but those that begin as a remark, and what to say of these."""
    first, *lines = text.lstrip().splitlines()
    remarks = [line for line in lines if _REMARK.match(line)]
    if not remarks:
        return text, []
    rest = "\n".join([first, *(line for line in lines if not _REMARK.match(line))])
    return rest, [f"{in_short(remarks[0])} is a remark and not read"]


def cards_of(inventory: Inventory, columns: Columns, share: float = 1.0) -> list[CardKind]:
    """The kinds of card of :func:`read_cards`.

    Raises:
        InvalidInputError: as :func:`read_cards`.
    """
    return read_cards(inventory, columns, share)[0]


def read_cards(inventory: Inventory, columns: Columns, share: float = 1.0) -> tuple[list[CardKind], int]:
    """The kinds of card, largest first, and how many cards are left out: they have nothing free, by a column of free
    memory or of shares.

    Args:
        share: of each card's memory that training may use; a column of shares comes before it.

    Raises:
        InvalidInputError: no column of memory, a cell that is no number, too many cards, or none with memory to use;
            names row and value.
    """
    if columns.memory is None and columns.free is None:
        raise InvalidInputError("no column of memory is chosen; choose the one that says how much each card has")
    if not 0 < share <= 1:
        raise InvalidInputError(f"the share of each card is {share:g}; it must be above 0 and at most 1")
    reading = Reading.of(inventory, columns)
    groups: dict[tuple[str, str, float], tuple[float, int, list[str]]] = {}
    total = busy = 0
    for number, cells in enumerate(inventory.rows, start=1):
        if sums(cells) or not any(value.strip() for value in cells):
            continue
        where = f"row {number}"
        sizes = reading.sizes(cells, where)
        if not sizes:
            if sum(map(bool, map(str.strip, cells))) <= 1:  # a remark below the table
                continue
            raise InvalidInputError(f"{where}: {columns.memory or columns.free} is empty; give the card's memory")
        count = reading.count(cells, where)
        if count == 0:
            continue
        part = reading.share(cells, where)
        if part is None:
            part = (share, 1) if columns.free is None else (1, 1)
        usable = _part_of(min(sizes), *part)
        if usable == 0 < max(sizes):
            busy += count
            continue
        if not 0 < usable <= MAX_VRAM_GIB:
            name = reading.cell(cells, columns.name) or reading.cell(cells, columns.kind)
            raise InvalidInputError(
                f"{where}{f' ({in_short(name)})' if name else ''}: the card has {usable:g} GiB to use; that must be "
                f"above 0 and at most {MAX_VRAM_GIB:g}"
            )
        speed = reading.speed(cells, where)
        total += count
        if total > MAX_CLIENTS:
            raise InvalidInputError(f"more than {MAX_CLIENTS:,} cards; check the column {columns.count}")
        kind = reading.cell(cells, columns.kind) or f"{usable:.3g} GiB card"
        key = (kind[:60], f"{usable:.12g}", speed)  # equal but for the last bits of a product
        gib, counted, names = groups.setdefault(key, (usable, 0, []))
        if (name := reading.cell(cells, columns.name)) and count == 1:
            names.append(name[:60])
        groups[key] = (gib, counted + count, names)
    if not groups:
        raise InvalidInputError(
            f"none of the {busy} cards has memory free" if busy else "the table has no rows with a card"
        )
    kinds = [
        CardKind(kind, count, gib, speed, tuple(names) if len(names) == count else ())
        for (kind, _, speed), (gib, count, names) in groups.items()
    ]
    return sorted(_told_apart(kinds), key=lambda card: (-card.gib, card.kind)), busy


def fleet_of_cards(kinds: Sequence[CardKind]) -> Fleet:
    """One client for each card, kind after kind.

    Raises:
        InvalidInputError: no cards, or more than a fleet has.
    """
    names: list[str] = []
    for card in kinds:
        names += card.names or [f"{card.kind} #{index + 1}" for index in range(card.count)]
    seen: dict[str, int] = {}
    for index, name in enumerate(names):  # two machines of one name are still two clients
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            names[index] = f"{name} ({seen[name]})"
    gib_N = np.repeat([card.gib for card in kinds], [card.count for card in kinds])
    speed_N = np.repeat([card.speed for card in kinds], [card.count for card in kinds])
    return Fleet(tuple(names), gib_N * GIB, None if (speed_N == 1).all() else speed_N)


def written(kinds: Sequence[CardKind]) -> str:
    """The cards as a short list that :func:`read_inventory` reads back; names of machines are not in it."""
    lines = []
    for card in kinds:
        kind = re.sub(r"[;\n~@]", " ", card.kind)
        speed = "" if card.speed == 1 else f" ~ {_plain(card.speed)}"
        lines.append(f"{card.count} x {kind}, {_plain(card.gib)} GiB{speed}")
    return "\n".join(lines)


def _part_of(gib: float, part: float, of: int) -> float:
    """``part / of`` of it as people multiply decimals: 0.8 of 24 GiB is 19.2, where floats have 19.200000000000003."""
    return float(Decimal(repr(float(gib))) * Decimal(repr(float(part))) / of)


def _plain(value: float) -> str:
    """A value without an exponent, with 15 digits, as somebody would write it."""
    return np.format_float_positional(value, precision=15, fractional=False, trim="-")


def _told_apart(kinds: list[CardKind]) -> list[CardKind]:
    """Cards of one name with different memory get the memory into their name."""
    times = Counter(card.kind for card in kinds)
    twice = {kind for kind, count in times.items() if count > 1}
    return [replace(card, kind=f"{card.kind} ({card.gib:.4g} GiB)") if card.kind in twice else card for card in kinds]
