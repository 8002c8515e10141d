"""The attacks: each makes one attempt from its own random numbers and raises where a promise is broken.

Promises: no traceback, no hang, no allocation over 4 GiB that was not asked for, one line and exit status 1 or 2 where
a request or a file is refused, and never other numbers without a word.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.cli.test_extreme_options import SMALL, VALUES, cases, check_option, places_in
from tests.damage import Left, call, check_refused, damage_bytes, damage_json, damaged, tree
from tests.runs.test_damaged_runs import FILES, check_listing
from tests.test_damaged_files import check_file
from tests.torture.children import Ended, await_end, in_child, resident_bytes, start
from tests.torture.faults import ERRORS, KILLED, KINDS, Faults, jumping_clock
from tests.torture.messages import attack_client, attack_server
from tests.torture.world import ALLOCATION, World, small_folder
from zorba_core.allocation import allocation_from_file
from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments.store import read_tables
from zorba_core.study.ledger.claims import read_ledger

Attack = Callable[[World, random.Random], None]
MORE_VALUES = (
    *VALUES, "1_000", "0x10", "1e3", "+1", "--", "-", "\\", "'", '"', "\x00"[:0], "a\nb", "\x1b[31m", "%s", "{x}",
    "../../etc", "~", "$HOME", "\u202e", "\u0000"[:0], "NaN", "null", "[]", "{}", "1,2,3", "1;2", "1e-400", "-1e-400",
    str(2**31), str(2**32), str(2**53 + 1), str(-(2**63)), "1000000", "9" * 19, "a" * 5000, "é" * 200, "/proc/1/root",
    "/dev/zero", "/dev/full", "/", ".", "..",
)  # fmt: skip
# What asks for so much work that it takes long by right.
_LONG = {"--rounds", "--first-rounds", "--time-limit", "--epsilons", "--clients", "--eval-every", "--num-seeds"}


def succeed(ended: Ended) -> Any:
    """What a child's work returned; raises where it broke a promise."""
    assert not ended.hung, "it hung"
    assert not ended.error, ended.error
    assert ended.status == 0, f"it ended with {ended.status}"
    assert ended.grown_bytes < 4 * 2**30, f"it took {ended.grown_bytes / 2**30:.1f} GiB"
    return ended.result


# -- options -----------------------------------------------------------------------------------------------------------


def options(world: World, random_: random.Random) -> None:
    """One option of one command with a value that nobody means."""
    folder = small_folder(world, "options")
    key, option, value = random_.choice(_CASES)
    if random_.random() < 0.6 and option not in _LONG:
        value = random_.choice(MORE_VALUES)
    if (key, option) == ("make-base", "--out"):
        return

    def work() -> None:
        work_folder = folder / "work"
        work_folder.mkdir()
        check_option(key, option, value, work_folder, places_in(folder, world.model, world.whole))

    succeed(in_child(work, folder))


def words(world: World, random_: random.Random) -> None:
    """A command line of a few words, half of them real options."""
    folder = small_folder(world, "words")
    name = random_.choice(sorted(SMALL)).split(" a ")[0].split(" the ")[0].split(" by ")[0]
    flags = sorted({option for key, option, _ in _CASES if key == name and option and option not in _LONG})
    line = name.split()
    for _ in range(random_.randint(1, 5)):
        word = random_.choice(flags) if flags and random_.random() < 0.5 else random_.choice(MORE_VALUES)
        line.append(random_.choice((word, word, f"--{word}", f"{word}={random_.choice(MORE_VALUES)}")))
    if name in ("make-base", "bench", "experiment", "report", "federation up", "tune", "train", "export"):
        line.append("--no-such-option")  # it must not start what takes minutes by right

    def work() -> Left:
        before = tree(folder)
        left = call(*line)
        assert left.status in (0, 1, 2), left
        assert "Traceback" not in left.err, left.err
        if left.status and not left.out.strip():
            check_refused(left)
            assert tree(folder) == before, "it left files behind"
        return left

    succeed(in_child(work, folder))


_CASES = cases()


# -- files -------------------------------------------------------------------------------------------------------------


def inputs(world: World, random_: random.Random) -> None:
    """A damaged allocation, fleet, scenario or model."""
    folder, seed = small_folder(world, "inputs"), random_.randrange(2**32)
    succeed(in_child(lambda: check_file(folder, seed), folder))


def listing(world: World, random_: random.Random) -> None:
    """A damaged run beside a healthy one."""
    folder, seed = small_folder(world, "listing"), random_.randrange(2**32)
    (folder / "runs").mkdir()
    succeed(in_child(lambda: check_listing(world.whole, folder / "runs", seed), folder))


def going_on(world: World, random_: random.Random) -> None:
    """A damaged run is resumed to the same bits, or refused and left as it is."""
    folder = small_folder(world, "going-on")
    run = shutil.copytree(world.whole, folder / "runs" / "run")
    if random_.random() < 0.7:
        (run / "summary.json").unlink()
    name = random_.choice([name for name in FILES if (run / name).is_file()])
    (run / name).write_bytes(damaged(random_, name, (run / name).read_bytes()))

    def work() -> None:
        before = tree(run)
        for command in (("replay", str(run), "--save", str(folder / "model")), ("resume", str(run))):
            left = call(*command, "--json")
            if left.status:
                check_refused(left)
                assert tree(run) == before, f"{command[0]} changed what it refused"
            elif command[0] == "resume":
                world.check_run(run)
            elif name == "trajectory.log":
                assert json.loads(left.out)["round"] <= 4
            else:
                assert json.loads(left.out)["weights_sha256"] == world.weights_sha256

    succeed(in_child(work, folder))


def numbers(world: World, random_: random.Random) -> None:
    """A damaged file that carries numbers is noticed when it is read, or has the numbers that it had."""
    name = random_.choice(sorted(_READERS))
    whole, read = (world.folder / name).read_bytes(), _READERS[name]
    folder = small_folder(world, "numbers")
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    for other in (world.folder / name).parent.glob("*.parquet"):
        shutil.copy(other, path.parent)
    path.write_bytes(whole)
    expected = read(path)
    spoil = damage_json if path.suffix == ".json" and random_.random() < 0.3 else damage_bytes
    path.write_bytes(spoil(random_, whole))
    stripped = b"sha256" not in path.read_bytes()  # the checksum itself is gone, as in files of before

    def work() -> None:
        said = ""
        try:
            value = read(path)
        except InvalidInputError as error:
            value, said = expected, str(error)
        assert "\n" not in said
        assert len(said) < 1200
        assert value == expected or stripped, "other numbers without a word"

    succeed(in_child(work, folder))


_READERS: Mapping[str, Callable[[Path], Any]] = {
    "allocation.npz": lambda path: allocation_from_file(path).A_MN.tolist(),
    "allocation.json": lambda path: allocation_from_file(path).A_MN.tolist(),
    "allocation.csv": lambda path: allocation_from_file(path).A_MN.tolist(),
    "ledger.json": lambda path: repr(read_ledger(path)),
    "tables/runs.parquet": lambda path: [repr(table.to_dict("list")) for table in read_tables(path.parent)],
    "tables/curves.parquet": lambda path: [repr(table.to_dict("list")) for table in read_tables(path.parent)],
}


def own_rows(world: World, random_: random.Random) -> None:
    """Damaged rows of a user's own, and a damaged task: read, or refused in one line."""
    folder = small_folder(world, "rows")
    name = random_.choice(("rows.csv", "rows.jsonl"))
    (folder / name).write_bytes(damaged(random_, name, (world.folder / name).read_bytes()))

    def work() -> None:
        left = call("task", "check", str(folder / name), "--model", str(world.model), "--seq-len", "48")
        assert left.status in (0, 1, 2)
        assert "Traceback" not in left.err
        if left.status:
            assert left.lines, "refused without a word"
            assert left.lines[-1].startswith("zorba: "), left.err

    succeed(in_child(work, folder))


def model_files(world: World, random_: random.Random) -> None:
    """A model folder of which one file is damaged: loaded with the weights it had, or refused in one line."""
    folder = small_folder(world, "model")
    model = shutil.copytree(world.model, folder / "tiny")
    name = random_.choice(sorted(path.name for path in model.iterdir()))
    (model / name).write_bytes(damaged(random_, name, (model / name).read_bytes()))

    def work() -> None:
        before = tree(folder)
        left = call("replay", str(world.whole), "--round", "0", "--model", str(model), "--json")
        if left.status:
            check_refused(left)
        elif name == "model.safetensors":  # its weights have a fingerprint in the run
            assert json.loads(left.out)["round"] == 0
        assert tree(folder) == before

    succeed(in_child(work, folder))


# -- crashes -----------------------------------------------------------------------------------------------------------


def operations(world: World) -> int:
    """How many file operations a whole run takes."""
    folder = small_folder(world, "count")

    def work() -> int:
        faults = Faults(folder).install()
        assert world.train(folder / "runs").status == 0
        return faults.count

    return succeed(in_child(work, folder))


def crash(world: World, random_: random.Random) -> None:
    """One file operation of a run goes wrong; resumed, or begun again where nothing was there, it ends alike."""
    crash_at(world, random_, random_.choice(KINDS), random_.randint(1, _count(world)), once=random_.random() < 0.5)


def crash_at(world: World, random_: random.Random, kind: str, at: int, *, once: bool) -> None:
    folder = small_folder(world, "crash")

    def begin() -> Left:
        Faults(folder, kind, at, once=once).install()
        if random_.random() < 0.2:
            jumping_clock(random_)
        return world.train(folder / "runs")

    ended = in_child(begin, folder)
    if kind in ERRORS and ended.status != KILLED:
        left = succeed(ended)
        assert left.status in (0, 1, 2), left
        assert "Traceback" not in left.err, left.err
        if left.status:
            assert left.lines, "it failed without a word"
            assert left.lines[-1].startswith("zorba: "), left.err
    else:
        assert ended.status in (KILLED, 0), ended
    finish(world, random_, folder, crashes=random_.randint(0, 2))


def finish(world: World, random_: random.Random, folder: Path, *, crashes: int = 0) -> None:
    """Resume what a process left behind, perhaps with crashes on the way, to the bits of the whole run."""
    runs = folder / "runs"
    listed = succeed(in_child(lambda: call("runs", str(runs), "--json"), folder))
    assert listed.status == 0, listed
    begun = [path for path in runs.glob("*") if (path / "allocation.npz").is_file()] if runs.is_dir() else []
    if not begun:
        left = succeed(in_child(lambda: world.train(runs), folder))
        assert left.status == 0, left
        world.check_run(Path(json.loads(left.out)["run"]))
        return
    for _ in range(crashes):
        kind, at = random_.choice(KINDS[:3]), random_.randint(1, _count(world))

        def again(kind: str = kind, at: int = at) -> Left:
            Faults(folder, kind, at).install()
            return call("resume", str(begun[0]))

        in_child(again, folder)
    if not (begun[0] / "summary.json").is_file():
        left = succeed(in_child(lambda: call("resume", str(begun[0]), "--json"), folder))
        assert left.status == 0, left
    world.check_run(begun[0])


def _count(world: World) -> int:
    if world.folder not in _COUNTED:
        _COUNTED[world.folder] = operations(world)
    return _COUNTED[world.folder]


_COUNTED: dict[Path, int] = {}


# -- signals, two processes, clocks ------------------------------------------------------------------------------------


def signals(world: World, random_: random.Random) -> None:
    """A signal at any moment of a run; then it is resumed."""
    folder = small_folder(world, "signals")
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


def two_processes(world: World, random_: random.Random) -> None:
    """Two processes resume one run: one does it, the other is refused or comes too late."""
    folder = small_folder(world, "two")
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


def clock(world: World, random_: random.Random) -> None:
    """A clock that jumps changes no bit."""
    folder = small_folder(world, "clock")

    def work() -> Left:
        jumping_clock(random_)
        return world.train(folder / "runs")

    left = succeed(in_child(work, folder))
    assert left.status == 0, left
    world.check_run(Path(json.loads(left.out)["run"]))


# -- messages ----------------------------------------------------------------------------------------------------------


def to_clients(world: World, random_: random.Random) -> None:
    """Malformed messages to a client."""
    succeed(in_child(lambda: attack_client(world, random_, 40), small_folder(world, "client")))


def to_server(world: World, random_: random.Random) -> None:
    """Malformed answers to a server."""
    succeed(in_child(lambda: attack_server(world, random_, 40), small_folder(world, "server")))


# How many malformed inputs, damaged files or crashes an attempt counts as, and how often it is made.
ATTACKS: Mapping[str, tuple[Attack, str, int, int]] = {
    "options": (options, "malformed inputs", 1, 6),
    "words": (words, "malformed inputs", 1, 6),
    "inputs": (inputs, "damaged files", 1, 6),
    "listing": (listing, "damaged files", 1, 4),
    "going on": (going_on, "damaged files", 1, 3),
    "numbers": (numbers, "damaged files", 1, 8),
    "own rows": (own_rows, "damaged files", 1, 3),
    "model files": (model_files, "damaged files", 1, 3),
    "crash": (crash, "crashes", 1, 4),
    "signals": (signals, "crashes", 1, 2),
    "two processes": (two_processes, "crashes", 1, 1),
    "clock": (clock, "clocks that jump", 1, 1),
    "messages to clients": (to_clients, "malformed inputs", 40, 1),
    "messages to the server": (to_server, "malformed inputs", 40, 1),
}
assert ALLOCATION.num_clients == 3  # the attempts name clients by number
