"""States, times and sizes as people read them."""

from __future__ import annotations

import time

ERROR = "train_error"  # in the session: why the last click did nothing
NEW = "new"  # as the job of an address: none is looked at, the form is

# state: word, colour, icon
STATES = {
    "starting": ("starting", "blue", ":material/hourglass_top:"),
    "running": ("running", "green", ":material/play_circle:"),
    "stopping": ("stopping after this round", "orange", ":material/stop_circle:"),
    "finished": ("finished", "blue", ":material/check_circle:"),
    "interrupted": ("stopped, can resume", "orange", ":material/pause_circle:"),
    "refused": ("refused", "red", ":material/block:"),
    "failed": ("failed", "red", ":material/error:"),
    "cancelled": ("stopped before it began", "gray", ":material/cancel:"),
    "elsewhere": ("running elsewhere", "green", ":material/play_circle:"),
}


def duration(seconds: float) -> str:
    """``48 s``, ``6 min``, ``2 h 10 min``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def ago(moment: float) -> str:
    """A moment, in seconds since the epoch, as how long it is ago; from a day on, as its date."""
    passed = max(0.0, time.time() - moment)
    if passed < 5:
        return "just now"
    return f"{duration(passed)} ago" if passed < 86_400 else time.strftime("on %d %b %Y", time.localtime(moment))


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def mib(count: float) -> str:
    return f"{count / 2**20:,.0f} MiB"
