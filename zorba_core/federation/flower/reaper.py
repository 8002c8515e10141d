"""Ends what a deployment leaves behind: ``python warden.py FLWR_HOME``, with a pipe from the deployment's process.

A process that is killed cannot end its children's children, and a ClientApp that Flower started in the middle of a
message may wait for its SuperNode for ever. The pipe closes when the deployment's process ends, however it does; what
still runs under its FLWR_HOME some seconds later is killed. Standard library only: it starts in no time.
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
    wanted, found = f"FLWR_HOME={home}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:  # gone, or another user's
            continue
    return found


def main(home: str) -> None:
    while sys.stdin.buffer.read(1):
        pass
    until = time.monotonic() + GRACE_SECONDS
    while (left := processes_under(home)) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    while left:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(_LOOK_SECONDS)
        left = processes_under(home)


if __name__ == "__main__":
    main(sys.argv[1])
