"""Malformed requests: options with values that nobody means, and lines of a few words."""

from __future__ import annotations

import random
from pathlib import Path

from tests.cli.test_extreme_options import SMALL, VALUES, cases, check_option, places_in
from tests.damage import call, check_refused, tree
from tests.torture.world import World

MORE_VALUES = (
    *VALUES, "1_000", "0x10", "1e3", "+1", "--", "-", "\\", "'", '"', "\x00"[:0], "a\nb", "\x1b[31m", "%s", "{x}",
    "../../etc", "~", "$HOME", "\u202e", "\u0000"[:0], "NaN", "null", "[]", "{}", "1,2,3", "1;2", "1e-400", "-1e-400",
    str(2**31), str(2**32), str(2**53 + 1), str(-(2**63)), "1000000", "9" * 19, "a" * 5000, "é" * 200, "/proc/1/root",
    "/dev/zero", "/dev/full", "/", ".", "..",
)  # fmt: skip
# What asks for so much work that it takes long by right.
_LONG = {"--rounds", "--first-rounds", "--time-limit", "--epsilons", "--clients", "--eval-every", "--num-seeds"}
_CASES = cases()


def options(world: World, random_: random.Random, folder: Path) -> int:
    """One option of one command with a value that nobody means."""
    key, option, value = random_.choice(_CASES)
    if random_.random() < 0.6 and option not in _LONG:
        value = random_.choice(MORE_VALUES)
    if (key, option) == ("make-base", "--out"):
        return 0
    work = folder / "near" / "work"  # "../../etc" is a place of this attempt alone
    work.mkdir(parents=True)
    check_option(key, option, value, work, places_in(folder, world.model, world.whole))
    return 1


def words(world: World, random_: random.Random, folder: Path) -> int:
    """A command line of a few words, half of them real options."""
    name = random_.choice(sorted(SMALL)).split(" a ")[0].split(" the ")[0].split(" by ")[0]
    flags = sorted({option for key, option, _ in _CASES if key == name and option and option not in _LONG})
    line = name.split()
    for _ in range(random_.randint(1, 5)):
        word = random_.choice(flags) if flags and random_.random() < 0.5 else random_.choice(MORE_VALUES)
        line.append(random_.choice((word, word, f"--{word}", f"{word}={random_.choice(MORE_VALUES)}")))
    if name in ("make-base", "bench", "experiment", "report", "federation up", "tune", "train", "export"):
        line += ["--no-such-option"] * 2  # it must not start what takes minutes by right; the first may be a value
    before = tree(folder)
    left = call(*line)
    assert left.status in (0, 1, 2), left
    assert "Traceback" not in left.err, left.err
    if left.status and not left.out.strip():
        check_refused(left)
        assert tree(folder) == before, "it left files behind"
    return 1
