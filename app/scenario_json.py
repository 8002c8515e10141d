"""A scenario as JSON, out and in. What comes in is data from outside: every field is checked and named when wrong."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any

from app.scenario import FLEET_KINDS, Scenario
from zorba_core.errors import InvalidInputError
from zorba_core.files import to_json
from zorba_core.memory import DTYPE_BYTES
from zorba_core.models import PRESETS

KIND, VERSION = "zorba-scenario", 1
MAX_BYTES = 5_000_000
MAX_ROWS = 20_000
SOLVERS = ("balanced", "lexicographic", "two-level")
TAU_MODES = ("vector", "client")


@dataclass(frozen=True)
class Limits:
    """The values that a number may have, for its control and for what comes from a file or a link."""

    low: float
    high: float
    step: float = 1


CHOICES: dict[str, tuple[str, ...]] = {
    "fleet_kind": tuple(kind for kind in FLEET_KINDS if kind != "csv"),
    "model": tuple(PRESETS),
    "dtype": tuple(DTYPE_BYTES),
    "solver": SOLVERS,
    "tau_mode": TAU_MODES,
}
LIMITS: dict[str, Limits] = {
    "num_clients": Limits(1, 2_000),
    "seed": Limits(0, 2**31 - 1),
    "batch_size": Limits(1, 4096),
    "seq_len": Limits(1, 65536, 16),
    "num_epsilons": Limits(1, 5_000, 100),
    "mean_fraction": Limits(0.0, 1.0, 0.05),
    "spread": Limits(0.01, 2.0, 0.05),
    "small_gib": Limits(0.1, 1024.0, 0.5),
    "large_gib": Limits(0.1, 1024.0, 0.5),
    "large_fraction": Limits(0.0, 1.0, 0.05),
}


def scenario_to_json(scenario: Scenario) -> str:
    """One JSON object; a table of clients is written as rows of name and GiB."""
    fields = {field.name: getattr(scenario, field.name) for field in dataclasses.fields(scenario)}
    if scenario.fleet_kind == "csv":
        frame = scenario.fleet().to_frame()
        fields["fleet_kind"], fields["table"] = "table", list(frame.itertuples(index=False, name=None))
    del fields["csv"]
    return to_json({"kind": KIND, "version": VERSION, **fields}, indent=1) + "\n"


def scenario_from_json(text: str | bytes) -> Scenario:
    """The scenario that :func:`scenario_to_json` wrote. A field left out has its default.

    Raises:
        InvalidInputError: too large, no JSON, another kind of file, an unknown field, or a value out of range.
    """
    if len(text) > MAX_BYTES:
        raise InvalidInputError(f"the scenario has {len(text) / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB is read")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the scenario is not JSON ({str(error)[:120]}); paste what 'Scenario as JSON' gave"
        ) from None
    if not isinstance(content, dict) or content.pop("kind", None) != KIND:
        raise InvalidInputError(f'this JSON is no scenario; one begins with {{"kind": "{KIND}", ...}}')
    version = content.pop("version", None)
    if version != VERSION:
        raise InvalidInputError(f"scenario version is {version!r}; this dashboard reads version {VERSION}")
    known = {field.name for field in dataclasses.fields(Scenario)} - {"csv"}
    unknown = sorted(set(content) - known)
    if unknown:
        raise InvalidInputError(
            f"the scenario has an unknown field {unknown[0]!r}; known are {', '.join(sorted(known))}"
        )
    return Scenario(**{name: checked(name, value) for name, value in content.items()})


def checked(name: str, value: Any) -> Any:
    """``value`` as the scenario's field ``name`` holds it.

    Raises:
        InvalidInputError: not of the field's kind, or out of its range.
    """
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise InvalidInputError(f"{name} is {value!r:.60}; choose one of {', '.join(CHOICES[name])}")
        return value
    if name == "leave_out_small":
        if not isinstance(value, bool):
            raise InvalidInputError(f"{name} is {value!r:.60}; it must be true or false")
        return value
    if name == "table":
        return _rows(value)
    limits, whole = LIMITS[name], isinstance(getattr(Scenario(), name), int)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInputError(f"{name} is {value!r:.60}; it must be a number")
    if not limits.low <= value <= limits.high or (whole and value != int(value)):
        kind = "whole number" if whole else "number"
        raise InvalidInputError(f"{name} is {value:g}; it must be a {kind} from {limits.low:g} to {limits.high:g}")
    return int(value) if whole else float(value)


def _rows(value: Any) -> tuple[tuple[object, object], ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_ROWS:
        raise InvalidInputError(f"table must be a list of at most {MAX_ROWS} rows [client, GiB]")
    rows = []
    for number, row in enumerate(value, start=1):
        if not isinstance(row, list | tuple) or len(row) != 2:
            raise InvalidInputError(f"table row {number} is {row!r:.60}; want [client, GiB]")
        name, gib = row
        if not isinstance(name, str | None) or isinstance(gib, bool) or not isinstance(gib, int | float | str | None):
            raise InvalidInputError(f"table row {number} is {row!r:.60}; want [client, GiB]")
        rows.append((name, gib))
    return tuple(rows)
