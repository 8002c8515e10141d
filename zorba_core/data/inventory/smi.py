"""What ``nvidia-smi`` prints."""

from __future__ import annotations

import re

from zorba_core.data.inventory.columns import Columns, Inventory
from zorba_core.errors import InvalidInputError, in_short

# Possessive repeats, as in lines.py: a text from outside may be written to cost time.
_SMI_MODES = ("On", "Off", "N/A", "WDDM", "TCC", "MCDM")  # what stands behind a card's name in its first line
_SMI_MEMORY = re.compile(r"(?<!\d)(\d++)\s*+MiB\s*+/\s*+(\d++)\s*+MiB")
_SMI_LIST = re.compile(r"GPU\s++\d++:")
_MIG = re.compile(r"MIG\s++(\S++)\s++Device")
_MIB = re.compile(r"\d++\s*+MiB")
_LAST_MIB = re.compile(r",\s*+\d++\s*+MiB")
_ONE_OR_TWO = re.compile(r"(?<![\w.])\d{1,3},\d{3}\s*+MiB|^\s*+\d{1,6}\s*+[x×*]\s")  # 81,920 MiB, or as people write
_MOST_DIGITS = 15  # of a card's MiB


def nvidia_smi(text: str) -> Inventory | None:
    """What ``nvidia-smi`` prints by itself, with ``-L``, or with ``--query-gpu=... --format=csv``."""
    lines = [line for line in text.splitlines() if line.strip()]
    if "NVIDIA-SMI" in text or "MiB" in text:
        rows, name = [], "GPU"
        for line in lines:
            if memory := _SMI_MEMORY.search(line):
                used, total = (_mib(number, line) for number in memory.groups())
                rows.append((name, f"{total} MiB", f"{total - used} MiB"))
            elif "MiB" not in line:
                name = _smi_name(line) or name
        if rows:
            columns = Columns(memory="memory.total", unit="MiB", free="memory.free", kind="GPU")
            return Inventory(("GPU", "memory.total", "memory.free"), tuple(rows), columns, "nvidia-smi")
    listed = [mig[1] for line in lines if (mig := _MIG.match(line.lstrip()))] or list(filter(None, map(_listed, lines)))
    if listed:
        rows = tuple((name, size) for name in listed for size in [_size_in(name)])
        unknown = sorted({name for name, size in rows if not size})
        doubts = (f"nvidia-smi -L prints no memory; add it for {', '.join(unknown[:4])}",) if unknown else ()
        if unknown:
            raise InvalidInputError(
                f"{doubts[0]}. Or paste what this prints: nvidia-smi --query-gpu=name,memory.total,memory.free "
                "--format=csv"
            )
        columns = Columns(memory="memory", kind="GPU")
        return Inventory(("GPU", "memory"), rows, columns, "nvidia-smi -L", ("sizes are from the cards' names",))
    if lines and all(_LAST_MIB.search(line) and not _ONE_OR_TWO.search(line) for line in lines):  # csv,noheader
        cells = [[cell.strip() for cell in line.split(",")] for line in lines]
        sizes = [i for i, cell in enumerate(cells[0]) if _MIB.fullmatch(cell)]
        if sizes and len({len(row) for row in cells}) == 1:
            header = [f"column {i + 1}" for i in range(len(cells[0]))]
            words = [i for i in range(len(header)) if i not in sizes and not cells[0][i].isdigit()]
            columns = Columns(
                memory=header[sizes[0]], unit="MiB", kind=header[words[0]] if words else None,
            )  # fmt: skip
            return Inventory(tuple(header), tuple(map(tuple, cells)), columns, "nvidia-smi")
    return None


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
