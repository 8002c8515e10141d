"""The scenario: one object whose fields are the widgets of the page Explore and the parameters of its address.

The widget of the field ``clients`` has the key ``clients``. The address has every field that differs from its default.
On a first visit, for a link, and on Back and Forward, the widgets get the values of the address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qs, urlencode

import streamlit as st
from pydantic import Field, field_validator
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.parts import fleets
from zorba_core.checked import Checked, OneOf
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import MIXES

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
_LONGEST = 1500  # characters of one parameter of an address
_SAME_MATRIX = {"unit", "methods", "flips", "compared"}  # fields on which the matrix does not depend
_SCENARIO, _PAGE = "scenario", "scenario_page"


class Scenario(Checked):
    """Everything that decides what the pages Explore and Allocation show. Fields that a shape does not use are ignored.

    Raises:
        InvalidInputError: a value is out of range.
    """

    shape: Literal["uniform", "bell", "small", "two", "three", "gpus", "list"] = "uniform"
    model: Annotated[str, OneOf(fleets.models)] = "opt-125m"
    clients: int = Field(50, ge=1, le=2000)
    batch: int = Field(8, ge=1, le=512)
    """Sequences in a batch, B."""
    length: int = Field(128, ge=1, le=8192)
    """Tokens in a sequence, L."""
    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = Field(0, ge=0, le=2**31 - 1)
    """Random seed for the fleet and the solvers."""
    span: tuple[float, float] | None = None
    """Least and most VRAM in GiB; None: from one block to all blocks, as in the paper."""
    low: float | None = Field(None, gt=0, le=1024)
    """Size of a small GPU in GiB (the next two: medium, large); None: a size that suits the model."""
    mid: float | None = Field(None, gt=0, le=1024)
    high: float | None = Field(None, gt=0, le=1024)
    large: int = Field(30, ge=0, le=100)
    """Of two kinds: percent of clients with the large one."""
    cuts: tuple[int, int] = (40, 70)
    """Of three kinds: percent of clients up to which the small and the medium one reach."""
    mix: Annotated[str, OneOf(lambda: MIXES)] = "steam"
    card: int = Field(90, ge=5, le=100)
    """Percent of each GPU that training may use."""
    rows: tuple[tuple[float, int], ...] = ()
    """GiB and number of clients, a row each."""
    unit: Literal["GiB", "%"] = "GiB"
    methods: tuple[str, ...] = ("bound", "paper")
    """Curves of this fleet, by the names of :func:`app.parts.fleets.methods`."""
    follow: Annotated[str, OneOf(lambda: [name for name in fleets.methods() if name != "bound"])] = "paper"
    """The method whose matrix is shown."""
    spend: float | None = None
    """GiB over all clients; None: a third of the way along the front."""
    flips: str = Field("", max_length=100_000)
    """Cells changed by hand: ``block.client`` joined by ``_``."""
    compared: tuple[str, ...] = Field((), max_length=MOST_COMPARED)
    """Fleets kept for comparison: slot, name and address, separated by ``|``."""

    @field_validator("methods")
    @classmethod
    def _check_methods(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in fleets.methods() if name in names)

    @field_validator("span", "cuts")
    @classmethod
    def _check_order(cls, ends: tuple[float, float] | None) -> tuple[float, float] | None:
        if ends is not None and not 0 <= ends[0] <= ends[1] <= 10_000:
            raise ValueError("the first must not be above the second")
        return ends

    @field_validator("rows")
    @classmethod
    def _check_rows(cls, rows: tuple[tuple[float, int], ...]) -> tuple[tuple[float, int], ...]:
        counts = [count for _, count in rows]
        if any(not 0 < gib <= fleets.MOST_GIB for gib, _ in rows) or min(counts, default=0) < 0:
            raise ValueError("GiB must be above 0")
        if sum(counts) > fleets.MOST_CLIENTS:
            raise ValueError(f"at most {fleets.MOST_CLIENTS:,} clients are supported")
        return rows

    def replace(self, **changes: Any) -> Self:
        """The scenario with some fields changed and checked. If the matrix changes, ``flips`` becomes empty."""
        fields = {**dict(self), **changes}
        if "flips" not in changes and any(fields[name] != getattr(self, name) for name in fields.keys() - _SAME_MATRIX):
            fields["flips"] = ""
        return type(self)(**fields)

    @property
    def fleet(self) -> Self:
        """The scenario with only the fields that decide the fleet and its VRAM."""
        names = type(self).model_fields.keys() - _SAME_MATRIX - {"follow", "spend"}
        return type(self)(**{name: getattr(self, name) for name in names})

    @property
    def is_paper(self) -> bool:
        """Whether the fleet is drawn as in the paper."""
        return self.shape == "uniform" and self.span is None

    @property
    def needs(self) -> fleets.Needs:
        """GiB of the model, of a block, and of all blocks."""
        return fleets.needs(self.model, self.batch, self.length, self.precision)

    def query(self) -> dict[str, str | list[str]]:
        """The parameters of the address: fields that differ from their default."""
        words: dict[str, str | list[str]] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value == field.default or value is None:
                continue
            words[name] = list(value) if name == "compared" else _word(value)
        return {name: word for name, word in words.items() if name == "compared" or len(word) <= _LONGEST}

    @classmethod
    def of_query(cls, words: Mapping[str, Sequence[str]]) -> Self:
        """The scenario of an address. Invalid parameters are ignored."""
        values: dict[str, Any] = {}
        for name in cls.model_fields.keys() & words.keys():
            try:
                value = _value(name, list(words[name]))
                cls(**{name: value})
            except (InvalidInputError, ValueError):
                continue
            values[name] = value
        return cls(**values)


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
    if name == "rows":
        return [item.split("x") for item in word.split(",")]
    return [part for part in word.split(",") if part] if name in ("span", "cuts", "methods") else word


def begin(page: str) -> Scenario:
    """The scenario at the start of a run of ``page``: that of the address on a first visit, for a link, and on Back and
    Forward; else that of the session."""
    context = get_script_run_ctx()
    came_back = context is not None and context.is_history_navigation
    words = {name: st.query_params.get_all(name) for name in st.query_params}
    arrived = st.session_state.get(_PAGE) != page
    st.session_state[_PAGE] = page
    known = st.session_state.get(_SCENARIO)
    linked = arrived and Scenario.model_fields.keys() & words.keys()
    if known is None or came_back or linked:
        known = Scenario.of_query(words)
        put(known)
    elif arrived:  # the former page may not have read the last choice
        known = current()
    return known


def store(scenario: Scenario) -> None:
    """Store the scenario in the session."""
    st.session_state[_SCENARIO] = scenario


def stored() -> Scenario:
    """The session's scenario."""
    return st.session_state[_SCENARIO]


def end(scenario: Scenario) -> None:
    """Store the scenario in the session and write the address."""
    store(scenario)
    words = scenario.query()
    others = {name: st.query_params.get_all(name) for name in st.query_params if name not in Scenario.model_fields}
    shown = {name: st.query_params.get_all(name) for name in st.query_params if name in Scenario.model_fields}
    if shown != {name: word if isinstance(word, list) else [word] for name, word in words.items()}:
        st.query_params.from_dict({**others, **words})


def put(scenario: Scenario) -> None:
    """Store ``scenario`` in the session. Each widget with another value is set when it is drawn next.

    The others are not: setting a widget discards a choice that the user has just made in it.
    """
    shown, refused = _shown()
    st.session_state[_SCENARIO] = scenario
    for name in Scenario.model_fields:
        if shown is None or name in refused or getattr(shown, name) != getattr(scenario, name):
            st.session_state.pop(name, None)


def current() -> Scenario:
    """The session's scenario with the values of the widgets, which can be newer."""
    return _shown()[0]


def _shown() -> tuple[Scenario | None, set[str]]:
    """The session's scenario with the values of the widgets, and the fields whose widget has a value out of range."""
    state, refused = st.session_state, set()
    scenario = state.get(_SCENARIO)
    shown = {name: state[name] for name in Scenario.model_fields if name in state}
    if shown.get("spend") in state.get("spend_shown", ()):
        shown.pop("spend", None)  # the user did not move it
    for name, value in shown.items():
        try:
            scenario = scenario.replace(**{name: None if value == state.get(f"usual_{name}") else value})
        except InvalidInputError:  # the page shows a warning
            refused.add(name)
    return scenario, refused


def update(**changes: Any) -> None:
    """Change fields; for callbacks."""
    put(current().replace(**changes))


def link_of(scenario: Scenario) -> str:
    """The part of an address after ``?``."""
    return urlencode(scenario.query(), doseq=True)


def of_link(link: str) -> Scenario:
    """The scenario of :func:`link_of`."""
    return Scenario.of_query(parse_qs(link, keep_blank_values=True))
