"""What ``nvidia-smi`` prints."""

from __future__ import annotations

import re

from zorba_core.data.inventory.columns import Columns, Inventory
from zorba_core.data.inventory.headers import CARDS
from zorba_core.errors import InvalidInputError, in_short

# Possessive repeats, as in lines.py: a text from outside may be written to cost time.
_SMI_MODES = ("On", "Off", "N/A", "WDDM", "TCC", "MCDM")  # what stands behind a card's name in its first line
_SMI_MEMORY = re.compile(r"\|\s*+(\d++)\s*+MiB\s*+/\s*+(\d++)\s*+MiB")
_SMI_LIST = re.compile(r"GPU\s++\d++:")
_MIG = re.compile(r"MIG\s++(\S++)\s++Device")
_MIB = re.compile(r"\d++\s*+MiB")
_LAST_MIB = re.compile(r",\s*+\d++\s*+MiB")
_ONE_OR_TWO = re.compile(r"(?<![\w.])\d{1,3},\d{3}\s*+MiB|^\s*+\d{1,6}\s*+[x×*]\s")  # 81,920 MiB, or as people write
_MOST_DIGITS = 15  # of a card's MiB
_ASK = "paste what this prints: nvidia-smi --query-gpu=name,memory.total,memory.free --format=csv"


def nvidia_smi(text: str) -> Inventory | None:
    """What ``nvidia-smi`` prints by itself, with ``-L``, or with ``--query-gpu=... --format=csv``."""
    lines = [line for line in text.splitlines() if line.strip()]
    if "NVIDIA-SMI" in text or "MiB" in text:
        if any(line.startswith("| MIG devices:") for line in lines):
            raise InvalidInputError(f"nvidia-smi lists MIG devices, which are read from `nvidia-smi -L` alone; {_ASK}")
        rows, name, silent = [], "GPU", []
        for line in (line for line in lines if line.lstrip().startswith("|")):  # its table, and no other
            if memory := _SMI_MEMORY.search(line):
                used, total = (_mib(number, line) for number in memory.groups())
                rows.append((name, f"{total} MiB", f"{total - used} MiB"))
                silent = silent[:-1]
            elif "MiB" not in line and (named := _smi_name(line)):
                name = named
                silent.append(name)
        if silent and not rows:
            raise InvalidInputError(f"nvidia-smi shows no memory of {silent[0]}; {_ASK}")
        if rows:
            columns = Columns(memory="memory.total", unit="MiB", free="memory.free", kind="GPU")
            doubts = (f"nvidia-smi shows no memory of {', '.join(silent[:4])}; it is left out",) if silent else ()
            return Inventory(("GPU", "memory.total", "memory.free"), tuple(rows), columns, "nvidia-smi", doubts)
    listed: list[str] = []
    whole = False  # whether the last one listed is a card, which the MIG devices below it take the place of
    for line in lines:
        if mig := _MIG.match(line.lstrip()):
            listed[-1:] = [mig[1]] if whole else [*listed[-1:], mig[1]]
            whole = False
        elif name := _listed(line):
            listed.append(name)
            whole = True
    if listed:
        rows = tuple((name, size) for name in listed for size in [_size_in(name)])
        unknown = sorted({name for name, size in rows if not size})
        doubts = (f"nvidia-smi -L prints no memory; add it for {', '.join(unknown[:4])}",) if unknown else ()
        if unknown:
            raise InvalidInputError(f"{doubts[0]}. Or {_ASK}")
        columns = Columns(memory="memory", kind="GPU")
        return Inventory(("GPU", "memory"), rows, columns, "nvidia-smi -L", ("sizes are from the cards' names",))
    if lines and all(_LAST_MIB.search(line) and not _ONE_OR_TWO.search(line) for line in lines):  # csv,noheader
        return _without_header([[cell.strip() for cell in line.split(",")] for line in lines])
    return None


def _without_header(cells: list[list[str]]) -> Inventory | None:
    """What ``--format=csv,noheader`` prints, as far as it is clear without one."""
    places = range(len(cells[0]))
    sizes = [i for i in places if _MIB.fullmatch(cells[0][i])]
    if (
        not sizes
        or len({len(row) for row in cells}) > 1
        or not all(_MIB.fullmatch(row[i]) for row in cells for i in sizes)
    ):
        return None
    largest = {max(sizes, key=lambda i: _mib(row[i].split("M")[0].strip(), row[i])) for row in cells}
    digits = [i for i in places if all(row[i].isdecimal() for row in cells)]
    counts = [i for i in digits if [row[i] for row in cells] != list(map(str, range(len(cells))))]
    if len(largest) > 1 or (counts and counts[0] < sizes[0]):
        raise InvalidInputError(f"{in_short(', '.join(cells[0]))} may be read in two ways; {_ASK}")
    header = tuple(f"column {i + 1}" for i in places)
    words = [i for i in places if i not in sizes and i not in digits]
    named = next((i for i in words if CARDS.search(cells[0][i])), next(iter(words), None))
    memory = header[largest.pop()]
    columns = Columns(memory=memory, unit="MiB", kind=None if named is None else header[named])
    doubts = (f"{memory!r} is read as the memory of each card, as the largest of {len(sizes)} sizes",)
    return Inventory(header, tuple(map(tuple, cells)), columns, "nvidia-smi", doubts if len(sizes) > 1 else ())


def _smi_name(line: str) -> str | None:
    """The card of ``|   0  Tesla T4   Off | 00000000:00:04.0 Off |   0 |``; None where a line is none of these."""
    before, *cells = line.rstrip().split("|")
    words = cells[0].split() if not before and len(cells) > 3 and not cells[-1] else []
    if len(words) < 3 or not words[0].isdecimal() or words[-1] not in _SMI_MODES:
        return None
    return " ".join(words[1:-1]).rstrip(". ")


def _listed(line: str) -> str:
    """The card of ``GPU 0: Tesla T4 (UUID: GPU-...)``; empty where a line is none of these."""
    line = line.strip()
    number = _SMI_LIST.match(line)
    name, uuid, _ = line[number.end() :].partition("(UUID:") if number else ("", "", "")
    return name.strip() if uuid else ""


def _mib(digits: str, line: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise InvalidInputError(f"{in_short(line.strip())} has {len(digits)} digits of MiB; no card has so many")
    return int(digits)


def _size_in(name: str) -> str:
    """``40 GiB`` of ``A100-SXM4-40GB`` or ``1g.10gb``; empty where the name says nothing."""
    match = re.search(r"(?i)(?<!\d)(\d++)\s*+gb\b", name)
    return f"{match[1]} GiB" if match else ""
