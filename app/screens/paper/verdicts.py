"""Verdicts with a word, a shape and a colour each, and the bar that counts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zorba_core.plots import Palette
from zorba_core.study.ledger.claims import MEANINGS


class Look(NamedTuple):
    """How a verdict is shown; the icon and the pattern tell it apart without colour."""

    title: str
    icon: str
    badge: str
    series: int  # place in the palette
    pattern: str
    meaning: str


LOOKS: Mapping[str, Look] = {
    "reproduced": Look(
        "Reproduced", ":material/check_circle:", "green", 2, "", "our number or result is the printed one"
    ),
    "reproduced in shape": Look(
        "In shape only",
        ":material/airline_stops:",
        "blue",
        0,
        "/",
        "the ordering or trend holds, the number does not or cannot be compared",
    ),
    "consistent": Look("Consistent", ":material/join_inner:", "primary", 5, "=", MEANINGS["consistent"]),
    "not contradicted": Look(
        "Not contradicted",
        ":material/radio_button_unchecked:",
        "yellow",
        4,
        "o",
        MEANINGS["not contradicted"],
    ),
    "contradicted": Look("Contradicted", ":material/cancel:", "red", 1, "x", "a counter-example is given"),
    "undecided": Look("Undecided", ":material/balance:", "orange", 6, "#", MEANINGS["undecided"]),
    "cannot be tested here": Look(
        "Not testable here", ":material/help:", "gray", 6, ".", "needs hardware, data or runs that are not here"
    ),
    "beyond the paper": Look(
        "Beyond the paper", ":material/add_circle:", "violet", 3, "\\", MEANINGS["beyond the paper"]
    ),
}


def verdict_bar(counts: Mapping[str, int], palette: Palette) -> str:
    """HTML: one bar, a stretch for each verdict as long as its number of rows, and below it what the stretches are.

    Not a figure: its labels wrap on a phone, where a figure's would lie over each other.
    """
    there = {verdict: look for verdict, look in LOOKS.items() if counts.get(verdict)}
    stretches = "".join(
        f'<div title="{look.title}: {look.meaning}" style="flex:{counts[verdict]} 0 1.6rem;display:flex;'
        f"align-items:center;justify-content:center;font-weight:700;color:{palette.paper};"
        f'{_fill(look, palette)}">{counts[verdict]}</div>'
        for verdict, look in there.items()
    )
    words = "".join(
        f'<span style="display:inline-flex;align-items:center;gap:.4rem">'
        f'<span style="width:1rem;height:1rem;border-radius:.2rem;{_fill(look, palette)}"></span>'
        f"{look.title}: {look.meaning}</span>"
        for look in there.values()
    )
    spoken = ", ".join(f"{counts[verdict]} {verdict}" for verdict in there)
    return (
        f'<div role="img" aria-label="Claims by verdict: {spoken}.">'
        f'<div style="display:flex;gap:2px;height:2.3rem;border-radius:.5rem;overflow:hidden">{stretches}</div>'
        f'<div style="display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;padding-top:.5rem;font-size:.85rem;'
        f'color:{palette.muted}">{words}</div></div>'
    )


def _fill(look: Look, palette: Palette) -> str:
    """The verdict's colour with its pattern over it, as CSS."""
    stripe = f"{palette.paper}40"  # a quarter opaque
    over = {
        "": "",
        "/": f"repeating-linear-gradient(45deg,{stripe} 0 2px,transparent 2px 9px),",
        "x": f"repeating-linear-gradient(45deg,{stripe} 0 2px,transparent 2px 9px),"
        f"repeating-linear-gradient(-45deg,{stripe} 0 2px,transparent 2px 9px),",
        "\\": f"repeating-linear-gradient(-45deg,{stripe} 0 2px,transparent 2px 9px),",
        "=": f"repeating-linear-gradient(0deg,{stripe} 0 2px,transparent 2px 7px),",
        "#": f"repeating-linear-gradient(0deg,{stripe} 0 2px,transparent 2px 7px),"
        f"repeating-linear-gradient(90deg,{stripe} 0 2px,transparent 2px 7px),",
        "o": f"radial-gradient(circle,{stripe} 2px,transparent 3px) 0 0/9px 9px,",
        ".": f"repeating-linear-gradient(90deg,{stripe} 0 2px,transparent 2px 7px),",
    }[look.pattern]
    color = palette.series[look.series]
    return f"background:{over}linear-gradient({color},{color})"
