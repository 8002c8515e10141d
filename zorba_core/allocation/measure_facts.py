"""The measures of an allocation: each number's name, symbol, direction, format and meaning, once for every reader.

A measure from outside is one :class:`Measure`, registered in :data:`MEASURES` or named by an entry point of the group
``zorba.measures``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from zorba_core.allocation.measures import AllocationMetrics, coupled_noise, direction_coupling
from zorba_core.registry import Registry


@dataclass(frozen=True)
class Measure:
    """A number of an allocation. ``value`` may be infinite for an incomplete one."""

    name: str  # in ``--json``, files and links
    symbol: str
    title: str
    value: Callable[[AllocationMetrics], float]
    format: str
    formula: str  # LaTeX
    says: str  # what the formula means, begun in lower case
    better: Literal["lower", "higher", ""] = "lower"
    unit: str = ""
    log: bool = False  # its axis is best logarithmic
    traded: bool = False  # memory buys it
    distinct: bool = True  # readers know it by its symbol, which goes before the title

    @property
    def label(self) -> str:
        """Symbol and title, for a row or a headline."""
        return f"{self.symbol}, {self.title}" if self.distinct else self.title[0].upper() + self.title[1:]

    @property
    def axis(self) -> str:
        """The label of an axis: with the unit, and where better is."""
        unit = f", {self.unit}" if self.unit else ""
        return f"{self.label}{unit}" + (f" ({self.better} is better)" if self.better else "")

    @property
    def help(self) -> str:
        return f"${self.formula}$: {self.says}."

    def text(self, value: float) -> str:
        return format(value, self.format) if abs(value) != float("inf") else "∞"


def not_a_measure(part: object) -> str | None:
    """What keeps ``part`` from being a measure, in a sentence; None where it is one."""
    if not isinstance(part, Measure):
        return f"{type(part).__name__} is not a zorba_core.allocation.Measure"
    if part.better not in ("lower", "higher", ""):
        return f"better of {part.name} is {part.better!r}; choose lower, higher or nothing"
    complete = part.name and part.symbol and part.title and callable(part.value)
    return None if complete else f"{part.name or 'it'} needs a name, a symbol, a title and a function"


# The names in the tables of experiments.
ALIASES = {
    "V": "mean_inverse_popularity",
    "N_eff": "effective_clients",
    "min_c": "min_popularity",
    "E": "coupled_noise",
    "D": "direction_coupling",
    "T": "total_blocks",
}
MEASURES: Registry[Measure] = Registry("measure", "zorba.measures", accepts=not_a_measure)


def find_measure(name: str) -> Measure:
    """The measure of this name, or of the one that stored tables have for it.

    Raises:
        InvalidInputError: there is none.
    """
    return MEASURES.get_part(ALIASES.get(name, name))


for _measure in (
    Measure(
        "lambda",
        "Λ",
        "convergence bias",
        lambda matrix: matrix.bias_lambda,
        ".4g",
        r"\Lambda = \sum_n 1/\underline{c}_n^2",
        r"with $\underline{c}_n$ the smallest popularity among client *n*'s blocks: the part of the paper's bound on "
        "convergence that the allocation decides. It charges each client once, for its scarcest block, however many "
        "scarce blocks it carries",
        log=True,
        traded=True,
    ),
    Measure(
        "mean_inverse_popularity",
        "V",
        "mean of 1/popularity",
        lambda matrix: matrix.mean_inverse_popularity,
        ".4f",
        r"V = \frac{1}{M} \sum_m 1/c_m",
        "how unequal clients' weights in the blocks' averages are: Σ over blocks and clients of the squared distance "
        "of their weights from 1/N is M(V − 1/N). Balanced allocations minimise it at every total; that they train "
        "better for it is not shown",
        log=True,
        traded=True,
    ),
    Measure(
        "effective_clients",
        "N_eff",
        "effective clients",
        lambda matrix: matrix.effective_clients,
        ".1f",
        r"N_{\mathrm{eff}} = 1/\sum_n I_n^2, \; I_n = \frac{1}{M} \sum_m a_{m,n}/c_m",
        "how many equal clients would weigh on the result as these do; few means that a few clients decide",
        better="higher",
        distinct=False,
    ),
    Measure(
        "largest_influence",
        "max I",
        "largest influence of a client",
        lambda matrix: matrix.largest_influence,
        ".3f",
        r"\max_n I_n",
        "the largest share that one client has in the result",
        distinct=False,
    ),
    Measure(
        "min_popularity",
        "min c",
        "least trained block",
        lambda matrix: matrix.min_popularity,
        ".0f",
        r"\min_m c_m",
        "clients that train the block with the fewest; a block trained by one client learns that client's data only",
        better="higher",
        unit="clients",
        traded=True,
        distinct=False,
    ),
    Measure(
        "coupled_noise",
        "E",
        "coupled noise",
        lambda matrix: coupled_noise(matrix.A_MN),
        ".3f",
        r"E = \frac{1}{M} \sum_m \frac{1}{c_m^2} \sum_{n:\,a_{m,n}=1} k_n",
        "mini-batch noise that enters a block from all blocks of its clients, who hold $k_n$ each. M/N when both "
        "popularities and holdings are even, whatever the total; large where few generalists carry scarce blocks",
    ),
    Measure(
        "direction_coupling",
        "D",
        "direction coupling",
        lambda matrix: direction_coupling(matrix.A_MN),
        ".2f",
        r"D = \frac{1}{M} \sum_m \sum_{m'} (c_{m,m'}/c_m)^2",
        "how many blocks' random directions a block's estimate carries; averaging over clients does not lower it, "
        "since they share the directions. M for full activation, 1 for one block each",
    ),
    Measure(
        "total_blocks",
        "T",
        "activated blocks",
        lambda matrix: matrix.total_blocks,
        ",.0f",
        r"\sum_m \sum_n a_{m,n}",
        "how many blocks are trained, over all clients; VRAM grows with it",
        better="",
        distinct=False,
    ),
):
    MEASURES.register(_measure)
