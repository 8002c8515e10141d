"""Outcomes of runs against their settings: a dot for each run, or for each group of seeds with its spread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zorba_core.allocation import find_measure
from zorba_core.errors import InvalidInputError
from zorba_core.study.comparison.curves import metrics_of, spread_of
from zorba_core.study.comparison.names import UNNAMED, groups, in_words, labels
from zorba_core.study.comparison.records import ALLOCATED, Record

OUTCOMES = {
    "best": "Best validation accuracy",
    "final": "Last validation accuracy",
    "loss": "Last validation cross-entropy",
    "to_target": "Rounds to target",
}
_MEASURED = {
    **{name: find_measure(name).label for name in ALLOCATED},
    "vram": "VRAM, all clients (GiB)",
    "bytes": "Bytes sent, both ways, all clients",
    "work": "Forward passes of one client's batch; a backward pass counts as two",
    "seconds": "Seconds of training",
    "rounds": "Rounds done",
}
_MOST_KINDS = 12  # more colours and shapes than this cannot be distinguished


@dataclass(frozen=True)
class Dot:
    """One run, or a group of seeds at its mean; low and high bound its spread (None for one run)."""

    name: str
    names: tuple[str, ...]  # of the runs behind it
    kind: str
    x: float
    y: float
    x_bounds: tuple[float, float] | None = None
    y_bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Cloud:
    """Dots, and the names of runs or groups without both coordinates."""

    dots: tuple[Dot, ...]
    x: str
    y: str
    x_label: str
    y_label: str
    without_numbers: tuple[str, ...]


def axes_of(records: Sequence[Record]) -> dict[str, str]:
    """What the runs can be laid out along: measured quantities and numeric settings in which they differ, by label."""
    axes = {key: label for key, label in _MEASURED.items() if _differ(_number(record, key) for record in records)}
    for key in _settings(records):
        if key in axes or not _worth_offering(key):
            continue
        known = [value for record in records if (value := record.settings.get(key)) is not None]
        if all(_is_number(value) for value in known) and _differ(known):
            axes[key] = key
    return axes


def kinds_of(records: Sequence[Record]) -> list[str]:
    """What the runs can be coloured by: settings with 2 to 12 values, and an experiment's arms."""
    kinds = []
    for key in ["arm", "method", "dataset", "model", *_settings(records)]:
        values = {_kind(record, key) for record in records}
        if key not in kinds and _worth_offering(key) and 1 < len(values) <= _MOST_KINDS:
            kinds.append(key)
    return kinds


def cloud_of(records: Sequence[Record], *, x: str, y: str, kind: str | None = None, band: str | None = None) -> Cloud:
    """A dot a run, or with ``band`` (a key of ``BANDS``) a dot a group of seeds.

    Args:
        x: a key of :func:`axes_of`; y: a key of ``OUTCOMES``.
        kind: a key of :func:`kinds_of`: what dots are coloured by.

    Raises:
        InvalidInputError: an unknown outcome.
    """
    if y not in OUTCOMES:
        raise InvalidInputError(f"unknown outcome {y!r}; choose one of {', '.join(OUTCOMES)}")
    behind = groups(records) if band else {name: [record] for name, record in labels(records).items()}
    dots, without_numbers = [], []
    for name, runs in behind.items():
        pairs = [(a, b) for run in runs if (a := _number(run, x)) is not None and (b := _number(run, y)) is not None]
        if not pairs:
            without_numbers.append(name)
            continue
        x_R, y_R = np.array(pairs).T
        label = "" if kind is None else _kind(runs[0], kind)
        names = tuple(run.name for run in runs)
        if len(pairs) == 1 or band is None:
            dots.append(Dot(name, names, label, float(x_R[0]), float(y_R[0])))
            continue
        (x_mean, *x_bounds), (y_mean, *y_bounds) = (map(float, spread_of(of_R, band)) for of_R in (x_R, y_R))
        dots.append(Dot(name, names, label, x_mean, y_mean, tuple(x_bounds), tuple(y_bounds)))
    y_label = OUTCOMES[y].replace("accuracy", metrics_of(records))
    return Cloud(tuple(dots), x, y, _MEASURED.get(x, x), y_label, tuple(without_numbers))


def _number(record: Record, key: str) -> float | None:
    value = record.outcome[key] if key in record.outcome else record.settings.get(key)
    return float(value) if _is_number(value) and np.isfinite(value) else None


def _worth_offering(key: str) -> bool:
    """Not what says nothing about the result, nor how an experiment made its matrices, which its arms stand for."""
    return key not in UNNAMED and not key.startswith("recipe.") and not key.endswith("sha256")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _differ(values: Iterable[Any]) -> bool:
    return len({value for value in values if value is not None}) > 1


def _settings(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(key for record in records for key in record.settings))


def _kind(record: Record, key: str) -> str:
    return record.arm or "–" if key == "arm" else in_words(key, record.settings.get(key))
