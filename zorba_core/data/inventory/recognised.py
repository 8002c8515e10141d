"""What ``nvidia-smi`` prints, and lists that people write by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zorba_core.data.inventory.cells import MAX_CELL
from zorba_core.data.inventory.columns import Columns, Inventory
from zorba_core.errors import InvalidInputError, in_short

# A text from outside may be written to cost time. So repeats are possessive (x++ gives nothing back), and a run of
# digits or separators is entered at its beginning alone: each expression goes through its line once.
_SMI_MODES = ("On", "Off", "N/A", "WDDM", "TCC", "MCDM")  # what stands behind a card's name in its first line
_SMI_MEMORY = re.compile(r"(?<!\d)(\d++)\s*+MiB\s*+/\s*+(\d++)\s*+MiB")
_SMI_LIST = re.compile(r"GPU\s++\d++:")
_MIG = re.compile(r"MIG\s++(\S++)\s++Device")
_MIB = re.compile(r"\d++\s*+MiB")
_LAST_MIB = re.compile(r",\s*+\d++\s*+MiB")
_ONE_OR_TWO = re.compile(r"(?<![\w.])\d{1,3},\d{3}\s*+MiB|^\s*+\d{1,6}\s*+[x×*]\s")  # 81,920 MiB, or as people write
_MOST_DIGITS = 15  # of a card's MiB
_SIZE_ALONE = re.compile(r"(?i)^\d++(?:[.,]\d++)?+\s*+(gib|gb|g|mib|mb)$")
_OF_NUMBERS = "0123456789.,'\u2019\u00a0\u202f "
_COUNT = re.compile(r"(\d{1,6})\s*+[x×*]\s*+")
_NO_COUNT = re.compile(rf"^(?!\d{{1,6}}\s*+[x×*])[-+]?\d[{_OF_NUMBERS}]*+(?:e[-+]?\d++)?\s*+[x×*]\s")
_BARE_COUNT = re.compile(r"(\d{1,3})\s++(?=[a-zA-Z])")
_NEXT_CARD = re.compile(r"[\n;]|(?:(?<!\d),|,(?=\s))(?=\s*+\d{1,6}\s*+[x×*]\s)")  # several may stand in a line
_UNIT_AT_END = re.compile(r"(?i)(?<![a-z])(?:[gmt]i?b|[gm])$")
_SPEED = re.compile(r"\d++(?:[.,]\d++)?+|[.,]\d++")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})++")
_THOUSANDS_FIRST = re.compile(r"\d{1,3}(?:\s\d{3})++\s")
_SPACED_SIZE = re.compile(r"(?<![\w.,])\d{1,3}\s\d{3}(?:[.,]\d++)?\s*+(?:[gmt]i?b|[gm])?$", re.IGNORECASE)
_NUMBER_BETWEEN = re.compile(r",\s*+\d++\s*+,?$")  # A100, 4, 80 GB
_MOST_MIB = 2**19  # of a card, where it may as well be another number
_EXPLICIT, _SEPARATORS = ",;:@(", " ,;:@-–—("
_HOW = "write such lines as `4 x RTX 3090, 24 GB`, with `~ 0.5` at the end for a card's relative speed"


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


def written_list(text: str) -> Inventory | None:
    """Lines as people write them: ``4 x RTX 3090, 24 GB``, ``2× Jetson Orin Nano 8 GB ~ 0.5`` (its relative speed).

    Raises:
        InvalidInputError: a line begins like one of these and goes on otherwise, or may be read as two.
    """
    lines = [line.strip() for line in _NEXT_CARD.split(text) if line.strip()]
    if any(len(line) > MAX_CELL for line in lines):
        return None
    alone = lines[0] if len(lines) == 1 and _SIZE_ALONE.match(lines[0]) else None
    if refused := next((line for line in lines if _NO_COUNT.match(line)), alone):
        raise InvalidInputError(f"{in_short(refused)} is not understood; {_HOW}")
    cards = [_Written.of(line) for line in lines]
    unknown = [line for line, card in zip(lines, cards, strict=True) if card is None]
    if unknown:
        if all(_COUNT.match(line) for line in unknown) or (len(lines) == 1 and not re.search(r"[,\t|]", lines[0])):
            raise InvalidInputError(f"{in_short(unknown[0])} is not understood; {_HOW}")
        return None
    written = [card for card in cards if card is not None]
    if not any(card.count or card.unit for card in written):
        return None
    either = [line for line, card in zip(lines, written, strict=True) if card.either]
    if either:
        raise InvalidInputError(f"{in_short(either[0])} may be read in two ways; {_HOW}")
    rows = tuple((card.count or "1", card.kind, f"{card.size} {card.unit or 'GiB'}", card.speed) for card in written)
    doubts = [card.doubt for card in written if card.doubt]
    if bare := [card.size for card in written if not card.unit]:
        doubts.append(f"{bare[0]!r} names no unit; it is read in GiB")
    columns = Columns(memory="memory", count="count", kind="card", speed="speed")
    return Inventory(("count", "card", "memory", "speed"), rows, columns, "a written list", tuple(doubts))


@dataclass(frozen=True)
class _Written:
    """A line of a list that somebody has written, in words that are not understood yet."""

    kind: str
    size: str
    unit: str  # empty: none
    count: str  # empty: the line does not say how many
    speed: str
    doubt: str  # what a person should look at
    either: bool  # the line may as well say another number of cards or another size

    @classmethod
    def of(cls, line: str) -> _Written | None:
        before_speed, tilde, speed = line.rpartition("~")
        if tilde and not _SPEED.fullmatch(speed.strip()):
            return None
        body = before_speed if tilde else line
        counts = []
        if first := _COUNT.match(body):
            counts, body = [first[1]], body[first.end() :]
        behind, body = _count_behind(body)
        body = body.removesuffix(")").rstrip()
        unit = _UNIT_AT_END.search(body)
        name, size = _name_and_size(body[: unit.start()] if unit else body)
        if not any(map(str.isdigit, size)) or (not unit and len(size) > 3):  # 4 x RTX 3090
            return None
        either = (_SPACED_SIZE.search(body) or _NUMBER_BETWEEN.search(name)) is not None
        said = ""
        tight = name.endswith(",") and not body[len(name) :][:1].isspace()  # T4,16,5 GB
        if "," in size and name and (tight or (name[-1] not in _EXPLICIT and not any(map(str.isdigit, name)))):
            model, _, rest = size.partition(",")
            if unit and unit[0][0] in "mM" and _THOUSANDS.fullmatch(size):
                either = either or int(size.replace(",", "")) > _MOST_MIB  # RTX 980,512 MiB
            else:  # no card has 3090,24 GB
                either = either or tight or "," in rest or not (model.isdigit() and int(model) >= 100)
                name, size = f"{name} {model}", rest
            said = f"; {line[:40]!r} is read as {name.strip(_SEPARATORS)} with {size} {unit[0] if unit else 'GiB'}"
        name = name.strip(_SEPARATORS)
        named, name = _count_behind(name)  # T4 x 4, 16 GB
        counts += [count for count in (behind, named) if count]
        if not counts and (bare := _BARE_COUNT.match(name)):
            counts, name = [bare[1]], name[bare.end() :]
            said += f"; {bare[1]} in {line[:40]!r} is taken as the number of cards"
        if not name and not (counts and unit):  # 4 x 24 GB
            return None
        either = either or len(counts) > 1 or _THOUSANDS_FIRST.match(name) is not None
        named_unit = {"m": "MiB", "t": "TiB", "": ""}.get((unit[0][0] if unit else "").lower(), "GiB")
        return cls(name, size, named_unit, "".join(counts[:1]), speed.strip() if tilde else "1", said[2:], either)


def _count_behind(text: str) -> tuple[str, str]:
    """The 4 of ``T4 x 4`` or ``16GBx4``, and what stands before it; the x of ``GTX 1080`` is none."""
    text = text.rstrip(" ,")
    before = text.rstrip("0123456789")
    count, before = text[len(before) :], before.rstrip()
    if not 1 <= len(count) <= 6 or before[-1:] not in ("x", "X", "×", "*"):
        return "", text
    card = before[:-1]
    return (count, card.rstrip()) if card[-1:].isspace() or _UNIT_AT_END.search(card) else ("", text)


def _name_and_size(text: str) -> tuple[str, str]:
    """``RTX 3090,`` and ``24``; digits right behind a letter are of the name."""
    head = text.rstrip(_OF_NUMBERS)
    run = text[len(head) :]
    if head and head[-1] not in _EXPLICIT and run[:1].isdigit():
        rest = run.lstrip("0123456789")
        head, run = text[: len(text) - len(rest)], rest
    words = run.split()
    if not words:
        return text, ""
    name, size = head + run[: run.rindex(words[-1])], words[-1]
    return (f"{name},", size[1:]) if size.startswith(",") else (name.rstrip(), size)
