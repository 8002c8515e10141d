"""Is the process that a file names still the same process? Its id alone does not show it: systems reuse ids."""

from __future__ import annotations

from pathlib import Path

import psutil

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"


def start_stamp(pid: int) -> str | None:
    """What tells this process from a later one of the same number: when it began, and in which session of the machine.

    None when there is no such process, or when it has ended and only waits for its parent to notice.
    """
    if _BOOT.is_file():
        return _linux_stamp(pid)
    return _psutil_stamp(pid)


def is_alive(pid: int, stamp: str) -> bool:
    """Whether the very process that had this stamp still runs."""
    return start_stamp(pid) == stamp


def resident_bytes(pid: int) -> int | None:
    """Memory the process holds now (its resident set); None where the system does not report it."""
    try:
        return psutil.Process(pid).memory_info().rss or None
    except psutil.Error:
        return None


def _linux_stamp(pid: int) -> str | None:
    try:
        # The name, in brackets, may hold spaces and brackets of its own: count fields from the last bracket on.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, ticks = fields[0], fields[19]
    return None if state in "ZX" else f"{_BOOT.read_text().strip()}:{ticks}"


def _psutil_stamp(pid: int) -> str | None:
    """Where there is no /proc. On Linux the stamp above is safer: a clock that is set moves what psutil reports."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.Error:
        return None
