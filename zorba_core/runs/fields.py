"""The fields of a run folder's JSON files that are read back, and their kinds.

A field that is left out was not written by an older version, and fields that stand in no table are left alone. A field
that is there must be of its kind, so that readers of a run need no further check.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError, in_short
from zorba_core.fields import declared

DAMAGED = "the file is damaged"
MOST = 2**60  # counts beyond it overflow where they are added up


@dataclass(frozen=True)
class Maybe:
    """A kind, or null."""

    kind: Any


@dataclass(frozen=True)
class ListOf:
    kind: Any


@dataclass(frozen=True)
class MapOf:
    """An object with any names, each of the same kind."""

    kind: Any


@dataclass(frozen=True)
class Fields:
    """An object. ``all_of`` are in it, ``some_of`` may be."""

    all_of: Mapping[str, Any]
    some_of: Mapping[str, Any]


# int stands for a whole number of at least 0, float for any number (null where it was infinite or not a number).
_NUMBER = Maybe(float)
_SENT = Fields({"wire_bytes": int, "needed": int}, {"paper": int, "messages": int})

CONFIG_FIELDS = Fields(
    {},
    {
        **{
            field.name: Maybe(field.kind) if field.optional else field.kind
            for field in declared(TrainSettings).values()
        },
        # of the request around them
        "dataset": str,
        "model": str,
        "label_words": Maybe(ListOf(str)),
        "num_clients": int,
        "num_blocks": int,
        "alpha": _NUMBER,
        "save_model": bool,
        "force": bool,
        "allocation": MapOf(object),
        "task": MapOf(object),
        "division": str,
        "federation": MapOf(object),
    },
)
ENVIRONMENT_FIELDS = Fields(
    {},
    {
        "git_commit": Maybe(str),
        "git_dirty": Maybe(bool),
        "base_weights_sha256": str,
        "data": Fields({}, {"train_sha256": str, "evaluation_sha256": str}),
    },
)
SUMMARY_FIELDS = Fields(
    {},
    {
        "method": str,
        "stopped_by": str,
        "rounds_done": int,
        "initial_accuracy": _NUMBER,
        "final_accuracy": _NUMBER,
        "final_loss": _NUMBER,
        "best_accuracy": _NUMBER,
        "best_round": int,
        "target": _NUMBER,
        "rounds_to_target": Maybe(int),
        "lambda": _NUMBER,
        "mean_inverse_popularity": _NUMBER,
        "effective_clients": _NUMBER,
        "total_blocks": int,
        "memory": Fields(
            {"psi_bytes": _NUMBER},
            {"measured": Fields({}, {"bytes": _NUMBER, "what": str})},
        ),
        "vram_gib": Fields({"total": _NUMBER}, {"per_client": ListOf(_NUMBER)}),
        "seconds": _NUMBER,
        "forward_passes": int,
        "backward_passes": int,
        "work": int,
        "scalars_up": int,
        "scalars_down": int,
        "communication": Fields(
            {"up": _SENT, "down": _SENT},
            {
                "form": str,
                "by_message": ListOf(
                    Fields({"kind": str, "wire_bytes": int, "paper": int}, {"needed": int, "messages": int})
                ),
            },
        ),
        "resumed_after_rounds": ListOf(int),
        "reports": Fields({"reported": int, "refused_by_client": MapOf(int)}, {}),
        "weights_sha256": str,
    },
)
_NAMES = {str: "text", int: "a whole number of at least 0", float: "a number", bool: "true or false"}


def check_fields(content: Mapping[str, Any], fields: Fields) -> None:
    """Refuse an object that does not hold what its table says, or that holds a number or text that nothing can use.

    Raises:
        InvalidInputError: naming the field and its value.
    """
    _check("", content, fields)
    _check_values("", content)


def _check(where: str, value: Any, kind: Any) -> None:
    if isinstance(kind, Maybe):
        if value is not None:
            _check(where, value, kind.kind)
    elif isinstance(kind, ListOf):
        if not isinstance(value, list):
            raise _wrong(where, value, "a list")
        for index, item in enumerate(value):
            _check(f"{where}[{index}]", item, kind.kind)
    elif isinstance(kind, MapOf | Fields):
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        prefix = f"{where}." if where else ""
        if isinstance(kind, MapOf):
            for name, item in value.items():
                _check(f"{prefix}{name}", item, kind.kind)
            return
        for name in kind.all_of:
            if name not in value:
                raise InvalidInputError(f"no field {prefix}{name}")
        for name, of_field in {**kind.all_of, **kind.some_of}.items():
            if name in value:
                _check(f"{prefix}{name}", value[name], of_field)
    elif kind is int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
            raise _wrong(where, value, _NAMES[int])
    elif kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(where, value, _NAMES[float])
    elif kind is not object and not isinstance(value, kind):
        raise _wrong(where, value, _NAMES[kind])


def _check_values(where: str, value: Any) -> None:
    """Numbers that are finite and fit in 64 bits, and text that is Unicode, wherever they stand."""
    if isinstance(value, dict):
        for name, item in value.items():
            _check_values(where, name)
            _check_values(f"{where}.{name}" if where else name, item)
    elif isinstance(value, list):
        for item in value:
            _check_values(where, item)
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _wrong(where, value, "text that is Unicode") from None
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _wrong(where, value, "a finite number")
    elif isinstance(value, int) and abs(value) > MOST:
        raise _wrong(where, value, "a number that fits in 60 bits")


def _wrong(where: str, value: Any, expected: str) -> InvalidInputError:
    return InvalidInputError(f"{where or 'it'} is {in_short(value)}; it must be {expected}")


class Written(dict[str, Any]):
    """An object of a run's file. That it lacks a field that is asked for is damage, and said so."""

    file: Path

    def __missing__(self, name: str) -> Any:
        raise InvalidInputError(f"{self.file}: it has no {name}; {DAMAGED}")

    @classmethod
    def of(cls, content: Any, file: Path) -> Any:
        """Objects in objects too."""
        if not isinstance(content, dict):
            return content
        written = cls({name: cls.of(value, file) for name, value in content.items()})
        written.file = file
        return written
