"""The fields of a scenario from outside: their short names in links and widgets, and the values they may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.shared.scenario import Control, Scenario
from zorba_core.checked import bound_of, choices_of, kind_of
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import MIXES

MAX_ROWS = 20_000


@dataclass(frozen=True)
class Limits:
    """The values that a number may have, and the step of its control."""

    low: float
    high: float
    step: float = 1


_FIELDS = {name: field for name, field in Scenario.model_fields.items() if name != "table"}
_CONTROLS = {
    name: next(part for part in field.metadata if isinstance(part, Control)) for name, field in _FIELDS.items()
}
# By the field of the scenario: its name in links and the key of its widget; how the names that it may have are listed
# (when asked: a registry may have gained one); its bounds.
KEYS: Mapping[str, str] = {name: control.key for name, control in _CONTROLS.items()}
CHOICES: Mapping[str, Callable[[], Mapping[str, str]]] = {
    name: partial(choices_of, field) for name, field in _FIELDS.items() if choices_of(field)
}
LIMITS: Mapping[str, Limits] = {
    name: Limits(bound_of(field, "ge"), bound_of(field, "le"), _CONTROLS[name].step)
    for name, field in _FIELDS.items()
    if bound_of(field, "le") is not None
}
TAU_LABELS = {
    "vector": "one reduction τ for all",
    "client": "a reduction τ for each client",
    "total": "a limit on the total only",
}
# Shown and linked as whole percents.
PERCENT = frozenset(name for name, control in _CONTROLS.items() if control.percent)
_COMMON = ("fleet_kind", "seed", "leave_out_small", "model", "batch_size", "seq_len", "dtype")
_SEARCH = ("solver", "num_epsilons", "tau_mode")
_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "uniform": ("num_clients",),
    "normal": ("num_clients", "mean_fraction", "spread"),
    "lognormal": ("num_clients", "median_fraction", "sigma"),
    "two-kinds": ("num_clients", "small_gib", "large_gib", "large_fraction"),
    "three-kinds": ("num_clients", "small_gib", "medium_gib", "large_gib", "medium_fraction", "large_fraction"),
    **{mix: ("num_clients", "card_share") for mix in MIXES},
    "table": (),
}


def used_fields(scenario: Scenario) -> tuple[str, ...]:
    """The fields that decide this scenario, but for the rows of a table."""
    return (*_COMMON, *_OF_KIND[scenario.fleet_kind], *_SEARCH)


def is_whole(name: str) -> bool:
    return kind_of(_FIELDS[name])[0] is int


def default(name: str) -> Any:
    return _FIELDS[name].default


def checked(name: str, value: Any) -> Any:
    """``value`` as the scenario's field ``name`` holds it.

    Raises:
        InvalidInputError: not of the field's kind, or out of its range.
    """
    if name == "table":
        return _rows(value)
    return getattr(Scenario(**{name: value}), name)


def _rows(value: Any) -> tuple[tuple[object, object], ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_ROWS:
        raise InvalidInputError(f"table must be a list of at most {MAX_ROWS} rows [client, GiB]")
    rows = []
    for number, row in enumerate(value, start=1):
        if not isinstance(row, list | tuple) or len(row) != 2:
            raise InvalidInputError(f"table row {number} is {_short(row)}; want [client, GiB]")
        name, gib = row
        if not isinstance(name, str | None) or isinstance(gib, bool) or not isinstance(gib, int | float | str | None):
            raise InvalidInputError(f"table row {number} is {_short(row)}; want [client, GiB]")
        rows.append((name, gib))
    return tuple(rows)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
