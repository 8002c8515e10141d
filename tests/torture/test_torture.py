"""A short torture: the first attempts of every attack with one seed. Hours of it: ``python -m tests.torture``."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.torture.__main__ import torture
from tests.torture.attacks import ATTACKS
from tests.torture.batches import run_batch
from tests.torture.children import in_child
from tests.torture.faults import DEATHS, KILLED, Faults, Snapshots
from tests.torture.processes import crash_at, operations
from tests.torture.world import World, build, quicken, small_folder
from zorba_core.files import write_json

FEW = {"options": 6, "words": 6, "inputs": 12, "numbers": 12, "crash": 2}  # else one of each


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    before, put_back = os.getcwd(), quicken()
    yield build(Path(os.path.realpath(tmp_path_factory.mktemp("torture"))))
    os.chdir(before)
    put_back()


@pytest.mark.parametrize("name", ATTACKS)
def test_no_promise_is_broken(world, name):
    result = torture(world, seed=0, seconds=600, only=[name], attempts=FEW.get(name, 1))
    assert not result["first_failures"], result["first_failures"][0]["what"]
    assert result["attacks"][name]["counted"] > 0


def test_a_death_at_an_operation_leaves_what_the_snapshot_of_it_shows(world):
    """Else the states that the crashes start from would not be those of real processes."""
    from tests.torture.faults import read_contents

    folder = small_folder(world, "compared")
    states = []
    target = folder / "watched" / "a.json"
    target.parent.mkdir()
    with Snapshots(target.parent, lambda at, left: states.append({kind: left(kind) for kind in DEATHS})):
        _write_some(target)
    for at in range(1, len(states) + 1):
        for kind in ("torn", "lost") if at % 3 else ("stop",):
            place = folder / f"{kind}-{at}"
            place.mkdir()

            def work(place: Path = place, kind: str = kind, at: int = at) -> None:
                Faults(place, kind, at).install()
                _write_some(place / "a.json")

            assert in_child(work, folder / "child").status == KILLED
            assert _nameless(read_contents(str(place))) == _nameless(states[at - 1][kind])


def _write_some(target: Path) -> None:
    with open(target.with_name("log"), "ab", buffering=0) as log:
        os.write(log.fileno(), b"0123456789")
        os.fsync(log.fileno())
        os.write(log.fileno(), b"abcdefghij")
    write_json(target, {"a": 2})


def _nameless(contents: dict) -> list:
    """Temporary names are drawn."""
    return sorted((name if not name.startswith(".") else ".", content or b"") for name, content in contents.items())


def test_a_run_has_operations_at_which_it_can_die(world):
    assert operations(world, small_folder(world, "counted")) > 40


@pytest.mark.parametrize("kind", ["lost", "full"])
def test_a_crash_in_the_middle_of_a_run_ends_alike(world, kind):
    crash_at(world, random.Random(0), small_folder(world, "crash"), kind, 30, once=False)


def test_an_attempt_that_fails_hangs_or_ends_its_process_is_named(world, monkeypatch):
    monkeypatch.setattr("tests.torture.batches.SECONDS", 0.2)
    folder = small_folder(world, "batches")

    def work(number: int) -> int:
        if number == 2:
            raise AssertionError("a broken promise")
        if number == 4:
            os._exit(9)
        while number == 6:
            time.process_time()
        if number == 8:
            work.left = open(folder / "left", "w")  # noqa: SIM115 - it is to be left open
        return 1

    for number, says in ((2, "a broken promise"), (4, "ended with 9"), (6, "it hung"), (8, "files left open")):
        attempts = run_batch(work, range(number - 1, number + 2), folder)
        assert [attempt.number for attempt in attempts] == [number - 1, number]
        assert attempts[0].counted == 1
        assert says in attempts[1].error
        assert "alone too" in attempts[1].error


def test_the_faults_are_felt(tmp_path):
    """Else the crashes above would show nothing."""
    target = tmp_path / "inside" / "a.json"
    target.parent.mkdir()

    def work() -> None:
        Faults(target.parent, "torn", 2).install()
        write_json(target, {"a": 1})

    ended = in_child(work, tmp_path / "child")
    assert ended.status == KILLED
    assert not target.exists()
    hungry = in_child(lambda: bytearray(6 * 2**30), tmp_path / "child")
    assert "MemoryError" in hungry.error
