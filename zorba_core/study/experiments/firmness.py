"""How firm a pooled ratio of speeds is: without each cell in turn, and with late runs counted as later still.

A pooled ratio may rest on one cell, and a run that does not reach the target within the horizon counts the horizon:
where such runs are the arm's, the ratio is too large. Both are looked at beside the verdict, which stays the plan's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from numpy.typing import ArrayLike

from zorba_core.study.experiments.speed import Speedup, pooled_speed

Cell = tuple[str, str]
_LATER = 2  # horizons that a run counts which did not arrive within one


class Firmness(NamedTuple):
    """Of a pooled ratio."""

    least: float  # estimates without one cell
    most: float
    needs: tuple[Cell, ...]  # cells without which the interval stands elsewhere beside 1
    later: Speedup  # with two horizons for every run that did not arrive
    side: int  # of the whole: 1 faster, -1 slower, 0 not decided

    @property
    def needs_horizon(self) -> bool:
        """Whether the interval stands elsewhere beside 1 when runs that did not arrive count two horizons."""
        return side_of(self.later) != self.side


def firmness(by_cell: Mapping[Cell, tuple[ArrayLike, ArrayLike, float]]) -> Firmness | None:
    """Of cells as :func:`zorba_core.study.experiments.speed.pooled_speed` takes them; None of fewer than two."""
    if len(by_cell) < 2:
        return None
    side = side_of(pooled_speed(by_cell))
    without = {cell: pooled_speed({other: by_cell[other] for other in by_cell if other != cell}) for cell in by_cell}
    values = [ratio.value for ratio in without.values()]
    later = pooled_speed({cell: (paper, arm, _LATER * horizon) for cell, (paper, arm, horizon) in by_cell.items()})
    needs = tuple(cell for cell, ratio in without.items() if side_of(ratio) != side)
    return Firmness(min(values), max(values), needs, later, side)


def side_of(ratio: Speedup) -> int:
    return (ratio.low > 1) - (ratio.high < 1)
