"""Files that are either whole or absent: written to a temporary name beside the target, then renamed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


@contextlib.contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; rename it to ``target`` on success, remove it on any failure."""
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix is kept because some writers (np.savez, plotly) choose the format, or add one, by it.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files private (0600); a result is as readable as any other file of its owner.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(target: str | os.PathLike[str], content: bytes) -> None:
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)


def write_json(target: str | os.PathLike[str], value: Any) -> None:
    write_text(target, to_json(value, indent=2) + "\n")


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON: NumPy scalars and arrays become numbers and lists, and a NaN or infinity becomes ``null``."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


def fingerprint(value: Any) -> str:
    """SHA-256 of a value's JSON."""
    return hashlib.sha256(to_json(value).encode()).hexdigest()
