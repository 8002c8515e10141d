"""A piece of work in a child process of its own: within 4 GiB and 30 seconds, and what it left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEMORY_BYTES = 4 * 2**30  # beyond what this process has
SECONDS = 30.0
_PAUSE = 0.01


@dataclass(frozen=True)
class Ended:
    """How a child ended. ``result`` is what its work returned; ``error`` the traceback of what escaped it."""

    status: int  # of the exit; negative: the signal that ended it
    result: Any = None
    error: str = ""
    seconds: float = 0.0
    grown_bytes: int = 0  # its largest resident set, less this process's when it began
    hung: bool = False


def start(work: Callable[[], Any], answer: Path, *, memory_bytes: int = MEMORY_BYTES) -> int:
    """Begin ``work`` in a child; returns its process id. What it returns is written to ``answer``."""
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # the collector of the child would copy the parent's memory
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        limit = _virtual_bytes() + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        silent = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(silent, number)
        result, error = work(), ""
        status = 0
    except BaseException:
        result, error = None, traceback.format_exc()
        status = 71
    finally:
        with contextlib.suppress(BaseException):
            content = pickle.dumps((result, error))  # between our own processes
            with open(answer, "wb") as file:
                file.write(content)
        os._exit(status)


def await_end(child: int, answer: Path, *, seconds: float = SECONDS, grown_from: int = 0) -> Ended:
    """Wait for a child; one that takes longer than ``seconds`` of its processor's time, or twenty times that by the
    clock, is killed and counts as hung. (By the clock alone a busy machine would look like a hang.)"""
    began, hung = time.monotonic(), False
    while True:
        ended, status, used = os.wait4(child, os.WNOHANG)
        if ended:
            break
        if _processor_seconds(child) > seconds or time.monotonic() - began > 20 * seconds:
            hung = True
            os.kill(child, signal.SIGKILL)
            _, status, used = os.wait4(child, 0)
            break
        time.sleep(_PAUSE)
    result, error = None, ""
    with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
        result, error = pickle.loads(answer.read_bytes())
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    grown = max(0, used.ru_maxrss * 1024 - grown_from)
    return Ended(code, result, error, time.monotonic() - began, grown, hung)


def in_child(work: Callable[[], Any], folder: Path, *, memory_bytes: int = MEMORY_BYTES) -> Ended:
    """Both of the above."""
    answer = folder.with_name(f"{folder.name}.answer")
    answer.unlink(missing_ok=True)
    child = start(work, answer, memory_bytes=memory_bytes)
    try:
        return await_end(child, answer, grown_from=resident_bytes())
    finally:
        answer.unlink(missing_ok=True)


def resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _virtual_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0
