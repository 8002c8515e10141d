"""How runs differ: settings that differ, names made of them, and runs that differ in their seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zorba_core.files import to_json
from zorba_core.study.comparison.records import Record

# Of a run's config: what differs between seeds of one setting, and what says nothing about the result.
SEED_KEYS = (
    "seed",
    "allocation.budgets",
    "allocation.capacity_gib",
    "allocation.sha256",
    "allocation.total_blocks",
    "recipe.shuffle",  # an experiment's recipe may draw its matrix anew for each seed
)
UNNAMED = ("save_model", "force", "threads")
_DERIVED = SEED_KEYS[1:]
_SAID_FIRST = ("dataset", "model", "method", "allocation.solver")  # their values speak for themselves
_BESIDE_AN_ARM = ("dataset", "alpha", "num_clients", "lr", "seed")
_MOST_WORDS = 4
_IID = 1e5  # a Dirichlet parameter from which clients' data are alike


def differing(configs: Sequence[dict[str, Any]]) -> list[str]:
    """The flat keys in which configs differ, but for fingerprints."""
    keys = sorted({key for config in configs for key in config})
    return [
        key for key in keys if not key.endswith("sha256") and len({to_json(config.get(key)) for config in configs}) > 1
    ]


def labels(records: Sequence[Record]) -> dict[str, Record]:
    """Runs under names that say what tells them apart, such as ``two-level · lr 0.02 · seed 2``."""
    return {name: of[0] for name, of in _named([[record] for record in records], ()).items()}


def groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Runs that differ in their seed alone, under a name that says what tells the groups apart."""
    by_setting: dict[str, list[Record]] = {}
    for record in records:
        by_setting.setdefault(_setting(record), []).append(record)
    return _named(list(by_setting.values()), SEED_KEYS)


def _named(sets: Sequence[list[Record]], unsaid: Sequence[str]) -> dict[str, list[Record]]:
    settings = [{key: v for key, v in of[0].settings.items() if key not in unsaid} for of in sets]
    keys = [key for key in differing(settings) if key not in (*UNNAMED, *_DERIVED)]
    keys.sort(key=lambda key: (key not in _SAID_FIRST, key == "seed"))
    named: dict[str, list[Record]] = {}
    for config, of in zip(settings, sets, strict=True):
        first = of[0]
        words = [in_words(key, config.get(key)) for key in keys[:_MOST_WORDS]]
        if first.arm is not None:  # it stands for the settings that its experiment varies, but for these
            words = [first.arm, *(in_words(key, config.get(key)) for key in _BESIDE_AN_ARM if key in keys)]
        name = " · ".join(words) or first.name
        if name in named:
            name += f" · {first.name[-8:]}"
        named[name] = of
    return named


def in_words(key: str, value: Any) -> str:
    """``two-level`` needs no key; ``lr 0.02`` does."""
    if key in _SAID_FIRST and value is not None:
        return shown(value)
    if key == "num_clients":
        return f"N {shown(value)}"
    if key == "alpha" and isinstance(value, float | int) and value >= _IID:
        return "IID"
    return f"{key.split('.')[-1]} {'–' if value is None else shown(value)}"


def shown(value: Any) -> str:
    """A setting's value as text of bounded length."""
    if value is None:
        return "not recorded"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 120 else f"{text[:117]}…"


def _setting(record: Record) -> str:
    pairs = [
        ("arm", record.arm),
        *((k, v) for k, v in record.settings.items() if k not in (*SEED_KEYS, *UNNAMED)),
    ]
    return to_json(sorted(pairs))
