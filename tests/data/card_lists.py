"""What a list of cards is read as, for the tests of its reader."""

from __future__ import annotations

from zorba_core.data.inventory import cards_of, read_inventory


def cards(text: str | bytes) -> list[tuple[str, int, float]]:
    """(kind, number, GiB of each) by the guessed columns."""
    inventory = read_inventory(text)
    return [(card.kind, card.count, card.gib) for card in cards_of(inventory, inventory.columns)]


def doubts(text: str | bytes) -> str:
    """What a person should look at."""
    return " | ".join(read_inventory(text).doubts)
