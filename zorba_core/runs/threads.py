"""How many threads a new run may ask for. No torch here: a wrong request is refused before it loads."""

from __future__ import annotations

import os

from zorba_core.errors import InvalidInputError

_FEWEST_THREADS, _THREADS_A_CORE = 16, 4


def usable_cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_threads(threads: int) -> None:
    """
    Raises:
        InvalidInputError: so many that they would only wait for each other.
    """
    cores = usable_cores()
    most = max(_FEWEST_THREADS, _THREADS_A_CORE * cores)
    if threads > most:
        raise InvalidInputError(
            f"threads is {threads} and this machine has {cores} cores; give at most {most}, or {cores} to use each once"
        )
