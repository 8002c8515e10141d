"""Many attempts in one child process, each with its own limits; the child ends at the first that fails.

A child for each attempt would spend its time on forking. What one attempt leaves in the process (a changed setting, an
open file, a temporary file) is looked for after it, and an attempt that fails is made again in a child of its own, so
that it is known whether it fails alone.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.torture.children import MEMORY_BYTES, SECONDS, start

_WALL_SECONDS = 20 * SECONDS  # without a word from a child
_PAUSE = 0.02


@dataclass(frozen=True)
class Attempt:
    """How one ended. ``counted``: inputs, files or crashes in it; ``error``: the broken promise."""

    number: int
    counted: int = 0
    processor_seconds: float = 0.0
    error: str = ""


def run_batch(work: Callable[[int], int], numbers: Iterable[int], folder: Path) -> list[Attempt]:
    """The attempts of these numbers, in order, to the first that fails; that one also says whether it fails alone.

    Args:
        work: makes the attempt of a number and returns how much it counts; raises where a promise is broken.
        folder: of the attempts; nothing below it may be open after one.
    """
    numbers = list(numbers)
    attempts = _in_one_child(work, numbers, folder)
    if attempts[-1].error and len(attempts) > 1:
        again = _in_one_child(work, [attempts[-1].number], folder)[0]
        how = "alone too" if again.error else f"only after the attempts from {numbers[0]} on in the same process"
        attempts[-1] = Attempt(**{**asdict(attempts[-1]), "error": f"{attempts[-1].error}\n(it fails {how})"})
    return attempts


def _in_one_child(work: Callable[[int], int], numbers: list[int], folder: Path) -> list[Attempt]:
    lines, answer = folder.with_name(f"{folder.name}.lines"), folder.with_name(f"{folder.name}.ended")
    lines.parent.mkdir(parents=True, exist_ok=True)
    lines.write_text("")

    def all_of_them() -> None:
        os.fsync = lambda number: (
            None
        )  # the kernel keeps what it was given; a power cut is played (tests.torture.faults)
        with open(lines, "a", encoding="utf-8", buffering=1) as said:
            for number in numbers:
                said.write(f"{json.dumps({'number': number})}\n")
                attempt = _attempt(work, number, folder)
                said.write(f"{json.dumps(asdict(attempt))}\n")
                if attempt.error:
                    return

    child = start(all_of_them, answer)
    status, hung = _await(child, lines)
    content = answer.read_bytes() if answer.is_file() else b""
    answer.unlink(missing_ok=True)
    said = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    lines.unlink()
    attempts = [Attempt(**fields) for fields in said if len(fields) > 1]
    open_attempts = [fields["number"] for fields in said if len(fields) == 1][len(attempts) :]
    if open_attempts:  # the process ended within it
        how = "it hung" if hung else f"the process ended with {status}"
        attempts.append(Attempt(open_attempts[0], 0, SECONDS if hung else 0.0, how))
    if not attempts:
        raise RuntimeError(f"a child of the torture ended with {status} before its first attempt: {content!r}")
    return attempts


def _attempt(work: Callable[[int], int], number: int, folder: Path) -> Attempt:
    began, resident = time.process_time(), _reset_peak()
    temporary = Path(tempfile.mkdtemp(prefix="tmp-", dir=folder.parent))
    tempfile.tempdir = str(temporary)
    counted, error = 0, ""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends the process, whatever it is at
    try:
        counted = work(number)
        grown = _peak() - resident
        assert grown < MEMORY_BYTES, f"it took {grown / 2**30:.1f} GiB"
        _check_left(folder, temporary)
    except BaseException:
        error = traceback.format_exc()
    signal.setitimer(signal.ITIMER_PROF, 0)
    tempfile.tempdir = None
    shutil.rmtree(temporary, ignore_errors=True)
    return Attempt(number, counted, time.process_time() - began, error)


def _check_left(folder: Path, temporary: Path) -> None:
    """No file is open, and no temporary one is left, also after the collector."""
    if _open_files(folder) or any(temporary.iterdir()):
        gc.collect()
    assert not _open_files(folder), f"files left open: {_open_files(folder)}"
    left = sorted(path.name for path in temporary.iterdir())
    assert not left, f"temporary files left behind: {left}"


def _open_files(folder: Path) -> list[str]:
    names = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return [name for name in names if name.startswith(f"{folder}{os.sep}")]


def _await(child: int, lines: Path) -> tuple[int, bool]:
    """(status, whether it hung); the status is negative for a signal."""
    heard, size = time.monotonic(), 0
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if lines.stat().st_size != size:
            heard, size = time.monotonic(), lines.stat().st_size
        if time.monotonic() - heard > _WALL_SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGKILL, True
        time.sleep(_PAUSE)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return code, code == -signal.SIGPROF


def _reset_peak() -> int:
    """Forget this process's largest resident set; returns the present one in bytes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def first_line(error: str) -> str:
    """What broke, for a list."""
    lines = [line for line in error.splitlines() if line and not line.startswith((" ", "(it fails"))]
    return lines[-1][:300] if lines else ""
