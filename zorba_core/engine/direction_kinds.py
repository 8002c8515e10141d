"""How random directions are drawn and scaled, by the name that settings know a kind by. No torch.

The numbers themselves come from :mod:`zorba_core.engine.noise`; :class:`zorba_core.engine.directions.Directions` makes
vectors of them. A kind is one :class:`DirectionKind`, registered in ``DIRECTIONS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zorba_core.errors import InvalidInputError
from zorba_core.registry import Registry, instance_of


@dataclass(frozen=True)
class DirectionKind:
    """One kind of direction.

    ``draw(seed, block, start, stop, device)`` gives elements start..stop-1 of the block's numbers, float32. Each must
    depend on seed, block and its place alone, so that any part can be drawn without the rest. ``draw`` is a function,
    or "module:name" of one.
    """

    name: str
    title: str
    help: str  # one line
    draw: Callable[..., Any] | str
    # Length over all d parameters that a direction is scaled to, as a function of d; None: as drawn. A kind with a
    # norm draws whole multiples of noise.NORMAL_STEP, so that sums of squares are exact in any order.
    norm: Callable[[int], float] | None = None
    signs: bool = False  # every number is -1 or +1, so products with it are exact
    # Of a matrix the product of two vectors, of which numbers are drawn (zorba_core.engine.low_rank): signs alone.
    low_rank: bool = False

    def __post_init__(self) -> None:
        if self.low_rank and (self.norm is not None or not self.signs):
            raise InvalidInputError(
                f"direction {self.name}: a low-rank direction is made of signs, so its norm is sqrt(d); "
                "give signs=True and no norm"
            )


DIRECTIONS: Registry[DirectionKind] = Registry(
    "direction", "zorba.directions", accepts=instance_of(DirectionKind), home=lambda: _register_own()
)


def _register_own() -> None:
    normals, signs = "zorba_core.engine.noise:normals", "zorba_core.engine.noise:signs"
    for kind in (
        DirectionKind("gaussian", "Gaussian", "independent standard normals, of norm sqrt(d) on average", normals),
        DirectionKind("sphere", "Sphere", "the Gaussian direction scaled to norm sqrt(d)", normals, math.sqrt),
        DirectionKind("rademacher", "Rademacher", "independent signs, of norm sqrt(d)", signs, signs=True),
        DirectionKind("unit-sphere", "Unit sphere", "the Gaussian direction scaled to norm 1", normals, lambda d: 1.0),
        DirectionKind(
            "low-rank", "Low rank", "of each matrix a product of two vectors of signs", signs, signs=True, low_rank=True
        ),
    ):
        DIRECTIONS.register(kind)
