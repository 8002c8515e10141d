"""The fields of a scenario from outside: their short names in links and widgets, and the values they may have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from app.shared.scenario import FLEET_KINDS, Scenario
from zorba_core.allocation import SOLVERS
from zorba_core.errors import InvalidInputError
from zorba_core.planning.gpu_catalogue import MIXES
from zorba_core.planning.memory import DTYPE_BYTES
from zorba_core.planning.models import PRESETS

MAX_ROWS = 20_000


@dataclass(frozen=True)
class Limits:
    """The values that a number may have, and the step of its control."""

    low: float
    high: float
    step: float = 1


# Field of the scenario: its name in links, and the key of its widget.
KEYS: Mapping[str, str] = {
    "fleet_kind": "fleet",
    "num_clients": "clients",
    "seed": "seed",
    "mean_fraction": "mean",
    "spread": "spread",
    "median_fraction": "median",
    "sigma": "sigma",
    "small_gib": "small",
    "medium_gib": "medium",
    "large_gib": "large",
    "medium_fraction": "medium_share",
    "large_fraction": "share",
    "card_share": "card",
    "leave_out_small": "leave_out",
    "model": "model",
    "batch_size": "batch",
    "seq_len": "seq",
    "dtype": "dtype",
    "solver": "solver",
    "num_epsilons": "vectors",
    "tau_mode": "tau",
}
CHOICES: Mapping[str, Collection[str]] = {
    "fleet_kind": tuple(FLEET_KINDS),
    "model": tuple(PRESETS),
    "dtype": tuple(DTYPE_BYTES),
    "solver": SOLVERS,
    "tau_mode": ("vector", "client", "total"),
}
LIMITS: Mapping[str, Limits] = {
    "num_clients": Limits(1, 2_000),
    "seed": Limits(0, 2**31 - 1),
    "batch_size": Limits(1, 4096),
    "seq_len": Limits(1, 65536, 16),
    "num_epsilons": Limits(1, 5_000, 100),
    "mean_fraction": Limits(0.0, 1.0, 0.05),
    "spread": Limits(0.01, 2.0, 0.05),
    "median_fraction": Limits(0.0, 1.0, 0.05),
    "sigma": Limits(0.05, 3.0, 0.05),
    "small_gib": Limits(0.1, 1024.0, 0.5),
    "medium_gib": Limits(0.1, 1024.0, 0.5),
    "large_gib": Limits(0.1, 1024.0, 0.5),
    "medium_fraction": Limits(0.0, 1.0, 0.05),
    "large_fraction": Limits(0.0, 1.0, 0.05),
    "card_share": Limits(0.05, 1.0, 0.05),
}
TAU_LABELS = {
    "vector": "one reduction τ for all",
    "client": "a reduction τ for each client",
    "total": "a limit on the total only",
}
# Shown and linked as whole percents.
PERCENT = frozenset({"medium_fraction", "large_fraction", "card_share"})
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
_DEFAULT = Scenario()


def used_fields(scenario: Scenario) -> tuple[str, ...]:
    """The fields that decide this scenario, but for the rows of a table."""
    return (*_COMMON, *_OF_KIND[scenario.fleet_kind], *_SEARCH)


def is_whole(name: str) -> bool:
    return isinstance(getattr(_DEFAULT, name), int)


def default(name: str) -> Any:
    return getattr(_DEFAULT, name)


def checked(name: str, value: Any) -> Any:
    """``value`` as the scenario's field ``name`` holds it.

    Raises:
        InvalidInputError: not of the field's kind, or out of its range.
    """
    if name in CHOICES:
        if not isinstance(value, str) or value not in CHOICES[name]:
            raise InvalidInputError(f"{name} is {_short(value)}; choose one of {', '.join(CHOICES[name])}")
        return value
    if name == "leave_out_small":
        if not isinstance(value, bool):
            raise InvalidInputError(f"{name} is {_short(value)}; it must be true or false")
        return value
    if name == "table":
        return _rows(value)
    limits = LIMITS[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise InvalidInputError(f"{name} is {_short(value)}; it must be a number")
    if not limits.low <= value <= limits.high or (is_whole(name) and value != int(value)):
        kind = "whole number" if is_whole(name) else "number"
        raise InvalidInputError(f"{name} is {value:g}; it must be a {kind} from {limits.low:g} to {limits.high:g}")
    return int(value) if is_whole(name) else float(value)


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
