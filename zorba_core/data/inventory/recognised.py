"""What ``nvidia-smi`` prints, and lists that people write by hand."""

from __future__ import annotations

import re

from zorba_core.data.inventory.columns import Columns, Inventory
from zorba_core.errors import InvalidInputError

_SMI_NAME = re.compile(r"^\|\s*(\d+)\s+(.+?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM)\s*\|.*\|.*\|\s*$")
_SMI_MEMORY = re.compile(r"(\d+)\s*MiB\s*/\s*(\d+)\s*MiB")
_SMI_LIST = re.compile(r"(?m)^\s*GPU\s+\d+:\s*(.+?)\s*\(UUID:")
_MIG = re.compile(r"^\s*MIG\s+(\S+)\s+Device", re.MULTILINE)
_WRITTEN = re.compile(
    r"(?ix)^\s*(?:(\d{1,6})\s*[x×*]\s*)?(.+?)[\s,;:@]+(\d+(?:[.,]\d+)?)\s*(gib|gb|g|mib|mb)?\s*"
    r"(?:~\s*(\d*[.,]?\d+))?\s*$"
)


def nvidia_smi(text: str) -> Inventory | None:
    """What ``nvidia-smi`` prints by itself, with ``-L``, or with ``--query-gpu=... --format=csv``."""
    if "NVIDIA-SMI" in text or _SMI_MEMORY.search(text):
        rows, name = [], "GPU"
        for line in text.splitlines():
            memory = _SMI_MEMORY.search(line)
            if memory:
                used, total = int(memory[1]), int(memory[2])
                rows.append((name, f"{total} MiB", f"{total - used} MiB"))
            elif (named := _SMI_NAME.match(line)) and "MiB" not in line:
                name = named[2].rstrip(". ")
        if rows:
            columns = Columns(memory="memory.total", unit="MiB", free="memory.free", kind="GPU")
            return Inventory(("GPU", "memory.total", "memory.free"), tuple(rows), columns, "nvidia-smi")
    listed = _MIG.findall(text) or _SMI_LIST.findall(text)
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
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 0 and all(re.search(r",\s*\d+\s*MiB", line) for line in lines):  # --format=csv,noheader
        cells = [[cell.strip() for cell in line.split(",")] for line in lines]
        if len({len(row) for row in cells}) == 1:
            sizes = [i for i, cell in enumerate(cells[0]) if re.fullmatch(r"\d+\s*MiB", cell)]
            header = [f"column {i + 1}" for i in range(len(cells[0]))]
            words = [i for i in range(len(header)) if i not in sizes and not cells[0][i].isdigit()]
            columns = Columns(
                memory=header[sizes[0]], unit="MiB", kind=header[words[0]] if words else None,
            )  # fmt: skip
            return Inventory(tuple(header), tuple(map(tuple, cells)), columns, "nvidia-smi")
    return None


def _size_in(name: str) -> str:
    """``40 GiB`` of ``A100-SXM4-40GB`` or ``1g.10gb``; empty where the name says nothing."""
    match = re.search(r"(?i)(\d+)\s*gb\b", name)
    return f"{match[1]} GiB" if match else ""


def written_list(text: str) -> Inventory | None:
    """Lines as people write them: ``4 x RTX 3090, 24 GB``, ``2× Jetson Orin Nano 8 GB ~ 0.5`` (its relative speed)."""
    lines = [line for line in re.split(r"[\n;]", text) if line.strip()]
    matches = [_WRITTEN.match(line) for line in lines]
    if not lines or not all(matches) or not any(match[1] or match[4] for match in matches):
        return None
    rows = []
    for match in matches:
        unit = {"m": "MiB"}.get((match[4] or "g")[0].lower(), "GiB")
        rows.append((match[1] or "1", match[2].strip(" ,"), f"{match[3].replace(',', '.')} {unit}", match[5] or "1"))
    columns = Columns(memory="memory", count="count", kind="card", speed="speed")
    return Inventory(("count", "card", "memory", "speed"), tuple(rows), columns, "a written list")
