"""What to run: the paper's recipe, and the best that this repository's evidence supports. The one place to change it.

A preset gives values to options that a command was not given. ``best`` changes with the evidence: edit ``BEST`` and its
``EVIDENCE`` together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zorba_core.errors import InvalidInputError


@dataclass(frozen=True)
class Preset:
    """``options``: values by the names of fields of TrainSettings and of the command's choice of an allocation.
    ``informed``: those that change where a run says what the blocks are worth (--importance)."""

    name: str
    title: str
    help: str  # one line
    options: Mapping[str, Any]
    evidence: tuple[str, ...]  # a sentence each, with where its numbers stand
    informed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """Those of a run, without how its allocation is made."""
        return {name: value for name, value in self.options.items() if name not in _OF_ALLOCATION}


_OF_ALLOCATION = ("solver",)

PAPER = {"solver": "lexicographic", "method": "zorba", "step": "plain", "schedule": "constant"}
PAPER_EVIDENCE = ("Section IV: Theorem 4, Dinic's flow and Algorithm 1; a constant learning rate, Q = 10.",)

BEST = {"solver": "lexicographic", "method": "zorba", "step": "plain", "schedule": "constant"}
BEST_INFORMED = {"solver": "gain"}
EVIDENCE = (
    "Given what the blocks are worth, the gain solver was faster than the paper's allocation over four cells of two "
    "tasks and two bases, in each of them where runs are evaluated every round, and than training all blocks, with a "
    "twelfth of them; without, it was half as fast: artifacts/experiments/what-to-run, lengths.",
    "Also over AG-News, SNLI, 50 clients and dropped blocks it was faster; on three of those four all blocks, "
    "where there is the VRAM, were two to four times as fast: artifacts/experiments/elsewhere.",
    "On nine tasks of other rows and label words, told by an earlier run's scalars, it is not shown to be faster: 1.03 "
    "times (0.84 to 1.28 over tasks), with two fifths of the activated blocks: artifacts/benchmarks/own_tasks.json.",
    "Longer directions in blocks of small gradients were faster on one base and task alone; directions of each "
    "client's own were faster in three cells of four, at more bytes; both are left to --lengths and --method "
    "zorba-own: artifacts/experiments/lengths.",
    "That worth was measured on public rows; planned from four rounds of a run's own scalars, gain was not faster: "
    "artifacts/experiments/what-to-run.",
    "A normalised step or a schedule was not faster than the paper's recipe; the balanced allocation was slower over "
    "the first four cells and faster over the four others, by one cell each time: artifacts/experiments/what-to-run, "
    "parts, elsewhere.",
    "The learning rate decides more than all of this, and zorba tune finds it: artifacts/benchmarks/tune.json.",
    "Pilots of one seed saw no gain of grouped or guided directions: artifacts/benchmarks/pilots.json.",
)

PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("paper", "As in the paper", "the paper's allocation and step", PAPER, PAPER_EVIDENCE),
        Preset("best", "Recommended", "what the evidence here supports", BEST, EVIDENCE, BEST_INFORMED),
    )
}


def meanings() -> dict[str, str]:
    """The choices of ``--preset``."""
    return {name: preset.help for name, preset in PRESETS.items()}


def filled(name: str, values: Mapping[str, Any], given: set[str]) -> dict[str, Any]:
    """``values`` with the preset's in place of those that were not ``given``. A solver is left out where the
    allocation comes from a file or the method has none.

    Raises:
        InvalidInputError: no such preset.
    """
    if name not in PRESETS:
        raise InvalidInputError(f"preset is {name!r}; choose one of {', '.join(PRESETS)}")
    options = dict(PRESETS[name].options)
    if values.get("importance") is not None:
        options |= PRESETS[name].informed
    if "allocation" in given or ("method" in given and values.get("method") != options["method"]):
        options.pop("solver")
    chosen = {option: value for option, value in options.items() if option in values and option not in given}
    return {**values, **chosen}
