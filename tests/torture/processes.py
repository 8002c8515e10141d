"""Crashes of real processes: ended by the kernel, by a signal, beside another on the same run, or with a wild clock."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from tests.damage import Left, call, check_refused
from tests.torture.children import Ended, await_end, in_child, resident_bytes, start
from tests.torture.faults import DEATHS, ERRORS, KILLED, KINDS, Faults, jumping_clock
from tests.torture.world import World


def succeed(ended: Ended) -> Any:
    """What a child's work returned; raises where it broke a promise."""
    assert not ended.hung, "it hung"
    assert not ended.error, ended.error
    assert ended.status == 0, f"it ended with {ended.status}"
    assert ended.grown_bytes < 4 * 2**30, f"it took {ended.grown_bytes / 2**30:.1f} GiB"
    return ended.result


def operations(world: World, folder: Path) -> int:
    """How many file operations a whole run takes."""
    if world.folder not in _COUNTED:
        counting = folder.with_name("counting")
        shutil.rmtree(counting, ignore_errors=True)

        def work() -> int:
            with Faults(counting) as faults:
                assert world.train(counting / "runs").status == 0
            return faults.count

        _COUNTED[world.folder] = succeed(in_child(work, counting))
        shutil.rmtree(counting)
    return _COUNTED[world.folder]


_COUNTED: dict[Path, int] = {}


def crash(world: World, random_: random.Random, folder: Path) -> int:
    """One file operation of a process goes wrong; resumed, or begun again where nothing was there, it ends alike."""
    at = random_.randint(1, operations(world, folder))
    return crash_at(world, random_, folder, random_.choice(KINDS), at, once=random_.random() < 0.5)


def crash_at(world: World, random_: random.Random, folder: Path, kind: str, at: int, *, once: bool) -> int:
    def begin() -> Left:
        Faults(folder, kind, at, once=once).install()
        if random_.random() < 0.2:
            jumping_clock(random_)
        return world.train(folder / "runs")

    ended = in_child(begin, folder)
    if kind in ERRORS and ended.status != KILLED:
        check_failed(succeed(ended))
    else:
        assert ended.status in (KILLED, 0), ended
    return 1 + finish(world, random_, folder, crashes=random_.randint(0, 2))


def check_failed(left: Left) -> None:
    """Done, or failed in one line."""
    assert left.status in (0, 1, 2), left
    assert "Traceback" not in left.err, left.err
    if left.status:
        assert left.lines, "it failed without a word"
        assert left.lines[-1].startswith("zorba: "), left.err


def finish(world: World, random_: random.Random, folder: Path, *, crashes: int = 0) -> int:
    """Resume what a process left behind, with crashes on the way, to the bits of the whole run; how many crashes."""
    runs = folder / "runs"
    listed = succeed(in_child(lambda: call("runs", str(runs), "--json"), folder))
    assert listed.status == 0, listed
    begun = begun_in(runs)
    if begun is None:
        left = succeed(in_child(lambda: world.train(runs), folder))
        assert left.status == 0, left
        world.check_run(Path(json.loads(left.out)["run"]))
        return 0
    for _ in range(crashes):
        kind, at = random_.choice(DEATHS), random_.randint(1, operations(world, folder))

        def again(kind: str = kind, at: int = at) -> Left:
            Faults(folder, kind, at).install()
            return call("resume", str(begun))

        in_child(again, folder)
    if not (begun / "summary.json").is_file():
        left = succeed(in_child(lambda: call("resume", str(begun), "--json"), folder))
        assert left.status == 0, left
    world.check_run(begun)
    return crashes


def begun_in(runs: Path) -> Path | None:
    """The run that can be resumed: its allocation is the last file that a resume cannot do without."""
    begun = [path for path in sorted(runs.glob("*")) if (path / "allocation.npz").is_file()] if runs.is_dir() else []
    return begun[0] if begun else None


def signals(world: World, random_: random.Random, folder: Path) -> int:
    """A signal at any moment of a run; then it is resumed."""
    answer = folder.with_name("signals.answer")
    child = start(lambda: world.train(folder / "runs"), answer)
    number = random_.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGHUP))
    time.sleep(random_.random() * 1.5)
    os.kill(child, number)
    if number == signal.SIGSTOP:
        time.sleep(0.2)
        os.kill(child, signal.SIGCONT)
    ended = await_end(child, answer, grown_from=resident_bytes())
    answer.unlink(missing_ok=True)
    assert not ended.hung, "it hung"
    left = ended.result
    if left is not None:  # it ended by itself
        assert left.status in (0, 1), left
        assert "Traceback" not in left.err, left.err
    else:
        assert ended.status == -number or "KeyboardInterrupt" in ended.error, ended  # before the command listened
    for path in (folder / "runs").glob("*/summary.json"):
        if json.loads(path.read_text())["stopped_by"] == "interrupt":
            resumed = succeed(in_child(lambda path=path: call("resume", str(path.parent)), folder))
            assert resumed.status == 0, resumed
    finish(world, random_, folder)
    return 1


def two_processes(world: World, random_: random.Random, folder: Path) -> int:
    """Two processes resume one run: one does it, the other is refused or comes too late."""
    run = shutil.copytree(world.whole, folder / "runs" / "run")
    (run / "summary.json").unlink()
    log = (run / "trajectory.log").read_bytes()
    (run / "trajectory.log").write_bytes(log[: random_.randint(0, len(log))])
    answers = [folder.with_name(f"two-{number}.answer") for number in (0, 1)]
    children = []
    for answer in answers:
        children.append(start(lambda: call("resume", str(run), "--json"), answer))
        time.sleep(random_.random() * 0.3)
    done = [succeed(await_end(child, answer)) for child, answer in zip(children, answers, strict=True)]
    for answer in answers:
        answer.unlink()
    assert sorted(left.status for left in done) == [0, 2], done
    check_refused(next(left for left in done if left.status))
    world.check_run(run)
    return 1


def clock(world: World, random_: random.Random, folder: Path) -> int:
    """A clock that jumps changes no bit."""
    mend = jumping_clock(random_)
    try:
        left = world.train(folder / "runs")
    finally:
        mend()
    assert left.status == 0, left
    world.check_run(Path(json.loads(left.out)["run"]))
    return 1
