"""What the Trade-off page decides for the later pages: they keep it in their own address."""

from __future__ import annotations

from app.shared import selection
from app.shared.links import carry, choice
from app.shared.tradeoff import COSTS, MEASURES


def carry_preference() -> None:
    """Keep the axes and the weight on convergence, by which the point is recommended, in this page's address."""
    for key, options in (("x", list(COSTS)), ("y", list(MEASURES))):
        carry(key, choice(key, options), options[0])
    carry("weight", selection.preference(), 50)
