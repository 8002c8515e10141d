"""The peak memory a run really had: the allocator's on CUDA, the growth of the process's resident set on the CPU."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from zorba_core.errors import RunError

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class MemoryMeter:
    """Begin before the rounds, when the model and the rows are loaded; read after them.

    On the CPU the figure is how far the resident set grew above where it stood at the beginning, so the parameters are
    not in it, and neither are pages that were there already and were used again. It needs Linux's /proc.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._before: int | None = None

    def begin(self) -> None:
        if self._device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            return
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # hand back what loading has left, or the rounds would seem to need less
        try:
            _CLEAR.write_text("5")  # the high-water mark starts anew
        except OSError:
            return
        self._before = _status("VmRSS")

    def describe(self) -> dict[str, Any]:
        """``{"bytes": ..., "what": ...}``; bytes is None where it cannot be measured."""
        if self._device == "cuda":
            return {"bytes": torch.cuda.max_memory_allocated(), "what": "CUDA, most allocated at once"}
        high = None if self._before is None else _status("VmHWM")
        what = "CPU, growth of the resident set above the loaded model"
        return {"bytes": None if high is None else max(0, high - self._before), "what": what}


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Context manager: turn a failed allocation into a RunError of one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise RunError("out of memory; free some, or use a smaller batch, length or model") from None
        raise


def _status(field: str) -> int | None:
    """A line of /proc/self/status, in bytes."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return int(values[0]) * 1024 if values else None
