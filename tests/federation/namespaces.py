"""Hosts of their own on this machine: a network namespace for each, with one cable to ours. Linux, as root."""

from __future__ import annotations

import os
import subprocess
from types import TracebackType

_PREFIX = "zorba"


class Host:
    """A namespace with a cable (veth) whose other end is here. A cut one loses packets; connections hear nothing.

    Addresses are 10.234.<number>.1 on our side and .2 on its own. As a context it takes itself away.
    """

    def __init__(self, number: int) -> None:
        self.name = f"{_PREFIX}-{os.getpid()}-{number}"
        self._near, self._far = (f"{_PREFIX[0]}{os.getpid()}{end}{number}" for end in "nf")
        self.ours, self.its = f"10.234.{number}.1", f"10.234.{number}.2"
        self.inside = ("ip", "netns", "exec", self.name)

    def __enter__(self) -> Host:
        _run("ip", "netns", "add", self.name)
        try:
            _run("ip", "link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.name)
            _run("ip", "addr", "add", f"{self.ours}/30", "dev", self._near)
            _run(*self.inside, "ip", "addr", "add", f"{self.its}/30", "dev", self._far)
            _run(*self.inside, "ip", "link", "set", "lo", "up")
            _run(*self.inside, "ip", "link", "set", self._far, "up")
            self.restore()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run("ip", "netns", "del", self.name)  # and its end of the cable, and with it ours

    def cut(self) -> None:
        _run("ip", "link", "set", self._near, "down")

    def restore(self) -> None:
        _run("ip", "link", "set", self._near, "up")


def available() -> bool:
    """May this process make namespaces?"""
    try:
        with Host(250):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
