"""A short torture: the first attempts of every attack with one seed. Hours of it: ``python -m tests.torture``."""

from __future__ import annotations

import os
import random

import pytest

from tests.torture.attacks import ATTACKS, crash_at, operations
from tests.torture.children import in_child
from tests.torture.faults import KILLED, Faults
from tests.torture.world import World, build
from zorba_core.files import write_json
from zorba_core.runs import resume as resuming
from zorba_core.runs import session


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    before, divide = os.getcwd(), session.divide_rows
    yield build(tmp_path_factory.mktemp("torture"))
    os.chdir(before)
    session.divide_rows = resuming.divide_rows = divide


@pytest.mark.parametrize("name", ATTACKS)
def test_no_promise_is_broken(world, name):
    for number in range(2 if ATTACKS[name][3] > 2 else 1):
        ATTACKS[name][0](world, random.Random(f"0 {name} {number}"))


def test_a_run_takes_operations_at_which_it_can_be_stopped(world):
    assert operations(world) > 40


@pytest.mark.parametrize("kind", ["lost", "full"])
def test_a_crash_in_the_middle_of_a_run_ends_alike(world, kind):
    crash_at(world, random.Random(0), kind, 30, once=False)


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
