"""A number of cards before or behind what is counted: ``4 x RTX 3090``, ``RTX 3090 x4``."""

from __future__ import annotations

import re

SIGNS = "x×*х✕✖⨯"  # the fourth is Cyrillic
# The x of 7900 XT is of a name, and an X behind more than two digits is too: 390X.
CROSS = rf"(?:[{SIGNS}](?!(?i:tx?)(?!\w))|(?<=\d)(?<!\d\d\d)X(?=\s)|(?<=\d\s)(?<!\d\d\d\s)X(?=\s))"
COUNT = re.compile(rf"(\d{{1,6}})\s*+{CROSS}\s*+")
UNIT_AT_END = re.compile(r"(?i)(?<![a-z])(?:[gmt]i?b|[gm])$")


def count_behind(text: str) -> tuple[str, str]:
    """The 4 of ``T4 x 4``, ``A100x4`` or ``16GBx4``, and what stands before it. The x of ``GTX 1080`` and the one of
    ``Tegra X2`` are of a name."""
    text = text.rstrip(" ,")
    before = text.rstrip("0123456789")
    count, sign = text[len(before) :], before.rstrip()
    card, tight = sign[:-1], sign == before
    if not 1 <= len(count) <= 6 or sign[-1:] not in (*SIGNS, "X"):
        return "", text
    if sign[-1] in "xхX":  # which may be of a word
        spaced = card[-1:].isspace() and not (tight and sign[-1] == "X")
        if not spaced and not (tight and sign[-1] != "X" and card[-1:].isdigit()) and not UNIT_AT_END.search(card):
            return "", text
    return count, card.rstrip()
