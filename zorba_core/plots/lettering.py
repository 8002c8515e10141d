"""How wide words are in a picture, and where their lines break.

Widths are of DejaVu Sans, the widest of the dashboard's fonts, so that no line is longer than reckoned.
"""

from __future__ import annotations

import html
import re
import unicodedata

_WIDTHS = {
    letter: width
    for width, letters in {
        0.32: "\u00a0 ',.ijlIJ·",
        0.42: "/:;\\|f-()[]t!r",
        0.53: '"*_`sz?–',
        0.6: "cLFkvxyPλτ",
        0.64: "TYaoeESbdghnpqu$0123456789{}",
        0.7: "KAVBRXZCΛ",
        0.79: "UHNDG&OQ",
        0.87: "w#+<=>^~M×→≤≥",
        1.0: "%mW@",
    }.items()
    for letter in letters
}  # of letters, as shares of the size of the text
_BOLD = 1.13  # times as wide
_MARK = r"<[^>]*>"


def text_width(text: str) -> float:
    """Width of a line as a multiple of the size of its text; letters that are not known here count as wide ones."""
    letters = unicodedata.normalize("NFD", html.unescape(re.sub(_MARK, "", text)))
    plain = sum(
        _WIDTHS.get(letter, 1.1 if ord(letter) < 0x10000 else 1.4)
        for letter in letters
        if not unicodedata.combining(letter)
    )
    return plain * (_BOLD if "<b>" in text else 1.0)


def wrapped(text: str, width: float, size: float) -> str:
    """Broken into lines of at most ``width`` pixels: between words, and inside of one that is longer than a line."""
    room = max(6.0, width / size)
    return "<br>".join(line for part in re.split(r"<br\s*/?>", text) for line in _lines(part, room))


def _lines(text: str, room: float) -> list[str]:
    lines = [""]
    for word in re.findall(rf"(?:{_MARK}|\S)+", text):
        longer = f"{lines[-1]} {word}".lstrip()
        if text_width(longer) <= room:
            lines[-1] = longer
        else:
            lines += _cut(word, room)
    return [line for line in lines if line] or [""]


def _cut(word: str, room: float) -> list[str]:
    """A word in pieces that fit; marks and signs written as ``&lt;`` stay whole."""
    pieces = [""]
    for sign in re.findall(rf"{_MARK}|&#?\w+;|.", word):
        if pieces[-1] and text_width(pieces[-1] + sign) > room:
            pieces.append("")
        pieces[-1] += sign
    return pieces
