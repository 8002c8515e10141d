"""Lists that people write by hand, a card or several equal ones in a line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zorba_core.data.inventory.cells import MAX_CELL
from zorba_core.data.inventory.columns import Columns, Inventory
from zorba_core.data.inventory.counts import COUNT, CROSS, SIGNS, UNIT_AT_END, count_behind
from zorba_core.errors import InvalidInputError, in_short

# A text from outside may be written to cost time. So repeats are possessive (x++ gives nothing back), and a run of
# digits or separators is entered at its beginning alone: each expression goes through its line once.
_SIZE_ALONE = re.compile(r"(?i)^\d++(?:[.,]\d++)?+\s*+(gib|gb|g|mib|mb)$")
_OF_NUMBERS = "0123456789.,'\u2019\u00a0\u202f "
_NO_COUNT = re.compile(rf"^(?!\d{{1,6}}\s*+{CROSS})[-+]?\d[{_OF_NUMBERS}]*+(?:e[-+]?\d++)?\s*+{CROSS}\s")
_BARE_COUNT = re.compile(r"(\d{1,3})\s++(?=[a-zA-Z])")
_NEXT_CARD = re.compile(
    rf"[\n;]|(?:(?<!\d),|,(?=\s))(?=\s*+\d{{1,6}}\s*+{CROSS}(?:\s|[a-zA-Z]))"
)  # several may stand in a line
_BULLET = re.compile(r"[-–—•‣▪◦·*]\s++|\d{1,3}[.)]\s++")
_BEHIND_UNIT = re.compile(r"(?i)(?:gd|lpd|d)dr\d?\w{0,2}|hbm\d?\w{0,2}|ecc|vram|memory|each|free|per|card|gpu")
_SPEED = re.compile(r"\d++(?:[.,]\d++)?+|[.,]\d++")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})++")
_THOUSANDS_FIRST = re.compile(r"\d{1,3}(?:\s\d{3})++\s")
_SPACED_SIZE = re.compile(r"(?<![\w.,])\d{1,3}\s\d{3}(?:[.,]\d++)?\s*+(?:[gmt]i?b|[gm])?$", re.IGNORECASE)
_NUMBER_BETWEEN = re.compile(r",\s*+\d++\s*+,?$")  # A100, 4, 80 GB
_SIZE = re.compile(  # in a name, and whether another card follows
    r"(?i)(?<![\d.])(\d{1,6})\s?([gmt])i?b\b(\s*+\)?\s*+(?:[,+&/|]|(?:and|und|et|y|or|oder|ou|to|bis)\b)\s*+\w)?"
)
_TWO_WAYS = re.compile(  # what is in no name of a card: a further number of cards, or what makes a size another one
    rf"(?<![\w.])(?:\d{{1,6}}|[½¼¾])\s*+{CROSS}|(?:^|[\s\d(\[])[{SIGNS}]\s*+\d"
    r"|,\s*+\d{1,4}\s*+,|^\d{1,2}$|^\d++(?:\s*+,|\s++\S*\d|[^\x00-\x7f])|^(?:#|//)|[=~<>≤≥/+±]$"
    rf"|\d[+k]?\s++[{SIGNS}](?:\s|$)|[|:\[(]\s*+\d{{1,6}}\s*+[|\])]?$|\d[-–,][a-zA-Z]{{0,20}}\d{{1,6}}:"
    r"|(?i:^(?:two|three|four|zwei|drei|vier|deux|dual|quad|qty)\b(?!-))|(?<![a-zA-Z])"
    r"(?i:or|to|of|and|oder|bis|und|ou|et|gesamt|insgesamt|total|sum|zusammen|max|min|about|ca\.?)$"
)
_RANGE = re.compile(r"(?<![\w.])(\d{1,6})\s*+[-–—]$")  # A100 40 - 80 GB
_NO_CARD = re.compile(
    r"(?i)(?:(?:grand |sub-?)?total|sum|summe|somme|gesamt|insgesamt|ram|cpu|disk|ssd|hdd|nvme|storage|swap"
    r"|system(?: memory| ram)?|memory|speicher|arbeitsspeicher|festplatte)s?"
)
_MOST_MIB = 2**19  # of a card, where it may as well be another number
_EXPLICIT, _SEPARATORS = ",;:@([", " ,;:@-–—(["
_HOW = "write such lines as `4 x RTX 3090, 24 GB`, with `~ 0.5` at the end for a card's relative speed"


def written_list(text: str) -> Inventory | None:
    """Lines as people write them: ``4 x RTX 3090, 24 GB``, ``2× Jetson Orin Nano 8 GB ~ 0.5`` (its relative speed).

    Raises:
        InvalidInputError: a line begins like one of these and goes on otherwise, or may be read as two.
    """
    lines = [line.strip() for line in _NEXT_CARD.split(text) if line.strip()]
    lines = [without for line in lines if (without := _BULLET.sub("", line, count=1) if _BULLET.match(line) else line)]
    if any(len(line) > MAX_CELL for line in lines):
        return None
    alone = lines[0] if len(lines) == 1 and _SIZE_ALONE.match(lines[0]) else None
    if refused := next((line for line in lines if _NO_COUNT.match(line)), alone):
        raise InvalidInputError(f"{in_short(refused)} is not understood; {_HOW}")
    cards = [_Written.of(line) for line in lines]
    unknown = [line for line, card in zip(lines, cards, strict=True) if card is None]
    if unknown:
        if all(COUNT.match(line) for line in unknown) or (len(lines) == 1 and not re.search(r"[,\t|]", lines[0])):
            raise InvalidInputError(f"{in_short(unknown[0])} is not understood; {_HOW}")
        return None
    written = [card for card in cards if card is not None]
    if not any(card.count or card.unit for card in written):
        return None
    if other := next((line for line, card in zip(lines, written, strict=True) if _NO_CARD.fullmatch(card.kind)), None):
        raise InvalidInputError(f"{in_short(other)} names no card; leave it out, or {_HOW}")
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
        if first := COUNT.match(body):
            counts, body = [first[1]], body[first.end() :]
        behind, body = count_behind(body)
        body = _until_unit(body)
        unit = UNIT_AT_END.search(body)
        name, size = _name_and_size(body[: unit.start()] if unit else body)
        if not any(map(str.isdigit, size)) or (not unit and len(size) > 3):  # 4 x RTX 3090
            return None
        either = (_SPACED_SIZE.search(body) or _NUMBER_BETWEEN.search(name)) is not None
        said = ""
        tight = name.endswith(",") and not body[len(name) :][:1].isspace()  # T4,16,5 GB
        by_hand = bool(first and unit and unit[0] == "GiB" and name.endswith(","))  # as this program writes it, too
        model, _, rest = size.partition(",")
        of_name = not (unit and unit[0][0] in "mM") and model.isdigit() and len(model) >= 3  # no card has 3090,24 GB
        of_name = of_name or (name[-1:] not in _EXPLICIT and not any(map(str.isdigit, name)))
        if "," in size and name and (tight or of_name):
            if unit and unit[0][0] in "mM" and _THOUSANDS.fullmatch(size):
                either = either or int(size.replace(",", "")) > _MOST_MIB  # RTX 980,512 MiB
            else:
                either = either or tight or "," in rest or not (model.isdigit() and int(model) >= 100)
                name, size = f"{name} {model}", rest
            said = f"; {line[:40]!r} is read as {name.strip(_SEPARATORS)} with {size} {unit[0] if unit else 'GiB'}"
        span = _RANGE.search(name)
        either = either or (
            span is not None and any(map(str.isdigit, name[: span.start()])) and int(span[1]) < _plain(size)
        )
        name = name.strip(_SEPARATORS)
        named, name = count_behind(name)  # T4 x 4, 16 GB
        counts += [count for count in (behind, named) if count]
        if not counts and (bare := _BARE_COUNT.match(name)):
            counts, name = [bare[1]], name[bare.end() :]
            said += f"; {bare[1]} in {line[:40]!r} is taken as the number of cards"
        if not name and not (counts and unit):  # 4 x 24 GB
            return None
        either = either or len(counts) > 1 or _THOUSANDS_FIRST.match(name) is not None
        named_unit = {"m": "MiB", "t": "TiB", "": ""}.get((unit[0][0] if unit else "").lower(), "GiB")
        if not either and (_TWO_WAYS.search(name) or _other_size(name, size, named_unit)):
            either = not by_hand
            said += f"; {line[:60]!r} is read as {counts[0] if counts else 1} of {name!r} with {size} {named_unit}"
        return cls(name, size, named_unit, "".join(counts[:1]), speed.strip() if tilde else "1", said[2:], either)


def _until_unit(text: str) -> str:
    """``A100 (24 GB`` of ``A100 (24 GB GDDR6X) each``; without a unit the text as it is."""
    until = text.rstrip(" )]")
    for _ in range(4):  # words
        if UNIT_AT_END.search(until):
            return until
        until, _, word = until.rpartition(" ")
        if not _BEHIND_UNIT.fullmatch(word.strip("([,")):
            break
        until = until.rstrip(" )],")
    return text.removesuffix(")").removesuffix("]").rstrip()


def _plain(size: str) -> float:
    try:
        return float(size.replace(",", "."))
    except ValueError:
        return 0.0


def _other_size(name: str, size: str, unit: str) -> bool:
    """Whether a name has another size than the card's, as ``A100 40 GB or`` has, or goes on with another card."""
    scale = {"m": 1 / 1024, "g": 1.0, "t": 1024.0}
    gib = _plain(size) * scale[(unit or "g")[0].lower()]
    sizes = [(int(match[1]) * scale[match[2].lower()], match[3]) for match in _SIZE.finditer(name)]
    return any(more or abs(value - gib) > 0.1 * value for value, more in sizes)


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
