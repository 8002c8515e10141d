"""Ends what a deployment leaves behind: ``python reaper.py FLWR_HOME``, with a pipe from the deployment's process.

A process that is killed cannot end its children's children, and a ClientApp that Flower started in the middle of a
message may wait for its SuperNode for ever. The pipe closes when the deployment's process ends, for any reason; what
still runs under its FLWR_HOME some seconds later is killed. Standard library only: it starts fast.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

GRACE_SECONDS, _LOOK_SECONDS = 6.0, 0.1


def processes_under(home: str) -> list[int]:
    """Processes that were started with this FLWR_HOME and are not gone."""
    variable, pids = f"FLWR_HOME={home}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable in (process / "environ").read_bytes().split(b"\0"):
                pids.append(int(process.name))
        except OSError:  # gone, or another user's
            continue
    return pids


def main(home: str) -> None:
    while sys.stdin.buffer.read(1):
        pass
    until = time.monotonic() + GRACE_SECONDS
    while (remaining := processes_under(home)) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    while remaining:
        for pid in remaining:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(_LOOK_SECONDS)
        remaining = processes_under(home)


if __name__ == "__main__":
    main(sys.argv[1])
