"""The attacks: each makes one attempt from its own random numbers, in an empty working folder, and raises where a
promise is broken.

Promises: no traceback, no hang, no allocation over 4 GiB that was not asked for, one line and exit status 1 or 2 where
a request or a file is refused, nothing left behind, and never other numbers without a word.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.torture import crashes, federations, messages, processes, requests, spoiled_files
from tests.torture.world import World

MALFORMED, DAMAGED, CRASHES, CLOCKS = "malformed inputs", "damaged files", "crashes", "clocks that jump"


class Attack(NamedTuple):
    """``attempt`` returns how many inputs, files or crashes it made; ``target``: how many are wanted in all."""

    attempt: Callable[[World, random.Random, Path], int]
    counts: str
    target: int
    batch: int = 50  # attempts in one process


ATTACKS: Mapping[str, Attack] = {
    "options": Attack(requests.options, MALFORMED, 12_000, 60),
    "words": Attack(requests.words, MALFORMED, 8_000, 100),
    "messages to clients": Attack(messages.to_clients, MALFORMED, 40_000, 10),
    "messages to the server": Attack(messages.to_server, MALFORMED, 40_000, 10),
    "inputs": Attack(spoiled_files.inputs, DAMAGED, 7_000, 200),
    "numbers": Attack(spoiled_files.numbers, DAMAGED, 7_000, 200),
    "a config alone": Attack(spoiled_files.config_alone, DAMAGED, 2_000, 200),
    "own rows": Attack(spoiled_files.own_rows, DAMAGED, 2_000),
    "listing": Attack(spoiled_files.listing, DAMAGED, 1_500),
    "going on": Attack(spoiled_files.going_on, DAMAGED, 1_250),
    "model files": Attack(spoiled_files.model_files, DAMAGED, 1_250),
    "crash": Attack(crashes.deaths_of(crashes.PLAIN), CRASHES, 4_000),
    "crash while blocks stream": Attack(crashes.deaths_of(crashes.STREAMED), CRASHES, 1_600),
    "crash while gradients are measured": Attack(crashes.deaths_of(crashes.MEASURED), CRASHES, 500),
    "crash while a plan is made again": Attack(crashes.deaths_of(crashes.PLANNED), CRASHES, 1_400),
    "crash with weights on the wire": Attack(crashes.deaths_of(crashes.WEIGHTS), CRASHES, 1_000),
    "failing disk": Attack(crashes.failing_disk, CRASHES, 800),
    "the server dies": Attack(federations.server_dies, CRASHES, 500, 20),
    "a client dies": Attack(federations.client_dies, CRASHES, 500, 20),
    "crash of a process": Attack(processes.crash, CRASHES, 100, 10),
    "signals": Attack(processes.signals, CRASHES, 50, 10),
    "two processes": Attack(processes.two_processes, CRASHES, 50, 10),
    "clock": Attack(processes.clock, CLOCKS, 100),
}
