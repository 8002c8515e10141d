"""Public names of a package that load at first use, so that importing the package is fast."""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def names_on_demand(package: str, home: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package`` for the names of ``home`` (name -> module below the package)."""

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home[name]}"), name)

    def listed() -> list[str]:
        return sorted({*vars(importlib.import_module(package)), *home})

    return load, listed


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Context manager: no garbage collection. Imports make many objects and no garbage; torch's take a tenth less."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
