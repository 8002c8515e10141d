"""Picked runs as the values of a link's ``runs``, and back. No Streamlit here."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

_UNHELD = "~n"  # and how many: runs that are too many for a link
_EVERY = "~a"  # and how many: all runs that pass the filters
_PACKED = "~z"
_MOST_CHARACTERS = 1_000  # of an address
_MOST_BYTES = 100_000


@dataclass(frozen=True)
class Picks:
    """Names of the picked runs, also of those that are not here. ``every``: how many there were where a link asks for
    all; ``unheld``: how many a link does not name."""

    names: tuple[str, ...]
    every: int = 0
    unheld: int = 0


def as_link(picks: Picks, shown: Sequence[str]) -> tuple[str, ...]:
    """The values of ``runs``: the names while they are few, then packed; then that it is all of ``shown``, or only how
    many there are, so that whoever opens the link sees it."""
    names = picks.names
    if picks.unheld:
        return (f"{_UNHELD}{picks.unheld}",)
    if picks.every and set(names) == set(shown):
        return (f"{_EVERY}{picks.every}",)
    if sum(len(name) + len("&runs=") for name in names) <= _MOST_CHARACTERS // 2:
        return names or ("",)
    packed = zlib.compress("\n".join(names).encode(), 9)
    text = _PACKED + base64.urlsafe_b64encode(packed).decode().rstrip("=")
    if len(text) <= _MOST_CHARACTERS:
        return (text,)
    return (f"{_EVERY if set(names) == set(shown) else _UNHELD}{len(names)}",)


def holds(values: Sequence[str]) -> bool:
    """Whether a link with these values restores the picks."""
    return not values[0].startswith(_UNHELD)


def from_link(values: Sequence[str], shown: Sequence[str]) -> Picks:
    """The picks of a link, where ``shown`` pass its filters. What cannot be read counts as a run that it does not
    hold."""
    first = values[0] if values else ""
    if first.startswith(_EVERY) and _count(first):
        return Picks(tuple(shown), every=_count(first))
    if first.startswith((_UNHELD, _EVERY)):
        return Picks((), unheld=_count(first) or 1)
    if not first.startswith(_PACKED):
        return Picks(tuple(dict.fromkeys(name[:200] for name in values[:200] if name)))
    text = first.removeprefix(_PACKED)
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), _MOST_BYTES)
        return Picks(tuple(dict.fromkeys(content.decode().split("\n")))) if unpacker.eof else Picks((), unheld=1)
    except (ValueError, zlib.error, binascii.Error):
        return Picks((), unheld=1)


def _count(text: str) -> int:
    number = text[2:]
    return int(number) if number.isdecimal() and len(number) < 7 else 0
