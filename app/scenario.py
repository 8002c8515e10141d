"""The scenario: one object whose fields are the controls of the page Explore and the parameters of its address.

The component of the page (:mod:`app.explore`) has the fields while the user works: it writes the address and sends them
on release. The address has every field that differs from its default. No Streamlit: :mod:`app.parts.session` keeps the
scenario of a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qs, urlencode

from pydantic import Field, field_validator

from zorba_core.allocation import SOLVERS
from zorba_core.checked import Checked, OneOf
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import MIXES
from zorba_core.vram import PRESETS

SHAPES = {
    "uniform": "Uniform",
    "bell": "Bell",
    "small": "Many small",
    "two": "Two kinds",
    "three": "Three kinds",
    "gpus": "Real GPUs",
    "list": "My list",
}
MOST_COMPARED = 4
MOST_CLIENTS, MOST_GIB = 10_000, 1_000_000  # of a list
_LONGEST = 1500  # characters of one parameter of an address
_ON_ONE_FLEET = {"follow", "spend", "total", "flips", "compared"}  # fields on which the fleet does not depend
OF_LINKS = {"unit", "methods"}  # parameters of older links, without effect now


def method_titles() -> dict[str, str]:
    """Title of each method by its name in links. ``paper`` is Algorithm 2 with Algorithm 1 for each point."""
    usual = {
        "balanced": "evenly (balanced)",
        "two-level": "few carry most (two-level)",
        "paper": "the paper's method",
        "exact": "exact",
    }
    others = {name: solver.title for name, solver in SOLVERS.items() if name not in {*usual, "lexicographic"}}
    return usual | others


class Scenario(Checked, frozen=True):
    """Everything that decides what the page Explore shows. Fields that a shape does not use are ignored.

    Raises:
        InvalidInputError: a value is out of range.
    """

    shape: Literal["uniform", "bell", "small", "two", "three", "gpus", "list"] = "uniform"
    model: Annotated[str, OneOf(lambda: tuple(PRESETS))] = "opt-125m"
    clients: int = Field(default=50, ge=1, le=2000)
    batch: int = Field(default=8, ge=1, le=512)
    """Sequences in a batch, B."""
    length: int = Field(default=128, ge=1, le=8192)
    """Tokens in a sequence, L."""
    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """Random seed for the fleet and the solvers."""
    span: tuple[float, float] | None = None
    """Least and most VRAM in GiB; None: from one block to all blocks, as in the paper."""
    low: float | None = Field(default=None, gt=0, le=1024)
    """Size of a small GPU in GiB (the next two: medium, large); None: a size that suits the model."""
    mid: float | None = Field(default=None, gt=0, le=1024)
    high: float | None = Field(default=None, gt=0, le=1024)
    large: int = Field(default=30, ge=0, le=100)
    """Of two kinds: percent of clients with the large one."""
    cuts: tuple[int, int] = (40, 70)
    """Of three kinds: percent of clients up to which the small and the medium one reach."""
    mix: Annotated[str, OneOf(lambda: MIXES)] = "steam"
    card: int = Field(default=90, ge=5, le=100)
    """Percent of each GPU that training may use."""
    rows: tuple[tuple[float, int], ...] = ()
    """GiB and number of clients, a row each."""
    bars: tuple[tuple[int, float], ...] = Field(default=(), max_length=MOST_CLIENTS)
    """Clients whose GiB were changed by hand: index and GiB."""
    follow: Annotated[str, OneOf(method_titles)] = "balanced"
    """The method whose matrix is shown."""
    total: int | None = Field(default=None, ge=1)
    """Most blocks over all clients; None: twice the least possible."""
    spend: float | None = None
    """GiB over all clients, of older links; ``total`` has precedence."""
    flips: str = Field(default="", max_length=100_000, pattern=r"^([0-9]+\.[0-9]+(_[0-9]+\.[0-9]+)*)?$")
    """Cells changed by hand: ``block.client`` joined by ``_``."""
    compared: tuple[str, ...] = Field(default=(), max_length=MOST_COMPARED)
    """Fleets kept for comparison: slot, name and address, separated by ``|``."""

    @field_validator("span", "cuts")
    @classmethod
    def _check_order(cls, ends: tuple[float, float] | None) -> tuple[float, float] | None:
        if ends is not None and not 0 <= ends[0] <= ends[1] <= 10_000:
            raise ValueError("the first must not be above the second")
        return ends

    @field_validator("span")
    @classmethod
    def _check_span(cls, ends: tuple[float, float] | None) -> tuple[float, float] | None:
        if ends is not None and ends[1] == 0:
            raise ValueError("the second must be above 0")
        return ends

    @field_validator("rows")
    @classmethod
    def _check_rows(cls, rows: tuple[tuple[float, int], ...]) -> tuple[tuple[float, int], ...]:
        counts = [count for _, count in rows]
        if any(not 0 < gib <= MOST_GIB for gib, _ in rows) or min(counts, default=0) < 0:
            raise ValueError("GiB must be above 0")
        if sum(counts) > MOST_CLIENTS:
            raise ValueError(f"at most {MOST_CLIENTS:,} clients are supported")
        return rows

    @field_validator("bars")
    @classmethod
    def _check_bars(cls, bars: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
        if any(client < 0 or not 0 < gib <= MOST_GIB for client, gib in bars):
            raise ValueError("a client and GiB above 0")
        return bars

    def replace(self, **changes: Any) -> Self:
        """The scenario with some fields changed and checked."""
        return type(self)(**{**dict(self), **changes})

    @property
    def fleet(self) -> Self:
        """The scenario with only the fields that decide the fleet and its VRAM."""
        names = type(self).model_fields.keys() - _ON_ONE_FLEET
        return type(self)(**{name: getattr(self, name) for name in names})

    def query(self) -> dict[str, str | list[str]]:
        """The parameters of the address: fields that differ from their default."""
        words: dict[str, str | list[str]] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value == field.default or value is None or (name == "spend" and self.total is not None):
                continue
            words[name] = list(value) if name == "compared" else _word(value)
        return {name: word for name, word in words.items() if name == "compared" or len(word) <= _LONGEST}

    @classmethod
    def of_query(cls, words: Mapping[str, Sequence[str]]) -> Self:
        """The scenario of an address. Invalid parameters are ignored."""
        values: dict[str, Any] = {}
        for name in cls.model_fields.keys() & words.keys():
            try:
                values[name] = _value(name, list(words[name]))
            except ValueError:
                continue
        return cls.of_fields(values)

    @classmethod
    def of_fields(cls, values: Mapping[str, Any]) -> Self:
        """The scenario of some fields. Invalid values and unknown names are ignored."""
        valid: dict[str, Any] = {}
        for name in cls.model_fields.keys() & values.keys():
            try:
                cls(**{name: values[name]})
            except (InvalidInputError, ValueError):
                continue
            valid[name] = values[name]
        return cls(**valid)


def _word(value: Any) -> str:
    """``0.7x20,1x20`` for rows, ``40,70`` for pairs, else the value itself."""
    if isinstance(value, tuple):
        return ",".join(
            "x".join(f"{part:.10g}" for part in item) if isinstance(item, tuple) else _word(item) for item in value
        )
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _value(name: str, words: list[str]) -> Any:
    if name == "compared":
        return words
    word = words[-1][: 2 * _LONGEST]
    if name in ("rows", "bars"):
        return [item.split("x") for item in word.split(",")]
    return [part for part in word.split(",") if part] if name in ("span", "cuts") else word


def link_of(scenario: Scenario) -> str:
    """The part of an address after ``?``."""
    return urlencode(scenario.query(), doseq=True)


def of_link(link: str) -> Scenario:
    """The scenario of :func:`link_of`."""
    return Scenario.of_query(parse_qs(link, keep_blank_values=True))
