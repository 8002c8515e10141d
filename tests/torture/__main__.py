"""Torture the suite with one seeded generator; run it for minutes or for hours::

    python -m tests.torture --hours 1 --seed 7 [--only crash] [--out artifacts/benchmarks/torture.json]

Every attempt has random numbers of its own, from the seed, the attack's name and its number, so a failure is made again
by ``--only NAME --first NUMBER --attempts 1`` with the same seed. Counts by attack go to the JSON file. Exit status 1
where a promise was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tests.torture.attacks import ATTACKS
from tests.torture.world import World, build
from zorba_core.files import sealed, write_json

ROOT = Path(__file__).resolve().parents[2]
_MOST_FAILURES = 50  # that are written down; all are counted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(ATTACKS), action="append", default=[])
    parser.add_argument("--first", type=int, default=0, help="Number of the first attempt.")
    parser.add_argument("--attempts", type=int, default=None, help="End after so many.")
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", ZORBA_CACHE="off", TOKENIZERS_PARALLELISM="false")
    folder = Path(tempfile.mkdtemp(prefix="zorba-torture-"))
    try:
        result = torture(
            build(folder),
            seed=asked.seed,
            seconds=asked.hours * 3600,
            only=asked.only,
            first=asked.first,
            attempts=asked.attempts,
            say=lambda line: print(line, flush=True),
        )
    finally:
        os.chdir(ROOT)
        shutil.rmtree(folder, ignore_errors=True)
    print({name: counted["attempts"] for name, counted in result["attacks"].items()})
    print(f"{result['totals']}, broken promises: {result['failures']}, in {result['seconds']:.0f} s")
    if asked.out is not None:
        write_json(asked.out, sealed({**result, "machine": _machine()}))
    return 1 if result["failures"] else 0


def torture(
    world: World,
    *,
    seed: int,
    seconds: float,
    only: list[str] | tuple[str, ...] = (),
    first: int = 0,
    attempts: int | None = None,
    say: Any = lambda line: None,
) -> dict[str, Any]:
    """Attack until the time, or the number of attempts, is over. Returns counts and the first failures."""
    names = [name for name in ATTACKS if not only or name in only]
    turns = [name for name in names for _ in range(ATTACKS[name][3])]
    random.Random(f"order {seed}").shuffle(turns)
    counts = {name: {"attempts": 0, "failures": 0, "seconds": 0.0} for name in names}
    numbers = dict.fromkeys(names, first)
    failures: list[dict[str, Any]] = []
    began = time.monotonic()
    for turn in range(sys.maxsize):
        if time.monotonic() - began > seconds or (attempts is not None and turn >= attempts):
            break
        name = turns[turn % len(turns)]
        number, started = numbers[name], time.monotonic()
        numbers[name] += 1
        try:
            ATTACKS[name][0](world, random.Random(f"{seed} {name} {number}"))
        except Exception:
            counts[name]["failures"] += 1
            what = traceback.format_exc().replace(f"{ROOT}{os.sep}", "")
            failures.append({"attack": name, "number": number, "what": what[-3000:]})
            say(f"BROKEN: --seed {seed} --only '{name}' --first {number} --attempts 1\n{what}")
        counts[name]["attempts"] += 1
        counts[name]["seconds"] += time.monotonic() - started
    totals: dict[str, int] = {}
    for name in names:
        _, kind, each, _ = ATTACKS[name]
        totals[kind] = totals.get(kind, 0) + each * counts[name]["attempts"]
    return {
        "seed": seed,
        "seconds": time.monotonic() - began,
        "totals": totals,
        "failures": sum(counted["failures"] for counted in counts.values()),
        "attacks": counts,
        "first_failures": failures[:_MOST_FAILURES],
    }


def _machine() -> dict[str, Any]:
    import platform

    import torch

    import zorba_core

    load = None
    with contextlib.suppress(OSError):
        load = os.getloadavg()[0]
    return {
        "cores": os.cpu_count(),
        "load": load,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "zorba": zorba_core.__version__,
    }


if __name__ == "__main__":
    sys.exit(main())
