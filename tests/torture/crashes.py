"""Deaths at every file operation of a run, several after each other, and each of them resumed to the same bits.

What a process leaves when it dies is what its files hold at that moment: killed before an operation, in the middle of
one, or with the machine, which loses what was not forced to disk. So one run that is watched shows the states of all
deaths that it could die, and each is put into an empty folder and resumed there by the command, watched in its turn for
the next death. Deaths of real processes are in :mod:`tests.torture.processes`; they end alike.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.damage import Left, call
from tests.torture.faults import DEATHS, ERRORS, Contents, Faults, Snapshots, write_contents
from tests.torture.processes import begun_in, check_failed
from tests.torture.world import World


@dataclass(frozen=True)
class Kind:
    """How the run is asked for. ``alike``: it must have the bits of the plain run too."""

    name: str
    options: tuple[str, ...] = ()
    allocates: bool = True
    alike: bool = True


PLAIN = Kind("plain")
STREAMED = Kind("streamed", ("--memory-limit", "2GiB"))
MEASURED = Kind("measured", ("--diagnostics", "2"), alike=False)
PLANNED = Kind("planned again", ("--replan", "1", "--explore", "1"), alike=False)
WEIGHTS = Kind("weights on the wire", ("--method", "fedit", "--lr", "0.01"), allocates=False, alike=False)


@dataclass(frozen=True)
class Watched:
    """``whole``: a run that nothing disturbed; ``left``: what a death at each of its operations leaves."""

    whole: Path
    left: list[Contents]


_WATCHED: dict[tuple[Path, str], Watched] = {}


def watched(world: World, kind: Kind) -> Watched:
    """Made once in a process."""
    key = (world.folder, kind.name)
    if key not in _WATCHED:
        place = world.folder / "watched" / kind.name.replace(" ", "-")
        shutil.rmtree(place, ignore_errors=True)
        runs, deaths = place / "runs", []
        with Snapshots(runs, lambda at, left: deaths.extend(left(death) for death in DEATHS)):
            answer = _begin(world, kind, runs)
        whole = Path(answer["run"])
        if kind.alike:
            world.check_run(whole)
        deaths.extend(_after(runs))
        _WATCHED[key] = Watched(whole, deaths)
    return _WATCHED[key]


def _after(runs: Path) -> list[Contents]:
    """What a death just after the last operation leaves."""
    from tests.torture.faults import read_contents

    return [read_contents(str(runs))]


def _begin(world: World, kind: Kind, runs: Path) -> dict:
    left = world.train(runs, *kind.options, allocates=kind.allocates)
    assert left.status == 0, left
    return json.loads(left.out)


def deaths_of(kind: Kind) -> Callable[[World, random.Random, Path], int]:
    """The attack on runs of that kind."""

    def attack(world: World, random_: random.Random, folder: Path) -> int:
        """A death, and up to three more while it is resumed; each state is resumed to the bits of the whole run."""
        of_kind, deaths = watched(world, kind), 0
        left = random_.choice(of_kind.left)
        for death in range(random_.randint(2, 4)):
            runs = folder / f"runs-{death}"
            write_contents(runs, left)
            left = _finish(world, kind, runs, of_kind.whole, random_)
            deaths += 1
            if left is None:
                break
        return deaths

    attack.__doc__ = f"{attack.__doc__} ({kind.name})"
    return attack


def _finish(world: World, kind: Kind, runs: Path, whole: Path, random_: random.Random) -> Contents | None:
    """Resume what a death left, and compare. Returns what a death at one of these operations would leave, each as
    probable as the other; None where there was nothing left to do."""
    begun, next_left = begun_in(runs), None
    if begun is not None and (begun / "summary.json").is_file():
        world.check_run(begun, whole)
        return None

    def look(at: int, left: Callable[[str], Contents]) -> None:
        nonlocal next_left
        if random_.random() * at < 1:
            next_left = left(random_.choice(DEATHS))

    with Snapshots(runs, look):
        if begun is None:
            begun = Path(_begin(world, kind, runs)["run"])
        else:
            resumed = call("resume", str(begun), "--json")
            assert resumed.status == 0, resumed
    world.check_run(begun, whole)
    return next_left


def failing_disk(world: World, random_: random.Random, folder: Path) -> int:
    """The disk fills, fails or becomes read-only at one operation, once or for good: one line, and resumed alike."""
    of_kind = watched(world, PLAIN)
    kind, at = random_.choice(sorted(ERRORS)), random_.randint(1, len(of_kind.left) // len(DEATHS))
    with Faults(folder, kind, at, once=random_.random() < 0.5):
        left: Left = world.train(folder / "runs")
    check_failed(left)
    listed = call("runs", str(folder / "runs"), "--json")
    assert listed.status == 0, listed
    begun = begun_in(folder / "runs")
    if begun is None or not (begun / "summary.json").is_file():
        _finish(world, PLAIN, folder / "runs", of_kind.whole, random_)
    else:
        world.check_run(begun, of_kind.whole)
    return 1
