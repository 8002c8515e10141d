"""Flower's commands, started as everything of Flower's is here: without reports of usage, and with one line for options
that it does not take."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from zorba_core.errors import InvalidInputError

NO_FLOWER = "Flower 1.41 is not installed here: pip install -c constraints.txt torch==2.13.0 -e '.[flower]'"
_POLL_SECONDS = "0.2"  # Flower's default of 1.0 is waited for twice a round


def settings() -> dict[str, str]:
    """Environment variables that every Flower process here runs under."""
    return {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1"),
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": os.environ.get("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", _POLL_SECONDS),
        "PYTHONUNBUFFERED": "1",
        # The commands that Flower starts by name lie beside this interpreter.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }


def run_command(command: Callable[[], None], parser: argparse.ArgumentParser, options: Sequence[str]) -> None:
    """One of Flower's, in this process, which is for it alone, with options that its parser takes.

    Raises:
        InvalidInputError: it does not take them.
    """
    name = command.__name__.replace("_", "-")

    def refuse(message: str) -> NoReturn:
        raise InvalidInputError(f"{message}; {name} --help names the options")

    parser.error = refuse  # type: ignore[method-assign]
    parser.parse_args(options)
    sys.argv = [name, *options]
    command()
