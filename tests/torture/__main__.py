"""Torture the suite with one seeded generator; run it for minutes or for hours::

    python -m tests.torture --hours 1 --seed 7 [--only crash] [--out artifacts/benchmarks/torture.json] [--resume]

Every attempt has random numbers of its own, from the seed, the attack's name and its number alone, so a failure is made
again by ``--seed SEED --only NAME --attempt NUMBER``. The attack that is furthest from its target is next, until the
time is over or all have theirs. Counts by attack go to the JSON file, once a minute; ``--resume`` continues from what
it says. Exit status 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.torture.attacks import ATTACKS
from tests.torture.batches import first_line, run_batch
from tests.torture.world import World, build, quicken, small_folder
from zorba_core.checksums import read_sealed, write_sealed

ROOT = Path(__file__).resolve().parents[2]
_MOST_FAILURES = 50  # that are written down; all are counted
_SAVE_SECONDS = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(ATTACKS), action="append", default=[])
    parser.add_argument("--attempt", type=int, default=None, help="Only the attempt of this number, with --only.")
    parser.add_argument("--first", type=int, default=0, help="Number of the first attempt.")
    parser.add_argument("--attempts", type=int, default=None, help="At most so many of each attack.")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--resume", action="store_true", help="Continue from the counts in the file of --out.")
    asked = parser.parse_args()
    if asked.attempt is not None:
        asked.first, asked.attempts = asked.attempt, 1
    before: Mapping[str, Any] | None = None
    if asked.resume and asked.out is not None and asked.out.is_file():
        before = read_sealed(asked.out)
        if before["seed"] != asked.seed:
            parser.error(f"{asked.out} is of seed {before['seed']}; use that, or leave out --resume")
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", ZORBA_CACHE="off", TOKENIZERS_PARALLELISM="false")
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="zorba-torture-")))
    machine = _machine()
    quicken()

    def save(result: Mapping[str, Any]) -> None:
        if asked.out is not None:
            write_sealed(asked.out, {**result, "machine": machine})

    try:
        result = torture(
            build(folder),
            seed=asked.seed,
            seconds=asked.hours * 3600,
            only=asked.only,
            first=asked.first,
            attempts=asked.attempts,
            before=before,
            say=lambda line: print(line, flush=True),
            save=save,
        )
    finally:
        os.chdir(ROOT)
        shutil.rmtree(folder, ignore_errors=True)
    for name, counted in result["attacks"].items():
        print(f"{name}: {counted['attempts']} attempts, {counted['counted']} in {counted['processor_seconds']:.0f} s")
    print(f"{result['totals']}, broken promises: {result['failures']}, in {result['seconds']:.0f} s")
    save(result)
    return 1 if result["failures"] else 0


def torture(
    world: World,
    *,
    seed: int,
    seconds: float,
    only: list[str] | tuple[str, ...] = (),
    first: int = 0,
    attempts: int | None = None,
    before: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda line: None,
    save: Callable[[Mapping[str, Any]], None] = lambda result: None,
) -> dict[str, Any]:
    """Attack until the time, the number of attempts or the targets are reached. Returns counts and first failures."""
    names = [name for name in ATTACKS if not only or name in only]
    nothing = {"first": first, "attempts": 0, "counted": 0, "failures": 0, "processor_seconds": 0.0}
    earlier = (before or {}).get("attacks", {})
    counts = {name: {**nothing, **earlier.get(name, {})} for name in names}
    failures: list[dict[str, Any]] = list((before or {}).get("first_failures", []))
    began, spent, saved = time.monotonic(), (before or {}).get("seconds", 0.0), time.monotonic()

    def result() -> dict[str, Any]:
        totals: dict[str, int] = {}
        for name in names:
            totals[ATTACKS[name].counts] = totals.get(ATTACKS[name].counts, 0) + counts[name]["counted"]
        return {
            "seed": seed,
            "seconds": spent + time.monotonic() - began,
            "processor_seconds": sum(counted["processor_seconds"] for counted in counts.values()),
            "totals": totals,
            "failures": sum(counted["failures"] for counted in counts.values()),
            "attacks": counts,
            "first_failures": failures[:_MOST_FAILURES],
        }

    def left_of(name: str) -> int:
        """Attempts that may still be made."""
        if attempts is not None:
            return attempts - counts[name]["attempts"]
        return ATTACKS[name].batch if counts[name]["counted"] < ATTACKS[name].target else 0

    while time.monotonic() - began < seconds:
        open_names = [name for name in names if left_of(name) > 0]
        if not open_names:
            break
        name = min(open_names, key=lambda name: counts[name]["counted"] / ATTACKS[name].target)
        counted, start = counts[name], counts[name]["first"] + counts[name]["attempts"]
        batch = range(start, start + min(ATTACKS[name].batch, left_of(name)))
        for attempt in run_batch(_maker(world, seed, name), batch, world.folder / "attempts" / name.replace(" ", "-")):
            counted["attempts"] += 1
            counted["counted"] += attempt.counted
            counted["processor_seconds"] += attempt.processor_seconds
            if attempt.error:
                counted["failures"] += 1
                what = re.sub(r'"[^"\n]*/site-packages/', '"', attempt.error)  # wherever the libraries lie
                what = what.replace(f"{ROOT}{os.sep}", "").replace(f"{world.folder}{os.sep}", "")
                failures.append({"attack": name, "number": attempt.number, "what": what[-3000:]})
                say(f"BROKEN: --seed {seed} --only '{name}' --attempt {attempt.number}: {first_line(what)}\n{what}")
        if time.monotonic() - saved > _SAVE_SECONDS:
            saved = time.monotonic()
            save(result())
            say(f"{time.monotonic() - began:.0f} s: {result()['totals']}, broken {result()['failures']}")
    return result()


def _maker(world: World, seed: int, name: str) -> Callable[[int], int]:
    def attempt(number: int) -> int:
        folder = small_folder(world, name.replace(" ", "-"))
        return ATTACKS[name].attempt(world, random.Random(f"{seed} {name} {number}"), folder)

    return attempt


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
